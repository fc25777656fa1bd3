"""Factors as the publisher makes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from plimsoll_agent.congestion.law import Action
from plimsoll_agent.congestion.published import Factor, FactorFile, encode
from tests.unit.node import FSID
from tests.unit.regionfile import a_key
from tests.unit.values import NOON


def a_factor(x: float = 0.73, device_class: str = "ssd", **other: Any) -> Factor:
    action = Action.FULL if x == 1 else Action.LOWERED
    values = {"cluster": FSID, "device_class": device_class, "x": x, "action": action.value}
    return Factor(**values | {"latency": 0.0091, "target": 0.006} | other)


def a_factor_file(*factors: Factor, **other: Any) -> FactorFile:
    """Of noon, about pools of one class and of two."""
    return FactorFile(
        **{
            "generation": 7,
            "issued": NOON,
            "valid_until": NOON + timedelta(seconds=90),
            "factors": factors or (a_factor(),),
            "pools": {(FSID, "volumes"): ("ssd",), (FSID, "mixed"): ("ssd", "hdd"), (FSID, "odd"): ()},
        }
        | other
    )


def signed_factors(fsid: str, x: float, generation: int, lasts: float = 90) -> bytes:
    """A file from now on about a real cluster, signed with ``a_key()``."""
    now = datetime.now(UTC)
    return a_key().seal(
        encode(
            a_factor_file(
                a_factor(x, cluster=fsid),
                generation=generation,
                issued=now,
                valid_until=now + timedelta(seconds=lasts),
                pools={(fsid, pool): ("ssd",) for pool in ("vms", "volumes")},
            )
        )
    )
