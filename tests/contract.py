"""What any hypervisor must do. The fake of the unit tests and a real QEMU both stand by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lab.looking import actual, disk_of, nobodys, put
from plimsoll_agent.errors import NotFound, Rejected
from plimsoll_agent.model.hypervisor import Hypervisor, Movement
from plimsoll_agent.model.limits import PARAMETERS, Limits
from plimsoll_agent.model.marks import Mark, MarkedHold, Marks

NOON = datetime(2026, 11, 20, 12, 0, 0, 250, tzinfo=UTC)
NOBODY = "00000000-0000-4000-8000-000000000000"


class HypervisorContract:
    """A subclass gives ``hypervisor`` and ``uuid``: a guest of its own, paused, with unlimited disks vda and vdb."""

    @pytest.fixture(autouse=True)
    def _unlimited(self, hypervisor: Hypervisor, uuid: str) -> None:
        for target in ("vda", "vdb"):
            put(hypervisor, uuid, target, Limits())

    def test_lists_the_guest(self, hypervisor: Hypervisor, uuid: str) -> None:
        assert uuid in {guest.uuid for guest in hypervisor.guests()}

    def test_what_was_set_is_actual_and_in_the_definition(self, hypervisor: Hypervisor, uuid: str) -> None:
        limits = Limits(total_iops_sec=250, total_iops_sec_max=500, total_bytes_sec=104857600)
        put(hypervisor, uuid, "vdb", limits)
        assert actual(hypervisor, uuid, "vdb") == limits
        assert disk_of(hypervisor, uuid, "vdb").defined == limits
        assert actual(hypervisor, uuid, "vda") == Limits(), "the other disk is as it was"

    def test_a_full_set_replaces_all_that_was_there(self, hypervisor: Hypervisor, uuid: str) -> None:
        put(
            hypervisor,
            uuid,
            "vdb",
            Limits(read_iops_sec=300, read_iops_sec_max=600, read_iops_sec_max_length=10, size_iops_sec=4096),
        )
        after = Limits(total_bytes_sec=2**20)
        put(hypervisor, uuid, "vdb", after)
        assert actual(hypervisor, uuid, "vdb") == after
        assert disk_of(hypervisor, uuid, "vdb").defined == after

    def test_a_limit_can_be_removed(self, hypervisor: Hypervisor, uuid: str) -> None:
        put(hypervisor, uuid, "vdb", Limits(total_iops_sec=250, total_iops_sec_max=500))
        put(hypervisor, uuid, "vdb", Limits())
        assert actual(hypervisor, uuid, "vdb") == Limits()
        assert disk_of(hypervisor, uuid, "vdb").defined == Limits()

    def test_a_disk_is_in_no_group_unless_it_was_put_in_one(self, hypervisor: Hypervisor, uuid: str) -> None:
        put(hypervisor, uuid, "vdb", Limits(total_iops_sec=250))
        assert actual(hypervisor, uuid, "vdb").group_name is None

    def test_disks_of_a_group_share_one_set(self, hypervisor: Hypervisor, uuid: str) -> None:
        put(hypervisor, uuid, "vda", Limits(total_iops_sec=100, group_name="both"))
        put(hypervisor, uuid, "vdb", Limits(total_iops_sec=400, group_name="both"))
        assert actual(hypervisor, uuid, "vda") == Limits(total_iops_sec=400, group_name="both")
        assert actual(hypervisor, uuid, "vdb") == Limits(total_iops_sec=400, group_name="both")

    def test_a_write_to_one_of_a_group_is_one_to_all_in_the_definition_too(
        self, hypervisor: Hypervisor, uuid: str
    ) -> None:
        for target in ("vda", "vdb"):
            put(hypervisor, uuid, target, Limits(total_iops_sec=100, group_name="both"))
        other = Limits(read_bytes_sec=2**20, group_name="both")
        put(hypervisor, uuid, "vda", other)
        assert [actual(hypervisor, uuid, target) for target in ("vda", "vdb")] == [other, other]
        assert [disk_of(hypervisor, uuid, target).defined for target in ("vda", "vdb")] == [other, other]

    def test_a_disk_that_joins_a_group_changes_all_that_are_in_it_and_none_of_those_that_it_left(
        self, hypervisor: Hypervisor, uuid: str
    ) -> None:
        first, second, *_ = (disk.target for disk in hypervisor.look(uuid).disks)
        put(hypervisor, uuid, first, Limits(total_iops_sec=100, group_name="one"))
        put(hypervisor, uuid, second, Limits(total_iops_sec=300, group_name="other"))
        joined = Limits(total_iops_sec=400, group_name="one")
        put(hypervisor, uuid, second, joined)
        assert [actual(hypervisor, uuid, target) for target in (first, second)] == [joined, joined]
        assert [disk_of(hypervisor, uuid, target).defined for target in (first, second)] == [joined, joined]
        away = Limits(total_iops_sec=50, group_name="other")
        put(hypervisor, uuid, second, away)
        assert [actual(hypervisor, uuid, target) for target in (first, second)] == [joined, away]
        assert [disk_of(hypervisor, uuid, target).defined for target in (first, second)] == [joined, away]

    def test_a_disk_that_leaves_its_group_takes_no_other_along(self, hypervisor: Hypervisor, uuid: str) -> None:
        for target in ("vda", "vdb"):
            put(hypervisor, uuid, target, Limits(total_iops_sec=400, group_name="both"))
        put(hypervisor, uuid, "vdb", Limits(total_iops_sec=100), alone=True)
        assert actual(hypervisor, uuid, "vdb") == Limits(total_iops_sec=100)
        assert actual(hypervisor, uuid, "vda") == Limits(total_iops_sec=400, group_name="both")

    def test_a_disk_stays_in_its_group_unless_it_is_taken_out(self, hypervisor: Hypervisor, uuid: str) -> None:
        put(hypervisor, uuid, "vdb", Limits(total_iops_sec=400, group_name="both"))
        put(hypervisor, uuid, "vdb", Limits(total_iops_sec=100))
        assert actual(hypervisor, uuid, "vdb") == Limits(total_iops_sec=100, group_name="both")

    def test_an_unlimited_disk_has_left_its_group(self, hypervisor: Hypervisor, uuid: str) -> None:
        for target in ("vda", "vdb"):
            put(hypervisor, uuid, target, Limits(total_iops_sec=400, group_name="both"))
        put(hypervisor, uuid, "vdb", Limits())
        put(hypervisor, uuid, "vdb", Limits(total_iops_sec=100))
        assert actual(hypervisor, uuid, "vdb") == Limits(total_iops_sec=100)
        assert actual(hypervisor, uuid, "vda") == Limits(total_iops_sec=400, group_name="both")

    def test_the_definition_is_read_again_at_every_look(self, hypervisor: Hypervisor, uuid: str) -> None:
        before = disk_of(hypervisor, uuid, "vdb").defined
        put(hypervisor, uuid, "vdb", Limits(write_bytes_sec=2**20))
        assert disk_of(hypervisor, uuid, "vdb").defined != before

    def test_a_survey_tells_what_a_look_and_a_question_for_each_disk_tell(
        self, hypervisor: Hypervisor, uuid: str
    ) -> None:
        disks = hypervisor.look(uuid).disks
        for n, disk in enumerate(disks, 1):
            hypervisor.set_limits(disk, Limits(total_iops_sec=100 * n))
        put(hypervisor, uuid, "vda", Limits(total_iops_sec=400, group_name="both"))
        survey = hypervisor.survey(uuid)
        assert survey.disks == hypervisor.look(uuid).disks
        assert survey.movement is Movement.STAYS
        assert survey.actual == {disk.target: hypervisor.actual(disk) for disk in disks}
        assert survey.actual["vda"] == Limits(total_iops_sec=400, group_name="both")
        assert survey.actual["vdb"] == Limits(total_iops_sec=200), "a name that QEMU gave is no group"

    def test_a_guest_that_a_person_paused_is_told_as_paused(self, hypervisor: Hypervisor, uuid: str) -> None:
        assert hypervisor.look(uuid).paused
        assert hypervisor.survey(uuid).paused

    def test_sizes_are_in_bytes(self, hypervisor: Hypervisor, uuid: str) -> None:
        assert hypervisor.sizes(uuid)["vdb"] % 2**20 == 0

    def test_counters_are_given_of_the_disks_that_are_asked_for_and_are_there(
        self, hypervisor: Hypervisor, uuid: str
    ) -> None:
        told = hypervisor.block_stats(uuid, ["vdb", "vdz"])
        assert set(told) == {"vdb"}
        assert told["vdb"].nanoseconds is not None
        assert told["vdb"].flushes is not None

    def test_marks_replace_those_that_were_there(self, hypervisor: Hypervisor, uuid: str) -> None:
        hold = MarkedHold(
            limits=Limits(),
            since=NOON,
            until=NOON + timedelta(hours=2),
            by="root (ann)",
            why='import <4711> & "more"',
        )
        first = Mark(
            desired=Limits(total_iops_sec=250),
            since=NOON,
            applied=Limits(total_iops_sec=100),
            hold=hold,
            by_type="gold & silver",
        )
        second = Mark(
            desired=None,
            since=NOON,
            applied=Limits(total_bytes_sec=10**15),
            enforced=True,
            restore_to=Limits(),
            foreign=True,
        )
        for marks in (Marks({"volumes/a": first, "b": second}), Marks({"b": first})):
            hypervisor.set_marks(uuid, marks)
            seen = hypervisor.look(uuid)
            assert seen.guest.marks == marks
            assert all(disk.guest.marks == marks for disk in seen.disks)

    def test_marks_can_be_taken_away(self, hypervisor: Hypervisor, uuid: str) -> None:
        before = hypervisor.look(uuid).guest
        hypervisor.set_marks(uuid, Marks({"b": Mark(desired=Limits(), since=NOON, applied=None)}))
        hypervisor.set_marks(uuid, Marks())
        hypervisor.set_marks(uuid, Marks())
        guest = hypervisor.look(uuid).guest
        assert guest.marks is None
        assert guest == before, "what others wrote into the metadata is as it was"

    def test_a_guest_that_runs_is_known(self, hypervisor: Hypervisor, uuid: str) -> None:
        assert hypervisor.knows(uuid)
        assert not hypervisor.knows(NOBODY)

    def test_a_guest_that_is_gone_has_vanished(self, hypervisor: Hypervisor, uuid: str) -> None:
        disk = nobodys(disk_of(hypervisor, uuid, "vda"), uuid=NOBODY)
        with pytest.raises(NotFound):
            hypervisor.look(NOBODY)
        with pytest.raises(NotFound):
            hypervisor.survey(NOBODY)
        with pytest.raises(NotFound):
            hypervisor.set_marks(NOBODY, Marks({"b": Mark(desired=Limits(), since=NOON, applied=None)}))
        with pytest.raises(NotFound):
            hypervisor.actual(disk)
        with pytest.raises(NotFound):
            hypervisor.set_limits(disk, Limits(total_iops_sec=1))

    def test_a_disk_that_is_not_there_is_refused(self, hypervisor: Hypervisor, uuid: str) -> None:
        disk = nobodys(disk_of(hypervisor, uuid, "vda"), target="vdz")
        with pytest.raises(Rejected):
            hypervisor.actual(disk)
        with pytest.raises(Rejected):
            hypervisor.set_limits(disk, Limits(total_iops_sec=1))

    def test_the_largest_values_are_kept_whole(self, hypervisor: Hypervisor, uuid: str) -> None:
        limits = Limits(total_bytes_sec=10**15, total_iops_sec=10**15)
        put(hypervisor, uuid, "vdb", limits)
        assert actual(hypervisor, uuid, "vdb") == limits

    def test_there_are_19_numbers(self, hypervisor: Hypervisor, uuid: str) -> None:
        assert len(PARAMETERS) == 19
        assert set(actual(hypervisor, uuid, "vdb").full_set()) == {parameter.name for parameter in PARAMETERS}
