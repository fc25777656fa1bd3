"""Values that several unit tests start from, and hypothesis strategies for limits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.limits import Limits, LimitsError
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.rules.model import Rules
from tests import depth

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
GUEST = "1ebc1454-0d31-4367-8c90-06e18daa66f9"
VOLUME = "e725b0de-c647-4620-be6b-d427f6cb59cf"
PROJECT = "76f321b2fd294e5fa90eb0525110f9e2"
OF_0_1_0 = Path(__file__).parent / "data" / "state-0.1.0"
"""A state directory that plimsoll 0.1.0 left; its README tells by which commands."""


def examples_of(usual: int) -> settings:
    """That many examples, fewer or more by the depth of the run."""
    return settings(
        suppress_health_check=[HealthCheck.too_slow],  # the machine may be busy
        database=None,  # a test run leaves nothing behind
        max_examples=depth.examples(usual),
    )


examples = examples_of(150)


def a_guest(**other: Any) -> Guest:
    return Guest(
        **{
            "uuid": GUEST,
            "name": "instance-00000001",
            "run": "3",
            "display_name": "web",
            "project": PROJECT,
            "project_name": "shop",
            "flavor": "m1.small",
        }
        | other
    )


def a_disk(guest: Guest | None = None, **other: Any) -> Disk:
    """A volume that is unlimited in QEMU and in libvirt's definition."""
    return Disk(
        **{
            "guest": guest or a_guest(),
            "target": "vdb",
            "pool": "volumes",
            "image": f"volume-{VOLUME}",
            "node": "2",
            "volume_id": VOLUME,
            "defined": Limits(),
            "actual": Limits(),
        }
        | other
    )


def a_situation(rules: Rules | None = None, memory: Mapping[str, Remembered] | None = None) -> Situation:
    return Situation(now=NOON, rules=rules or Rules(), memory=memory or {})


# --- strategies. Written against libvirt's documentation, not read off the code under test.

SIX = tuple(f"{scope}_{unit}_sec" for scope in ("total", "read", "write") for unit in ("bytes", "iops"))
NINETEEN = (*(base + ending for base in SIX for ending in ("", "_max", "_max_length")), "size_iops_sec")
MOST = 10**15

_numbers = st.sampled_from([0, 0, 0, 1, 2, 30, 250, 251, 500, 10**9, MOST - 1, MOST, MOST + 1, -1])


@st.composite
def _near_misses(draw: st.DrawFn) -> dict[str, int]:
    """A possible set in which up to two numbers were replaced."""
    given = dict(draw(_possible()))
    for _ in range(draw(st.integers(0, 2))):
        given[draw(st.sampled_from(NINETEEN))] = draw(_numbers)
    return given


@st.composite
def _possible(draw: st.DrawFn) -> dict[str, int]:
    given: dict[str, int] = {}
    for unit in ("bytes", "iops"):
        for scope in draw(st.sampled_from([(), ("total",), ("read",), ("write",), ("read", "write")])):
            base = f"{scope}_{unit}_sec"
            rate = given[base] = draw(st.integers(1, 1000) | st.sampled_from([1, MOST]))
            if draw(st.booleans()):
                peak = given[f"{base}_max"] = min(rate + draw(st.integers(0, 1000)), MOST)
                given[f"{base}_max_length"] = draw(st.integers(0, min(60, MOST // peak)))
            elif draw(st.booleans()):
                given[f"{base}_max_length"] = draw(st.integers(0, 1))
    if any(given.get(base) for base in SIX if "iops" in base):
        given["size_iops_sec"] = draw(st.sampled_from([0, 0, 1, 4096, MOST]))
    return given


possible_numbers = _possible()
any_numbers = st.one_of(_near_misses(), st.dictionaries(st.sampled_from(NINETEEN), _numbers))


@st.composite
def possible_limits(draw: st.DrawFn) -> Limits:
    limits = draw(possible_numbers)
    group = draw(st.sampled_from([None, None, "a", "b"])) if any(limits.get(base) for base in SIX) else None
    return Limits(**limits, group_name=group)


@st.composite
def pairs_of_limits(draw: st.DrawFn) -> tuple[Limits, Limits]:
    """Two sets of limits that differ in a few numbers, or altogether."""
    before = draw(possible_limits())
    numbers = before.full_set()
    for name in draw(st.lists(st.sampled_from(NINETEEN), min_size=1, max_size=3)):
        old = getattr(before, name)
        numbers[name] = draw(st.sampled_from([0, old // 2, max(old - 1, 0), old + 1, 2 * old + 1]))
    numbers["group_name"] = draw(st.sampled_from([before.group_name, before.group_name, "b"]))
    try:
        return before, Limits.from_mapping(numbers)
    except LimitsError:
        return before, draw(possible_limits())


def golden(file: Path) -> dict[str, list[str]]:
    """The lines of a file of words by section; ``#`` begins a comment."""
    sections: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            section.append(line)
    return sections
