"""``plimsoll top``: the order of its rows, its filter, and what is wrong with a disk."""

from __future__ import annotations

import pytest

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.model.usage import Usage, unreachable
from plimsoll_agent.reconcile.outcome import Kind, Result
from plimsoll_agent.top.rows import SORTS, DiskRow, Planned, Wrong, rows
from plimsoll_agent.top.sampler import Sample
from plimsoll_agent.util.frozen import replace
from tests.unit.agent.monitor.usages import NODE_LIMITS, SILENCE, desiring, disk_named, using
from tests.unit.values import NOON

IDLE = using(disk_named("idle", 1), iops=0, of_bytes=0)
CLOSE = using(disk_named("close", 2, Limits(total_iops_sec=10), volume_type="gold"), iops=9, of_bytes=512)
FREE = using(disk_named("free", 3, Limits()), iops=5000)
MUCH = using(disk_named("much", 4), iops=30, of_bytes=50 * 2**20)
DARK = unreachable((), [disk_named("dark", 5)], SILENCE)[0]
ALL = Sample((IDLE, DARK, FREE, MUCH, CLOSE), (), 5)


@pytest.mark.parametrize(
    ("sort", "order", "reverse"),
    [
        ("at-limit", "close much idle free dark", "idle much close free dark"),
        ("iops", "free much close idle dark", "idle close much free dark"),
        ("bytes", "much free close idle dark", "idle close free much dark"),
        ("server", "close dark free idle much", "much idle free dark close"),
        ("name", "close dark free idle much", "much idle free dark close"),
    ],
)
def test_the_order(sort: str, order: str, reverse: str) -> None:
    for expected, reversed_ in ((order, False), (reverse, True)):
        found = rows(ALL, Planned(), sort, reverse=reversed_)
        assert " ".join(row.guest_name for row in found) == expected


def test_noise_does_not_move_rows_in_the_default_order() -> None:
    limits = (NODE_LIMITS, NODE_LIMITS, Limits(), Limits())

    def order(noise: float) -> str:
        disks = [disk_named(name, at, limits[at]) for at, name in enumerate("abcd")]
        usages = [using(disk, iops=249 + noise * (-1) ** at) for at, disk in enumerate(disks)]
        found = rows(Sample(tuple(usages), (), 4), desiring(NODE_LIMITS, *disks))
        return "".join(row.guest_name for row in found)

    assert order(0.5) == order(-0.5) == "cdab"


def test_shares_are_in_the_order_in_which_they_are_shown() -> None:
    usages = [
        using(disk_named(name, at), iops=iops)
        for at, (name, iops) in enumerate(zip("abcd", (45, 65, 40, 70), strict=True))
    ]
    found = rows(Sample(tuple(usages), (), 4), Planned())
    assert "".join(row.guest_name for row in found) == "dbac"  # 28, 26, 18 and 16 %


def test_a_disk_at_its_limit_is_before_one_that_is_near_and_a_busy_one_before_a_quiet_one() -> None:
    shares = {"quiet": 2.0, "near": 220.0, "full": 250.0, "beyond": 600.0, "half": 125.0}
    usages = [using(disk_named(name, at), iops=iops) for at, (name, iops) in enumerate(shares.items())]
    found = rows(Sample(tuple(usages), (), 5), Planned())
    assert [row.guest_name for row in found] == ["beyond", "full", "near", "half", "quiet"]
    free = [using(disk_named(name, at, Limits()), iops=iops) for at, (name, iops) in enumerate(shares.items())]
    found = rows(Sample(tuple(free), (), 5), Planned())
    names = [row.guest_name for row in found]
    assert (names[0], names[-1]) == ("beyond", "quiet")


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_wrong_is_first_in_every_order(sort: str, reverse: bool) -> None:
    found = rows(ALL, desiring(NODE_LIMITS, *(usage.disk for usage in ALL.usages)), sort, reverse=reverse)
    assert [row.guest_name for row in found[:2]] == ["free", "close"]
    assert [row.wrong for row in found[:3]] == [Wrong.UNLIMITED, Wrong.FAR, Wrong.NOT]


