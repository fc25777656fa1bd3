"""Real libvirt and QEMU: the contract that the unit tests' fake stands by, and all parameters set and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.disk import ephemeral, volume
from lab.looking import actual, put
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import BASES, Limits
from tests.contract import HypervisorContract

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def guest(cloud: Cloud) -> Iterator[Guest]:
    (guest,) = cloud.paused_guests([[ephemeral(2**30), volume(2**30), volume(2**30, "scsi")]])
    yield guest
    guest.destroy()


@pytest.fixture
def uuid(guest: Guest) -> str:
    return guest.uuid


@pytest.mark.core
class TestLibvirtAndQemu(HypervisorContract):
    pass


def _alone() -> Iterator[Limits]:
    """Each of the 19 parameters with only what it needs beside it."""
    for base in BASES:
        yield Limits.from_mapping({base: 1000})
        yield Limits.from_mapping({base: 1000, f"{base}_max": 3000})
        yield Limits.from_mapping({base: 1000, f"{base}_max": 3000, f"{base}_max_length": 7})
        if "_iops_" in base:
            yield Limits.from_mapping({base: 1000, "size_iops_sec": 8192})


def _together() -> Iterator[Limits]:
    yield Limits(total_iops_sec=250, total_iops_sec_max=500, total_bytes_sec=104857600, total_bytes_sec_max=125829120)
    yield Limits(read_iops_sec=400, write_iops_sec=200)
    yield Limits(read_bytes_sec=80000000, write_bytes_sec=80000000, read_iops_sec=100, write_iops_sec=100)
    yield Limits(total_bytes_sec=10**6, read_iops_sec=10, write_iops_sec=20, write_iops_sec_max=21)
    parts = [(n, base) for n, base in enumerate(BASES) if "total" not in base]
    yield Limits.from_mapping(
        {base: 100 + n for n, base in parts}
        | {f"{base}_max": 1000 + n for n, base in parts}
        | {f"{base}_max_length": 2 + n for n, base in parts}
        | {"size_iops_sec": 65536}
    )
    yield Limits(total_iops_sec=1, total_bytes_sec=1)
    yield Limits(total_iops_sec=10**15, total_bytes_sec=10**15)
    yield Limits(total_iops_sec=10**14, total_iops_sec_max=10**14, total_iops_sec_max_length=10)


@pytest.mark.parametrize("target", ["vda", "vdb", "sda"])
def test_limits_are_actual_as_qemu_itself_says_and_nothing_of_those_before_them(
    hypervisor: Libvirt, guest: Guest, target: str
) -> None:
    """Each set follows one with parameters that it lacks, which must be gone."""
    image = guest.disks[target]
    for limits in (*_alone(), *_together()):
        put(hypervisor, guest.uuid, target, limits)
        assert actual(hypervisor, guest.uuid, target) == limits
        assert hypervisor.qemu_says(guest.uuid)[f"{image.pool}/{image.image}"] == limits


def test_the_persistent_definition_gets_the_limits_too(
    hypervisor: Libvirt, guests: Callable[..., list[Guest]]
) -> None:
    from plimsoll_agent.adapters.libvirt import domxml

    (guest,) = guests()
    disk = hypervisor.look(guest.uuid).disks[1]
    hypervisor.define_limits(disk, Limits(total_iops_sec=250))
    inactive = 2  # VIR_DOMAIN_XML_INACTIVE
    assert domxml.parse(guest.domain().XMLDesc(inactive))[1][1].defined == Limits(total_iops_sec=250)
    assert actual(hypervisor, guest.uuid, "vdb") == Limits(), "CONFIG touches nothing that runs"


def test_a_disk_leaves_its_group_in_the_persistent_definition_too(
    hypervisor: Libvirt, guests: Callable[..., list[Guest]]
) -> None:
    """libvirt keeps the group of a set without one, and gives its other disks the same limits."""
    from plimsoll_agent.adapters.libvirt import domxml

    (guest,) = guests()
    both = Limits(total_iops_sec=400, group_name="both")
    disks = hypervisor.look(guest.uuid).disks
    for disk in disks:
        hypervisor.define_limits(disk, both)
    hypervisor.define_limits(disks[1], Limits(total_iops_sec=100))
    inactive = 2  # VIR_DOMAIN_XML_INACTIVE
    after = [disk.defined for disk in domxml.parse(guest.domain().XMLDesc(inactive))[1]]
    assert after == [both, Limits(total_iops_sec=100)]
