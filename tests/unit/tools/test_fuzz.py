"""A share of the fuzzing: every sample and every input that once found a defect, and some damage to each."""

from __future__ import annotations

import base64
import builtins
import configparser
import random
import re
from types import SimpleNamespace

import pytest

from plimsoll_agent.catalogue.model import VolumeType
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.decoding import value_of
from plimsoll_agent.util.frozen import names
from plimsoll_monitoring.region.answers import Series
from tests import depth
from tests.fuzz import run
from tests.fuzz.mutate import LONGEST, long, mutated

TARGETS = pytest.mark.parametrize("name", run.TARGETS)
LONG_ONES = depth.count(quick=1, landing=2, soak=50)
SIZE = LONGEST // depth.count(quick=8, landing=2, soak=1)
NUMBER = depth.count(quick=300, landing=1000, soak=5000)


@TARGETS
def test_every_sample_and_every_past_finding_is_read_right_or_refused(name: str) -> None:
    target = run.target_named(name)
    for data in run.corpus(name).values():
        target(data)


@TARGETS
def test_what_is_damaged_is_read_right_or_refused(name: str) -> None:
    run.by_chance(name, NUMBER)


@TARGETS
def test_what_is_long_takes_time_in_proportion(name: str) -> None:
    target, samples = run.target_named(name), list(run.corpus(name).values())
    with run.silence():
        for seed in range(LONG_ONES):
            chance = random.Random(f"{name} {seed}")
            target(long(chance.choice(samples), chance, SIZE))


def _whatever(*_: object) -> None:
    """In place of a check."""


BROKEN: dict[str, tuple[str, object]] = {
    "catalogue": (
        "plimsoll_agent.catalogue.qosspec.libvirts_number",
        lambda key, value: int(value) if value and value.isdecimal() else None,
    ),
    "ceph_conf": (
        "plimsoll_agent.model.clusters.configparser",
        SimpleNamespace(RawConfigParser=configparser.RawConfigParser, Error=KeyError),
    ),
    "ceph_log": ("plimsoll_insight.slow.events.LogClock.around", lambda clock, head: {b"2026": 0.0}[head[:4]]),
    "ceph_status": (
        "plimsoll_agent.adapters.ceph.sorted",
        lambda checks: [check for check in builtins.sorted(checks) if "_" in str(check)],
    ),
    "cinder": (
        "plimsoll_agent.catalogue.reader._type",
        lambda value: VolumeType(id=value["id"], name=value["name"], qos_spec=value.get("qos_specs_id")),
    ),
    "console": (
        "plimsoll_agent.consoles.patterns._lines",
        lambda text, literal: (
            (found.start(), text[: found.start()], text[found.end() :])
            for found in re.finditer(re.escape(literal), text)
        ),
    ),
    "database": ("plimsoll_agent.store.entries._limits", lambda value: Limits()),
    "domain_xml": (
        "plimsoll_agent.adapters.libvirt.domxml._number",
        lambda name, text: int(text) if text.isdecimal() else 0,
    ),
    "events": ("plimsoll_agent.daemon.schedule.Schedule._is_echo", lambda schedule, event, now: True),
    "fio_result": ("plimsoll_probes.guest.fio.one_line", str),
    "guest_agent": (
        "plimsoll_probes.guest.qga_exec._data",
        lambda told, key: base64.b64decode(told.get(key, "")),
    ),
    "guest_session": ("plimsoll_probes.guest.session._number", lambda said, key: int(said[key][0])),
    "memory": (
        "plimsoll_agent.store.memory_file.value_of",
        lambda kind, data, *optional: value_of(kind, {**data, "desired": None}, *optional),
    ),
    "prometheus": (
        "plimsoll_monitoring.adapters.prometheus.Prometheus._series",
        lambda self, row: Series(row["metric"], float(row["value"][1])),
    ),
    "qos_file": ("plimsoll_agent.qos.file._PLAIN_NUMBER", re.compile(".*")),
    "query_block": ("plimsoll_agent.adapters.libvirt.qmp._images", lambda file: 1 // 0),
    "query_blockstats": ("plimsoll_agent.util.decoding.UNREADABLE", (ValueError,)),
    "region": (
        "plimsoll_agent.catalogue.signed_file._once_each",
        lambda groups: {id: value for group in groups for id, value in group.items()},
    ),
    "region_seal": ("plimsoll_agent.adapters.ed25519.PublicKey.verify", _whatever),
    "rules": (
        "plimsoll_agent.util.quantities.read",
        lambda text, quantity: int(re.sub("[^0-9]", "", text) or 0),
    ),
    "state_files": (
        "plimsoll_agent.monitor.pass_summary_file.value_of",
        lambda kind, data, *optional: (
            kind(**{name: data[name] for name in names(kind) if name in data})
            if isinstance(data, dict)
            else value_of(kind, data, *optional)
        ),
    ),
}
"""For each target a part of its parser that sound input reaches, and what makes it read wrongly or fail."""


@pytest.mark.parametrize("name", run.TARGETS)
def test_each_target_finds_that_its_parser_is_broken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run.target_named(name)  # imports it: what reads samples does so with a sound parser
    monkeypatch.setattr(*BROKEN[name], raising=False)
    with pytest.raises(run.Found):
        run.by_chance(name, 3000)


def test_an_input_that_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SECONDS", -1.0)
    with pytest.raises(AssertionError, match="0 bytes took"):
        run.bounded(lambda data: None)(b"")


def test_damage_is_the_same_for_the_same_seed_and_never_too_long() -> None:
    samples = [data for name in run.TARGETS for data in run.corpus(name).values()]
    for seed, data in enumerate(samples):
        first, second = (mutated(data, random.Random(seed), run.texts(samples)) for _ in range(2))
        assert first == second
        assert len(first) <= LONGEST
