"""The last part of a pass: what the record is told before and after, and what is told of each disk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace

import pytest

from plimsoll_agent.errors import NotFound, NotSent, Rejected
from plimsoll_agent.model.clusters import Clusters
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import Conclusion, Ending
from plimsoll_agent.model.hypervisor import Movement, Versions
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.policy.adoption import marks_to_write
from plimsoll_agent.policy.decide import Desired, Situation
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile import apply
from plimsoll_agent.reconcile.apply import Applier
from plimsoll_agent.reconcile.groups import judged
from plimsoll_agent.reconcile.limit_writer import Bounds
from plimsoll_agent.reconcile.observe import observe
from plimsoll_agent.reconcile.outcome import Kind, Outcome, Result, Scope
from plimsoll_agent.reconcile.trial import candidates
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.notes import Notes
from plimsoll_agent.store.state import StateError
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeHypervisor, hangs, raising
from tests.unit import outcomes
from tests.unit.node import DEFAULT, a_volume, guest
from tests.unit.outcomes import staying
from tests.unit.values import NOON

WHY = because(Code.NODE_DEFAULT)
planned = partial(outcomes.planned, reason=WHY)
SITUATION = Situation(now=NOON, rules=Rules(default=DEFAULT, revision="1f" * 32), memory={})


class FakeLedger(NodeStore):
    """Gives ids from 100 on and keeps what it is told. ``full`` is why nothing can be written."""

    def __init__(self) -> None:
        self.intended: list[tuple[list[str], datetime, str]] = []
        self.concluded: list[tuple[list[Conclusion], datetime]] = []
        self.full: str | None = None
        self.versions: Versions | None = FakeHypervisor().known_versions
        self.failed: Versions | None = None

    def intend(self, changes: Sequence[Change], now: datetime, revision: str, rules: str = "") -> list[int]:
        self._fails()
        self.intended.append(([change.disk.target for change in changes], now, revision))
        return [100 + number for number in range(len(changes))]

    def conclude(self, conclusions: Sequence[Conclusion], now: datetime) -> None:
        self._fails()
        self.concluded.append((list(conclusions), now))

    def proven(self) -> Versions | None:
        return self.versions

    def prove(self, versions: Versions) -> None:
        self.versions = versions

    def failed_trial(self) -> Versions | None:
        return self.failed

    def trial_failed(self, versions: Versions) -> None:
        self.failed = versions

    @contextmanager
    def trying(self) -> Iterator[None]:
        yield

    def _fails(self) -> None:
        if self.full is not None:
            raise StateError(self.full)


class Bench:
    """One guest of three volumes without limits, as they were seen, and what applies changes to them."""

    def __init__(self, actual: Limits | None = None) -> None:
        self.hypervisor = FakeHypervisor(guest(1, *(a_volume(number, actual) for number in range(3))))
        self.disks = observe(self.hypervisor, Scope(), clusters=Clusters()).disks
        self.hypervisor.calls.clear()
        self.node_store = FakeLedger()
        self.stopped: Reason | None = None
        self.notes = Notes()
        self.applier = Applier(
            self.hypervisor, self.node_store, self.notes, Bounds(), SITUATION, hung=(), pause=lambda: self.stopped
        )
        self.told: list[Outcome] = []

    def apply(self, limits: Limits = DEFAULT, targets: Collection[str] = ("vda", "vdb", "vdc")) -> list[Outcome]:
        """Disks that are not among ``targets`` are right as they are."""
        considered = [planned(disk, limits) if disk.target in targets else right(disk) for disk in self.disks]
        return self.applier.apply(considered, self.told.append)

    def concluded(self) -> list[tuple[int, Ending, str | None]]:
        self.applier.conclude()
        ((conclusions, _),) = self.node_store.concluded
        return [(each.id, each.result, each.detail) for each in conclusions]


def right(disk: Disk) -> Outcome:
    return staying(disk, Desired(Limits(), WHY), Kind.IN_SYNC, WHY)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def refuses(bench: Bench, error: Exception) -> None:
    """The first write comes to this."""

    def happens() -> None:
        raise error

    bench.hypervisor.before["set_limits"] = happens


def test_intents_are_recorded_with_the_revision_before_the_first_write(bench: Bench) -> None:
    bench.hypervisor.before["look"] = lambda: intended.extend(bench.node_store.intended)
    intended: list[tuple[list[str], datetime, str]] = []
    bench.apply(targets=("vda", "vdc"))
    assert intended == [(["vda", "vdc"], NOON, SITUATION.revision)]


def test_without_a_change_no_intent_is_recorded(bench: Bench) -> None:
    assert [outcome.result.kind for outcome in bench.apply(targets=())] == [Kind.IN_SYNC] * 3
    assert (bench.node_store.intended, bench.concluded()) == ([], [])


def test_a_pass_that_ended_before_it_applied_anything_concludes_nothing(bench: Bench) -> None:
    assert bench.concluded() == []


def test_a_disk_that_was_changed_is_told_with_its_new_limits_in_qemu_and_in_libvirt(bench: Bench) -> None:
    outcomes = bench.apply(targets=("vdb",))
    assert [(each.after.actual, each.after.defined) for each in outcomes] == [
        (Limits(), Limits()),
        (DEFAULT, DEFAULT),
        (Limits(), Limits()),
    ]
    assert tuple(each.disk for each in outcomes) == bench.disks, "as they were seen"
    assert {key: change.after for key, change in bench.applier.applied.items()} == {bench.disks[1].key: DEFAULT}
    assert sorted(bench.told, key=lambda each: each.disk.target) == outcomes


def test_of_a_write_that_was_not_answered_it_is_unknown_what_is_actual_and_why(bench: Bench) -> None:
    refuses(bench, hangs())
    first, *_ = bench.apply()
    assert first.after.actual == Unknown(first.result.reason)
    assert first.result.reason.code is Code.TIMED_OUT
    assert bench.applier.applied == {}


@pytest.mark.parametrize(
    ("error", "result", "detail"),
    [
        (Rejected("no such device"), Ending.REFUSED, "no such device"),
        (NotSent("crowded"), Ending.NOT_SENT, "crowded"),
        (hangs(), Ending.TIMED_OUT, str(hangs())),
    ],
)
def test_the_record_is_told_how_each_change_ended_and_what_qemu_said(
    bench: Bench, error: Exception, result: Ending, detail: str
) -> None:
    refuses(bench, error)
    bench.apply(targets=("vdb",))
    assert bench.concluded() == [(100, result, detail)]


def test_a_change_that_was_made_has_no_detail_in_the_record(bench: Bench) -> None:
    bench.apply(targets=("vdb", "vdc"))
    assert bench.concluded() == [(100, Ending.DONE, None), (101, Ending.DONE, None)]


def test_a_change_ends_so_much_later_as_the_pass_took(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1000.0, 1007.0])
    monkeypatch.setattr(apply, "time", SimpleNamespace(monotonic=lambda: next(times)))
    bench = Bench()
    bench.apply()
    bench.applier.conclude()
    assert [now for _, now in bench.node_store.concluded] == [NOON + timedelta(seconds=7)]


def test_without_a_record_a_raise_fails_and_a_cut_is_done_and_the_note_says_why() -> None:
    bench = Bench(DEFAULT)
    bench.node_store.full = "record.sqlite: database or disk is full"
    lower, higher = replace(DEFAULT, total_iops_sec=100), replace(DEFAULT, total_iops_sec=900)
    considered = [planned(*each) for each in zip(bench.disks, (lower, higher, lower), strict=True)]
    outcomes = bench.applier.apply(considered, bench.told.append)
    without = Result(Kind.FAILED, because(Code.NO_RECORD, detail=""))
    assert [each.result.kind for each in outcomes] == [Kind.CHANGED, Kind.FAILED, Kind.CHANGED]
    assert outcomes[1].result == without
    assert bench.notes == [because(Code.NO_RECORD, detail="record.sqlite: database or disk is full")]
    bench.node_store.full = None
    assert bench.concluded() == [], "there are no intents"


def test_results_that_cannot_be_recorded_are_noted_with_the_cause(bench: Bench) -> None:
    bench.apply()
    bench.node_store.full = "record.sqlite: database is locked"
    bench.applier.conclude()
    assert bench.notes == [because(Code.NO_RESULTS, detail="record.sqlite: database is locked")]


def test_marks_are_written_unless_the_node_is_paused(bench: Bench) -> None:
    disk = bench.disks[0]
    memory = {
        disk.key: Remembered(desired=DEFAULT, since=NOON, seen=NOON, applied=DEFAULT, attachment=disk.attachment)
    }
    marks = bench.applier.marks(bench.disks, memory)
    assert marks == marks_to_write(bench.disks, memory, {})
    bench.stopped = because(Code.PAUSED, file="f", why="")
    assert bench.applier.marks(bench.disks, memory) == {}
    assert bench.applier.mark(marks) == {}
    assert bench.hypervisor.calls == []
    bench.stopped = None
    assert bench.applier.mark(marks) == marks
    assert bench.hypervisor.calls == ["set_marks"]


def test_a_guest_that_has_missed_a_deadline_is_asked_for_no_mark(bench: Bench) -> None:
    refuses(bench, hangs())
    bench.apply(targets=("vda",))
    disk = bench.disks[1]
    memory = {
        disk.key: Remembered(desired=DEFAULT, since=NOON, seen=NOON, applied=DEFAULT, attachment=disk.attachment)
    }
    marks = bench.applier.marks(bench.disks, memory)
    assert marks
    bench.hypervisor.calls.clear()
    assert bench.applier.mark(marks) == {}
    assert bench.hypervisor.calls == []


def test_where_the_memory_cannot_be_saved_only_guests_that_were_changed_are_marked(bench: Bench) -> None:
    memory = {
        disk.key: Remembered(desired=DEFAULT, since=NOON, seen=NOON, applied=DEFAULT, attachment=disk.attachment)
        for disk in bench.disks
    }
    assert bench.applier.marks(bench.disks, memory, saved=False) == {}
    disks = [outcome.disk for outcome in bench.apply(targets=("vda",))]
    assert bench.applier.marks(disks, memory, saved=False) == marks_to_write(disks, memory, {})


# --- the first write under other versions of libvirt or QEMU


class Upgraded(Bench):
    """Guests of two volumes each under a libvirt that no pass has written to; the last was started last."""

    def __init__(self, *, group: str | None = None, guests: int = 2) -> None:
        super().__init__()
        self.guests = [guest(n, a_volume(2 * n), a_volume(2 * n + 1)) for n in range(1, guests + 1)]
        for number, each in enumerate(self.guests):
            each.run = 10 + number
        for each in self.guests[-1].disks.values():
            each.actual = each.defined = Limits() if group is None else Limits(total_iops_sec=400, group_name=group)
        self.hypervisor = FakeHypervisor(*self.guests)
        self.disks = observe(self.hypervisor, Scope(), clusters=Clusters()).disks
        self.node_store.versions = Versions(8_000_000, 7_002_022)
        self.applier = Applier(
            self.hypervisor, self.node_store, self.notes, Bounds(), SITUATION, hung=(), pause=lambda: self.stopped
        )

    def reads_back(self, limits: Limits, *numbers: int) -> None:
        """These guests take other limits than they are given, as all do under a libvirt that is broken."""
        odd, set_limits = {guest(number).uuid for number in numbers}, self.hypervisor.set_limits

        def other(asked: Disk, given: Limits, *, alone: bool = False) -> None:
            set_limits(asked, given, alone=alone)
            if not odd or asked.guest.uuid in odd:
                self.hypervisor.by_uuid[asked.guest.uuid].disks[asked.target].actual = limits

        self.hypervisor.set_limits = other  # type: ignore[method-assign]

    @property
    def written(self) -> list[tuple[str, str]]:
        return [(self.hypervisor.by_uuid[uuid].name, target) for uuid, target, _ in self.hypervisor.writes]

    def results(self) -> list[tuple[Kind, Code]]:
        self.told.clear()
        outcomes = self.apply(targets=("vda", "vdb"))
        assert sorted(self.told, key=lambda each: each.disk.key) == outcomes, "each is told once, as it stands"
        return [(each.result.kind, each.result.reason.code) for each in outcomes]


def test_under_another_version_nothing_is_written_after_a_write_that_does_not_read_back() -> None:
    bench = Upgraded()
    bench.reads_back(Limits(total_iops_sec=1))
    assert bench.results() == [
        (Kind.UNKNOWN, Code.READ_BACK_DIFFERS),
        (Kind.FAILED, Code.TRIAL_FAILED),
        (Kind.UNKNOWN, Code.READ_BACK_DIFFERS),
        (Kind.FAILED, Code.TRIAL_FAILED),
    ]
    assert bench.written == [("instance-00000002", "vda"), ("instance-00000001", "vda")], "the last started first"
    assert bench.node_store.versions == Versions(8_000_000, 7_002_022)
    (note,) = bench.notes
    assert note.code is Code.TRIAL_FAILED
    assert note.facts["versions"] == "libvirt 9.0.0 and QEMU 7.2.22"
    assert str(note.facts["detail"]).startswith(
        "instance-00000002 vda, instance-00000001 vda; to try another guest: plimsoll enforce --guest"
    )
    assert len(bench.told) == 4, "each outcome is told once"
    disk = bench.disks[2]
    memory = {
        disk.key: Remembered(desired=DEFAULT, since=NOON, seen=NOON, applied=DEFAULT, attachment=disk.attachment)
    }
    assert bench.applier.marks(bench.disks, memory) == {}, "marks are writes too"


def test_one_guest_that_is_odd_keeps_no_limit_from_the_others() -> None:
    bench = Upgraded(guests=4)
    bench.reads_back(Limits(total_iops_sec=1), 4)
    kinds = [kind for kind, _ in bench.results()]
    assert kinds == [Kind.CHANGED] * 6 + [Kind.UNKNOWN] * 2
    assert bench.written[:2] == [("instance-00000004", "vda"), ("instance-00000003", "vda")]
    assert bench.node_store.versions == bench.hypervisor.known_versions
    assert bench.node_store.failed is None
    assert bench.notes == []


def test_after_three_guests_that_read_back_other_limits_no_fourth_is_tried() -> None:
    bench = Upgraded(guests=5)
    bench.reads_back(Limits(total_iops_sec=1))
    bench.results()
    assert bench.written == [(f"instance-0000000{number}", "vda") for number in (5, 4, 3)]
    assert bench.node_store.failed == bench.hypervisor.known_versions


def test_a_disk_that_is_detached_between_write_and_look_says_nothing_about_the_versions() -> None:
    bench = Upgraded()
    bench.hypervisor.before["actual"] = raising(Rejected("disk 'vda' was not found in the domain config"))
    assert sorted(kind for kind, _ in bench.results()) == [Kind.CHANGED] * 3 + [Kind.UNKNOWN]
    assert bench.node_store.versions == bench.hypervisor.known_versions
    assert bench.notes == []


def test_a_pass_that_does_not_retry_a_failed_trial_writes_nothing() -> None:
    bench = Upgraded()
    bench.reads_back(Limits(total_iops_sec=1))
    bench.results()
    again = Upgraded()
    again.node_store = bench.node_store
    again.applier = Applier(
        again.hypervisor,
        again.node_store,
        again.notes,
        Bounds(),
        SITUATION,
        hung=(),
        pause=lambda: None,
        retries_trial=False,
    )
    assert again.results() == [(Kind.FAILED, Code.TRIAL_FAILED)] * 4
    assert again.written == []
    (note,) = again.notes
    assert note == because(
        Code.TRIAL_FAILED,
        versions="libvirt 9.0.0 and QEMU 7.2.22",
        detail="in an earlier pass; to try a guest: plimsoll enforce --guest GUEST",
    )
    assert len(again.told) == 4
    again.node_store.failed = Versions(8_000_000, 7_002_022)
    assert again.results() == [(Kind.CHANGED, Code.NODE_DEFAULT)] * 4, "it was of other versions"


def test_after_a_write_that_reads_back_all_others_are_made_and_the_versions_are_proven() -> None:
    bench = Upgraded()
    alone: list[object] = []
    bench.node_store.prove = lambda versions: alone.append((versions, list(bench.written)))  # type: ignore[method-assign]
    assert bench.results() == [(Kind.CHANGED, Code.NODE_DEFAULT)] * 4
    assert alone == [(Versions(9_000_000, 7_002_022), [("instance-00000002", "vda")])]
    assert len(bench.written) == 4
    assert len(bench.told) == 4


def test_under_proven_versions_writes_that_do_not_read_back_stop_no_other() -> None:
    bench = Upgraded()
    bench.node_store.versions = bench.hypervisor.known_versions
    bench.reads_back(Limits(total_iops_sec=1), 2)
    assert sorted(kind for kind, _ in bench.results()) == [Kind.CHANGED] * 2 + [Kind.UNKNOWN] * 2
    assert bench.notes == []


@pytest.mark.parametrize("versions", [Versions(9_000_001, 7_002_022), Versions(9_000_000, 8_000_000)])
def test_another_libvirt_and_another_qemu_are_each_another_version(versions: Versions) -> None:
    bench = Upgraded()
    bench.node_store.versions = Versions(9_000_000, 7_002_022)
    bench.hypervisor.known_versions = versions
    bench.reads_back(Limits(total_iops_sec=1))
    bench.results()
    assert len(bench.written) == 2, "one disk of each guest"


@pytest.mark.parametrize("error", [hangs(), NotSent("crowded"), Rejected("no such device"), NotFound("gone")])
def test_a_guest_that_refuses_writes_says_nothing_about_the_versions(error: Exception) -> None:
    bench = Upgraded()
    refuses(bench, error)
    results = bench.results()
    assert [kind for kind, _ in results].count(Kind.CHANGED) >= 2
    assert bench.node_store.versions == bench.hypervisor.known_versions
    assert bench.notes == []


def test_disks_that_share_limits_are_tried_last_and_together() -> None:
    bench = Upgraded(group="both")
    bench.reads_back(Limits(total_iops_sec=1))
    bench.results()
    assert bench.written[0] == ("instance-00000001", "vda")
    bench = Upgraded(group="both")
    bench.guests[0].movement = Movement.LEAVING
    limits = replace(DEFAULT, group_name="both")
    considered = judged([planned(disk, limits) for disk in bench.disks])
    kinds = [each.result.kind for each in bench.applier.apply(considered, bench.told.append)]
    assert kinds == [Kind.LEFT_ALONE] * 2 + [Kind.CHANGED] * 2


def test_a_guest_of_which_no_start_is_known_is_tried_last() -> None:
    bench = Upgraded()
    disks = [replace(disk, guest=replace(disk.guest, run=None)) for disk in bench.disks if disk.guest.run == "11"]
    changes = [planned(disk, DEFAULT).change for disk in [*disks, *bench.disks[:2]]]
    tried = [change.disk.guest.name for (change,) in candidates([[each for each in changes if each is not None]])]
    assert tried == ["instance-00000001"] * 2 + ["instance-00000002"] * 2


def test_a_cut_is_tried_before_a_raise() -> None:
    bench = Upgraded()
    high = Limits(total_iops_sec=9000)
    for disk in bench.guests[0].disks.values():
        disk.actual = disk.defined = high
    for disk in bench.guests[1].disks.values():
        disk.actual = disk.defined = Limits(total_iops_sec=1)
    bench.disks = observe(bench.hypervisor, Scope(), clusters=Clusters()).disks
    bench.reads_back(Limits(total_iops_sec=2))
    bench.results()
    assert bench.written == [("instance-00000001", "vda"), ("instance-00000002", "vda")]


def test_where_libvirt_does_not_tell_its_version_each_pass_tries_one_disk_first() -> None:
    bench = Upgraded()
    bench.hypervisor.versions = raising(hangs())  # type: ignore[method-assign]
    bench.reads_back(Limits(total_iops_sec=1))
    assert Kind.CHANGED not in {kind for kind, _ in bench.results()}
    assert [note.facts["versions"] for note in bench.notes] == ["unknown versions of libvirt and QEMU"]


def test_without_a_change_no_version_is_asked_for(bench: Bench) -> None:
    bench.hypervisor.versions = raising(AssertionError("asked"))  # type: ignore[method-assign]
    bench.apply(targets=())
