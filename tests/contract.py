"""What any hypervisor must do. The fake of the unit tests and a real QEMU both stand by it."""

from __future__ import annotations

import pytest

from plimsoll_agent import domxml
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import Rejected, Vanished
from plimsoll_agent.hypervisor import Hypervisor
from plimsoll_agent.limits import PARAMETERS, Limits

NOBODY = "00000000-0000-4000-8000-000000000000"


class HypervisorContract:
    """A subclass gives ``hypervisor`` and ``uuid``: a guest of its own with unlimited disks vda and vdb."""

    @pytest.fixture(autouse=True)
    def _unlimited(self, hypervisor: Hypervisor, uuid: str) -> None:
        for target in ("vda", "vdb"):
            hypervisor.set_limits(uuid, target, Limits(), alone=True)

    def definition(self, hypervisor: Hypervisor, uuid: str, target: str) -> Disk:
        return next(disk for disk in domxml.parse(hypervisor.look(uuid).xml)[1] if disk.target == target)

    def test_lists_the_guest(self, hypervisor: Hypervisor, uuid: str) -> None:
        assert uuid in {guest.uuid for guest in hypervisor.guests()}

    def test_what_was_set_is_in_force_and_in_the_definition(self, hypervisor: Hypervisor, uuid: str) -> None:
        limits = Limits(total_iops_sec=250, total_iops_sec_max=500, total_bytes_sec=104857600)
        hypervisor.set_limits(uuid, "vdb", limits)
        assert hypervisor.in_force(uuid, "vdb") == limits
        assert self.definition(hypervisor, uuid, "vdb").defined == limits
        assert hypervisor.in_force(uuid, "vda") == Limits(), "the other disk is as it was"

    def test_a_full_set_replaces_all_that_was_there(self, hypervisor: Hypervisor, uuid: str) -> None:
        hypervisor.set_limits(
            uuid,
            "vdb",
            Limits(read_iops_sec=300, read_iops_sec_max=600, read_iops_sec_max_length=10, size_iops_sec=4096),
        )
        after = Limits(total_bytes_sec=2**20)
        hypervisor.set_limits(uuid, "vdb", after)
        assert hypervisor.in_force(uuid, "vdb") == after
        assert self.definition(hypervisor, uuid, "vdb").defined == after

    def test_a_limit_can_be_lifted(self, hypervisor: Hypervisor, uuid: str) -> None:
        hypervisor.set_limits(uuid, "vdb", Limits(total_iops_sec=250, total_iops_sec_max=500))
        hypervisor.set_limits(uuid, "vdb", Limits())
        assert hypervisor.in_force(uuid, "vdb") == Limits()
        assert self.definition(hypervisor, uuid, "vdb").defined == Limits()

    def test_a_disk_is_in_no_group_unless_it_was_put_in_one(self, hypervisor: Hypervisor, uuid: str) -> None:
        hypervisor.set_limits(uuid, "vdb", Limits(total_iops_sec=250))
        assert hypervisor.in_force(uuid, "vdb").group_name is None

    def test_disks_of_a_group_share_one_set(self, hypervisor: Hypervisor, uuid: str) -> None:
        hypervisor.set_limits(uuid, "vda", Limits(total_iops_sec=100, group_name="both"))
        hypervisor.set_limits(uuid, "vdb", Limits(total_iops_sec=400, group_name="both"))
        assert hypervisor.in_force(uuid, "vda") == Limits(total_iops_sec=400, group_name="both")
        assert hypervisor.in_force(uuid, "vdb") == Limits(total_iops_sec=400, group_name="both")

    def test_a_disk_that_leaves_its_group_takes_nobody_along(self, hypervisor: Hypervisor, uuid: str) -> None:
        for target in ("vda", "vdb"):
            hypervisor.set_limits(uuid, target, Limits(total_iops_sec=400, group_name="both"))
        hypervisor.set_limits(uuid, "vdb", Limits(total_iops_sec=100), alone=True)
        assert hypervisor.in_force(uuid, "vdb") == Limits(total_iops_sec=100)
        assert hypervisor.in_force(uuid, "vda") == Limits(total_iops_sec=400, group_name="both")

    def test_a_disk_stays_in_its_group_unless_it_is_taken_out(self, hypervisor: Hypervisor, uuid: str) -> None:
        hypervisor.set_limits(uuid, "vdb", Limits(total_iops_sec=400, group_name="both"))
        hypervisor.set_limits(uuid, "vdb", Limits(total_iops_sec=100))
        assert hypervisor.in_force(uuid, "vdb") == Limits(total_iops_sec=100, group_name="both")

    def test_a_lifted_disk_is_put_back_into_the_group_that_its_definition_keeps(
        self, hypervisor: Hypervisor, uuid: str
    ) -> None:
        hypervisor.set_limits(uuid, "vdb", Limits(total_iops_sec=400, group_name="both"))
        hypervisor.set_limits(uuid, "vdb", Limits())
        assert self.definition(hypervisor, uuid, "vdb").defined == Limits()
        assert self.definition(hypervisor, uuid, "vdb").group == "both"
        hypervisor.set_limits(uuid, "vdb", Limits(total_iops_sec=100))
        assert hypervisor.in_force(uuid, "vdb").group_name == "both"

    def test_the_definition_is_read_anew_at_every_look(self, hypervisor: Hypervisor, uuid: str) -> None:
        before = self.definition(hypervisor, uuid, "vdb").defined
        hypervisor.set_limits(uuid, "vdb", Limits(write_bytes_sec=2**20))
        assert self.definition(hypervisor, uuid, "vdb").defined != before

    def test_sizes_are_in_bytes(self, hypervisor: Hypervisor, uuid: str) -> None:
        assert hypervisor.sizes(uuid)["vdb"] % 2**20 == 0

    def test_a_guest_that_is_gone_has_vanished(self, hypervisor: Hypervisor) -> None:
        with pytest.raises(Vanished):
            hypervisor.look(NOBODY)
        with pytest.raises(Vanished):
            hypervisor.in_force(NOBODY, "vda")
        with pytest.raises(Vanished):
            hypervisor.set_limits(NOBODY, "vda", Limits(total_iops_sec=1))

    def test_a_disk_that_is_not_there_is_refused(self, hypervisor: Hypervisor, uuid: str) -> None:
        with pytest.raises(Rejected):
            hypervisor.in_force(uuid, "vdz")
        with pytest.raises(Rejected):
            hypervisor.set_limits(uuid, "vdz", Limits(total_iops_sec=1))

    def test_the_largest_values_are_kept_whole(self, hypervisor: Hypervisor, uuid: str) -> None:
        limits = Limits(total_bytes_sec=10**15, total_iops_sec=10**15)
        hypervisor.set_limits(uuid, "vdb", limits)
        assert hypervisor.in_force(uuid, "vdb") == limits

    def test_there_are_19_numbers(self, hypervisor: Hypervisor, uuid: str) -> None:
        assert len(PARAMETERS) == 19
        assert set(hypervisor.in_force(uuid, "vdb").full_set()) == {parameter.name for parameter in PARAMETERS}
