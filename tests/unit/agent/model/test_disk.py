"""Who a disk is: never its letter."""

from __future__ import annotations

import pytest

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.util.frozen import replace
from tests.unit.values import GUEST, VOLUME, a_disk, a_guest

LIMITS = Limits(total_iops_sec=250)
UNKNOWN = Unknown(because(Code.TIMED_OUT, detail="?"))


def test_a_disk_that_got_another_letter_or_moved_to_another_pool_is_the_same() -> None:
    disk = a_disk()
    # A volume migration leaves the serial and changes the image below it.
    moved = replace(disk, target="vdz", pool="fast", image="volume-00000000-0000-4000-8000-000000000000")
    assert moved.key == disk.key


@pytest.mark.parametrize(
    "other",
    [
        a_disk(volume_id="a0e41de2-d6b7-47d3-8136-56883c77d09e"),
        a_disk(guest=a_guest(uuid="6ae0acc4-f470-46e7-a341-a0b935479429")),
        a_disk(volume_id=None),
    ],
    ids=["volume", "guest", "no volume"],
)
def test_another_volume_or_guest_is_another_disk(other: Disk) -> None:
    assert other.key != a_disk().key


def test_own_disks_are_told_apart_by_pool_namespace_and_image() -> None:
    own = a_disk(volume_id=None, image=f"{GUEST}_disk", pool="vms")
    others = [replace(own, image=f"{GUEST}_disk.swap"), replace(own, pool="ssd"), replace(own, namespace="a")]
    others.append(replace(own, namespace="b"))
    assert len({disk.key for disk in (own, *others)}) == 5
    assert len({disk.attachment for disk in (own, *others)}) == 5


def test_a_path_is_written_as_ceph_writes_it() -> None:
    assert a_disk().path == f"volumes/volume-{VOLUME}"
    assert a_disk(namespace="tenant").path == f"volumes/tenant/volume-{VOLUME}"


def test_a_restart_and_a_new_attachment_are_other_attachments_of_the_same_disk() -> None:
    disk = a_disk()
    again = [a_disk(guest=a_guest(run="4")), a_disk(node="9"), a_disk(image="volume-of-another-pool")]
    assert all(other.key == disk.key and other.attachment != disk.attachment for other in again)
    assert replace(disk, target="vdz").attachment == disk.attachment, "a letter is no attachment"


@pytest.mark.parametrize(
    ("actual", "defined", "drifted"),
    [
        (LIMITS, LIMITS, False),
        (Limits(), LIMITS, True),
        (LIMITS, Limits(), True),
        (UNKNOWN, LIMITS, False),
        (None, LIMITS, False),
        (LIMITS, UNKNOWN, False),
    ],
)
def test_only_what_is_known_on_both_sides_can_drift(
    actual: Limits | Unknown | None, defined: Limits | Unknown, drifted: bool
) -> None:
    assert a_disk(actual=actual, defined=defined).drifted is drifted
