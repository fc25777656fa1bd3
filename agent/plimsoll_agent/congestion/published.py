"""What the publisher tells all nodes: the factor of each device class of a cluster, in a signed file that expires.

Callers check the signature before they read one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from plimsoll_agent.catalogue.model import CatalogueError, NewerCatalogue, check_envelope
from plimsoll_agent.congestion.law import ClassState
from plimsoll_agent.congestion.signal import PoolKey
from plimsoll_agent.util import decoding
from plimsoll_agent.util.decoding import Amount, Ratio, count, data_of, several, text, time, value_of
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import second

KIND, VERSION = "plimsoll-congestion", 1
NAME = "congestion-{}.json"
"""As a node has fetched it, in the catalogue's directory, by its number in the settings."""
LASTS = timedelta(seconds=90)
"""A file counts for so long. So late may a lost publisher be noticed, and so far may clocks be apart."""
MOST_BYTES = 2**20
"""A pool takes some 100 bytes."""
ClassKey = tuple[str, str]
"""Cluster (its fsid) and device class."""


class Gap(StrEnum):
    """Why there is no signal."""

    NO_REQUESTS = "no-requests"
    """Of light disks, or too few."""
    TOO_SELDOM = "scraped-too-seldom"
    """No node's counters have two values within the time over which they are averaged."""
    CLUSTER_UNKNOWN = "cluster-unknown"
    """Counters have none of this cluster, and some with another name in the place of an fsid."""
    NO_TARGET = "no-target"
    OSDS_UNKNOWN = "osds-unknown"
    NOT_IN_OSDS = "not-in-osds"
    """The OSDs themselves are fast: the time is lost elsewhere, where lower limits do not help."""
    UNHEALTHY = "unhealthy"
    """Requests wait for what lower limits do not mend."""
    HEALTH_UNKNOWN = "health-unknown"
    NO_ANSWER = "no-answer"
    """Of Prometheus."""


@frozen(kw_only=True)
class Factor:
    """The factor of a device class, and its causes."""

    cluster: str
    device_class: str
    x: Ratio
    action: str
    """What the last period did: a ``law.Action``, or one of another version."""
    latency: Amount | None
    """Seconds that a request of light disks took; None is unknown."""
    target: Amount | None
    """Seconds; None is unknown, and then nothing is reduced."""
    why: str = ""
    """A ``Gap``, or "" with a signal."""

    @property
    def key(self) -> ClassKey:
        return self.cluster, self.device_class


@frozen(kw_only=True)
class FactorFile:
    """The file, as it was published once."""

    generation: int
    issued: datetime
    valid_until: datetime
    factors: tuple[Factor, ...] = ()
    pools: Mapping[PoolKey, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """The device classes that a pool's CRUSH rule takes."""
    states: Mapping[ClassKey, ClassState] = field(default_factory=dict, hash=False)
    """Where the law stands, for the next period."""

    def of(self, pool: PoolKey) -> Factor | None:
        """The lowest of the pool's classes; None if one of them is unknown."""
        cluster, _ = pool
        factors = {each.key: each for each in self.factors}
        names = self.pools.get(pool, ())
        its = [factors[cluster, name] for name in names if (cluster, name) in factors]
        return min(its, key=lambda factor: factor.x) if names and len(its) == len(names) else None


@frozen
class Factors:
    """What counts on a node: the newest file about each cluster, by its fsid."""

    clusters: Mapping[str, FactorFile] = field(default_factory=dict, hash=False)
    fault: str = ""
    """Why some may be missing."""


class Unusable(CatalogueError):
    """A congestion file that must not be used."""


def encode(file: FactorFile) -> bytes:
    """The file's content, an entry a line."""
    head = {
        "kind": KIND,
        "version": VERSION,
        "generation": file.generation,
        "issued": file.issued.isoformat(),
        "valid_until": file.valid_until.isoformat(),
    }
    sections = {
        "classes": ["\n " + json.dumps(_factor_data(factor)) for factor in file.factors],
        "states": ["\n " + json.dumps([*key, data_of(state)]) for key, state in file.states.items()],
        "pools": ["\n " + json.dumps([*pool, list(classes)]) for pool, classes in sorted(file.pools.items())],
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    lines += [f"{json.dumps(name)}: [{', '.join(entries)}]" for name, entries in sections.items()]
    return ("{" + ",\n".join(lines) + "}\n").encode()


def _factor_data(factor: Factor) -> dict[str, object]:
    return {"class" if name == "device_class" else name: value for name, value in data_of(factor).items()}


def decode(content: bytes, where: str, *, states: bool = False) -> FactorFile:
    """Of bytes whose signature has been checked. Raises ``Unusable``.

    Only the publisher needs ``states``, which are those of its own version.
    """
    try:
        envelope = json.loads(content.decode("utf-8"))
        check_envelope(envelope, KIND, VERSION, where)
        return FactorFile(
            generation=count(envelope["generation"]),
            issued=time(envelope["issued"]),
            valid_until=time(envelope["valid_until"]),
            factors=several(_factor, envelope["classes"]),
            pools=dict(several(_pool, envelope["pools"])),
            states=dict(several(_state, envelope["states"])) if states else {},
        )
    except NewerCatalogue as error:
        raise Unusable(str(error)) from error
    except decoding.UNREADABLE as error:
        raise Unusable(f"{where}: cannot be read as a congestion file: {decoding.complaint(error)}") from error


def _factor(value: Any) -> Factor:
    return value_of(Factor, {**value, "device_class": value["class"]})


def _state(value: Any) -> tuple[ClassKey, ClassState]:
    cluster, device_class, state = value
    return (text(cluster), text(device_class)), value_of(ClassState, state)


def _pool(value: Any) -> tuple[PoolKey, tuple[str, ...]]:
    cluster, pool, classes = value
    return (text(cluster), text(pool)), several(text, classes)


def check_fit(file: FactorFile, newest: int, now: datetime, where: str) -> None:
    """``newest`` is the highest generation seen. Raises ``Unusable``.

    A server could send an earlier file, which is signed too: it counts for as long as it is valid.
    """
    if file.generation < newest:
        raise Unusable(f"{where}: is older (generation {file.generation}) than the last one ({newest})")
    if now > file.valid_until:
        raise Unusable(f"{where}: expired at {second(file.valid_until)}; is the publisher down?")
    if file.issued - now > LASTS or file.valid_until - file.issued > LASTS:
        raise Unusable(f"{where}: is from the future ({second(file.issued)}); check the clocks")
