"""What a person reads of a disk: each cause with what shows it, and a disk without requests as what it is."""

from __future__ import annotations

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.explain import messages
from plimsoll_insight.explain.cause import find
from plimsoll_insight.explain.diagnosis import Diagnosis
from plimsoll_insight.explain.evidence import Evidence, Neighbour, PassInterval, SharedPlace
from plimsoll_insight.explain.guests import ExplainedDisk

CALM = PassInterval(
    at=0,
    node="n1",
    operations=100.0,
    bytes=409600.0,
    share=0.2,
    limit="write_iops_sec",
    allowed=500,
    latency=0.004,
    of_node=0.005,
    raised=(),
)
LOUD = Neighbour(uuid="u9", place=SharedPlace.NODE, unit="operations", rate=5000, share=0.9)


def explained(*intervals: PassInterval) -> tuple[ExplainedDisk, Diagnosis]:
    every = tuple(replace(one, at=300.0 * number) for number, one in enumerate(intervals))
    limits = Limits(write_iops_sec=500).in_effect()
    disk = ExplainedDisk(
        guest_uuid="u1",
        disk="vdb",
        volume="v1",
        volume_type="gold",
        pool="volumes",
        cluster="c",
        evidence=Evidence(seconds=300.0, intervals=every, usual=0.004),
        limits=limits,
    )
    return disk, find(disk.evidence)


def told(*intervals: PassInterval) -> list[str]:
    """The last is the cause."""
    lines = messages.disk_lines(*explained(*intervals), {}, {"u9": "web-9"})
    return [line.strip() for line in lines]


def tenant(*intervals: PassInterval) -> str:
    return messages.tenant_words(*explained(*intervals))


@pytest.mark.parametrize(
    ("slow", "cause"),
    [
        (replace(CALM, share=1.0), "its own limit, 500 write IOPS;"),
        (replace(CALM, latency=0.9, raised=("SLOW_OPS",)), "the cluster: SLOW_OPS;"),
        (
            replace(CALM, latency=0.9, neighbours=(LOUD,)),
            "a neighbour: guest web-9 (u9) did 90 % of all requests of the node;",
        ),
    ],
)
def test_a_cause_is_told_with_what_shows_it(slow: PassInterval, cause: str) -> None:
    assert told(*[CALM] * 9, *[slow] * 5)[-1].startswith(f"Cause: {cause}")


def test_a_limit_that_was_used_is_named() -> None:
    assert any("; at limit (500 write IOPS) for 35.7 % of the time, most used 100 %" in line
               for line in told(*[CALM] * 9, *[replace(CALM, share=1.0)] * 5))  # fmt: skip


def test_a_part_of_the_time_that_is_known_is_not_all_of_it() -> None:
    once = replace(CALM, share=1.0, raised=("SLOW_OPS",))
    lines = told(*[replace(CALM, share=None, raised=None)] * 287, once)
    known = "for 100 % of the time that is known (0.3 %)"
    assert any(f"; at limit (500 write IOPS) {known}, most used 100 %" in line for line in lines)
    assert any(line.startswith(f"cluster: SLOW_OPS {known};") for line in lines)


def test_a_tenant_is_not_shown_all_of_a_limit_that_was_used_in_bursts() -> None:
    bursts = replace(CALM, share=0.8, latency=0.9)
    assert tenant(*[CALM] * 9, *[bursts] * 5).startswith(
        "Your volume v1 used 80 % of its 500 write IOPS on average, more in bursts, between 1970"
    )
    half = [*[CALM] * 9, *[replace(bursts, share=0.6)] * 5]
    assert told(*half)[-1].startswith("Cause: unknown: perhaps its own limit: on average it used half of it or more")
    assert tenant(*half) == "Our measurements do not show what your volume v1 waited for."


def test_what_is_unknown_is_called_so() -> None:
    assert (
        "requests took 4 ms on average; in the same time the median disk of its type unknown, of others on its node"
        " 5 ms; usual for its type 4 ms"
    ) in told(*[CALM] * 9)


def test_a_stall_in_which_nothing_could_be_read_is_the_clusters_and_the_tenant_is_told_so() -> None:
    hung = PassInterval(at=0, node="n1", raised=("SLOW_OPS",), unanswered=True)
    stall = [*[CALM] * 90, hung, *[CALM] * 90]
    lines = told(*stall)
    assert (
        "the guest did not answer: 1 interval between 1970-01-01 07:25 and 07:30 UTC; raised then: SLOW_OPS" in lines
    )
    assert any(line.startswith("Cause: the cluster: SLOW_OPS; between 1970-01-01 07:25 and 07:30") for line in lines)
    assert tenant(*stall) == (
        "For your volume v1, requests waited between 1970-01-01 07:25 and 07:30 UTC, because our storage cluster was"
        " impaired."
    )
    stall[90] = replace(hung, unanswered=False)
    lines = told(*stall)
    assert any(line.startswith("no reading while its requests may have waited: 1 interval between") for line in lines)
    assert tenant(*stall) == "Our measurements do not show what your volume v1 waited for."


def test_a_pause_is_told_with_the_checks_of_that_time_and_is_no_stall() -> None:
    paused = replace(CALM, operations=0.0, bytes=0.0, share=0.0, latency=None, raised=("SLOW_OPS",), paused=True)
    lines = told(*[CALM] * 9, *[paused] * 5, *[CALM] * 9)
    when = "between 1970-01-01 00:40 and 01:05 UTC"
    assert f"a person paused the guest: 5 intervals {when}; raised then: SLOW_OPS" in lines
    assert "Cause: none, it is not slow; known 100 % of the time" in lines


@pytest.mark.parametrize(("ended", "words"), [(0, "no"), (1, "hardly any")])
def test_the_few_requests_that_ended_in_a_stall_do_not_tell_how_long_requests_took(ended: int, words: str) -> None:
    none = replace(CALM, operations=0.0, latency=None, raised=("SLOW_OPS",))
    some = replace(CALM, operations=5.0, latency=0.9, raised=("SLOW_OPS",))
    said = tenant(*[CALM] * 90, *[none] * 3, *[some] * ended, *[none] * 2)
    assert said.startswith(f"For your volume v1, {words} requests were completed between")


def test_too_little_is_not_said_where_all_of_the_time_is_known() -> None:
    assert any(
        line.startswith("Cause: unknown: fewer than three passes have measured it")
        and line.endswith("known 100 % of the time")
        for line in told(CALM, CALM)
    )


def test_a_disk_without_requests_made_none() -> None:
    idle = replace(CALM, operations=0.0, bytes=0.0, share=0.0, latency=None)
    lines = told(*[idle] * 9)
    assert "load: no requests" in lines
    assert not any(line.startswith("requests took") for line in lines)
    assert tenant(*[idle] * 9) == "In our measurements your volume v1 made no requests."