@pytest.mark.parametrize(
    "needle", ["CLOSE", "vda", "7f1c", "volumes/img", "76f321b2", "shop", "guest-2", "kasse", "gold"], ids=str
)
def test_the_filter_finds_a_disk_by_all_its_names(needle: str) -> None:
    disk = replace(CLOSE.disk, guest=replace(CLOSE.disk.guest, display_name="Kasse"), volume_id="7f1c", image="img")
    (row,) = rows(Sample((replace(CLOSE, disk=disk),), (), 1), desiring(None, disk))
    assert row.means(needle)
    assert not row.means(f"{needle}no")


def row_of(usage: Usage, planned: Planned) -> DiskRow:
    (row,) = rows(Sample((usage,), (), 1), planned)
    return row


def wrong(actual: Limits | Unknown, desired: Limits | Unknown | None) -> Wrong:
    disk = disk_named("a", limits=actual)
    return row_of(using(disk), desiring(desired, disk)).wrong


@pytest.mark.parametrize(
    ("actual", "desired", "expected"),
    [
        (Limits(), NODE_LIMITS, Wrong.UNLIMITED),
        (Limits(total_iops_sec=250), NODE_LIMITS, Wrong.FAR),  # its bytes are unlimited
        (NODE_LIMITS, NODE_LIMITS, Wrong.NOT),
        (Limits(), None, Wrong.NOT),
        (Limits(), Limits(), Wrong.NOT),
        (Limits(), Unknown(SILENCE), Wrong.NOT),
        (Unknown(SILENCE), NODE_LIMITS, Wrong.NOT),
        (Limits(total_iops_sec=250), Limits(total_iops_sec=300), Wrong.NOT),
        (Limits(total_iops_sec=2500), Limits(total_iops_sec=250), Wrong.FAR),
        (Limits(total_iops_sec=25), Limits(total_iops_sec=250), Wrong.FAR),
        (  # its burst is spent
            Limits(total_iops_sec=25),
            Limits(total_iops_sec=25, total_iops_sec_max=3000, total_iops_sec_max_length=60),
            Wrong.NOT,
        ),
        (Limits(total_iops_sec=26), Limits(total_iops_sec=250), Wrong.NOT),
        (Limits(total_iops_sec=3000), Limits(read_iops_sec=100, write_iops_sec=100), Wrong.FAR),
    ],
)
def test_what_is_wrong_with_a_disk(
    actual: Limits | Unknown, desired: Limits | Unknown | None, expected: Wrong
) -> None:
    assert wrong(actual, desired) is expected


def test_a_disk_that_nothing_was_decided_on_is_not_called_wrong() -> None:
    assert row_of(FREE, Planned()).wrong is Wrong.NOT
    assert row_of(FREE, Planned()).limits_words == "unlimited, desired unknown"


def test_why_a_wrong_limit_is_not_changed_now_is_said() -> None:
    planned = desiring(NODE_LIMITS, FREE.disk)
    outcome = planned.outcomes[FREE.disk.key]
    paused = Result(Kind.DEFERRED, because(Code.PAUSED, file="/etc/plimsoll/paused", why=""))
    words = row_of(FREE, Planned(outcomes={FREE.disk.key: replace(outcome, result=paused)})).limits_words
    assert words.endswith("; deferred: paused by /etc/plimsoll/paused")


def test_limits_by_a_size_that_top_does_not_read_are_those_of_the_last_pass() -> None:
    planned = desiring(Unknown(because(Code.SIZE_UNKNOWN, spec="gold-iops")), FREE.disk)
    outcome = planned.outcomes[FREE.disk.key]
    assert row_of(FREE, planned).desired_unknown
    ours = Remembered(desired=NODE_LIMITS, since=NOON, seen=NOON, applied=None, attachment=FREE.disk.attachment)
    remembered = replace(outcome, decision=replace(outcome.decision, ours=ours))
    row = row_of(FREE, Planned(outcomes={FREE.disk.key: remembered}))
    assert (row.wrong, row.desired) == (Wrong.UNLIMITED, NODE_LIMITS)
