"""Whose an image is."""

from __future__ import annotations

import pytest

from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.monitor.pass_summary import LastDisk
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.slow.images import Owner, UnreadableImages, owner, parse, path

VOLUME, SERVER = "6665c608-001a-4ea4-a2eb-d491b58efc11", "5c9b0f6e-3f0e-4a51-9a44-7f0f9a1d2b77"


def disk(pool: str, image: str) -> LastDisk:
    named = DiskName(
        key=f"{SERVER}/{VOLUME}",
        guest_uuid=SERVER,
        guest_name="instance-00000412",
        project="shop",
        target="vdb",
        pool=pool,
        image=image,
        volume_id=VOLUME,
    )
    return LastDisk(
        named=named, volume_type=None, flavor=None, cluster=None, kind=Kind.IN_SYNC, reason=because(Code.RULE),
        actual=None, desired=None, drifted=False, corrected=0, server="web-1",
    )  # fmt: skip


def test_a_disk_of_this_node_has_its_guest_whatever_the_image_s_name() -> None:
    """A volume that Cinder migrated has an image named after another uuid."""
    found = owner("volumes/volume-00000000-0000-4000-8000-000000000000",
                  [disk("volumes", "volume-00000000-0000-4000-8000-000000000000")])  # fmt: skip
    assert found == Owner(volume=VOLUME, server="web-1", guest="instance-00000412", uuid=SERVER)


def test_the_same_name_in_another_pool_is_another_image() -> None:
    assert owner(f"vms/volume-{VOLUME}", [disk("volumes", f"volume-{VOLUME}")]) == Owner(volume=VOLUME)
    assert owner(f"volume-{VOLUME}", [disk("volumes", f"volume-{VOLUME}")]).guest == "instance-00000412"


def test_an_image_in_a_namespace_has_its_guest_unless_two_have_such_a_name() -> None:
    one, twin = disk("volumes", "db"), disk("volumes", "db")
    assert owner("volumes/tenants/db", [one]).guest == "instance-00000412"
    assert owner("vms/tenants/db", [one]) == Owner()
    other = replace(twin, named=replace(twin.named, key=f"{VOLUME}/vdb", guest_uuid=VOLUME, volume_id=None))
    assert owner("volumes/tenants/db", [one, other]) == Owner()


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        (f"volumes/volume-{VOLUME}", Owner(volume=VOLUME)),
        (f"vms/{SERVER}_disk", Owner(uuid=SERVER)),
        (f"vms/{SERVER}_disk.eph0", Owner(uuid=SERVER)),
        ("images/cirros", Owner()),
        (f"volumes/volume-{VOLUME}x", Owner()),
    ],
)
def test_of_a_disk_elsewhere_the_name_tells_the_volume_or_the_guest(name: str, whose: Owner) -> None:
    assert owner(name, []) == whose


def test_a_list_has_a_name_for_each_id() -> None:
    assert parse("102afe660f2 volumes/a b\n\n  10207113b231   c\n", "here") == {
        "102afe660f2": "volumes/a b", "10207113b231": "c",
    }  # fmt: skip
    assert (path("c", "volumes"), path("vms/c", "volumes"), path("c", None), path(None, "volumes")) == (
        "volumes/c", "vms/c", "c", None,
    )  # fmt: skip


@pytest.mark.parametrize("line", ["102afe660f2", "volumes/a 102afe660f2", "\x1b[31m x"])
def test_a_line_of_another_kind_is_an_error_with_its_number(line: str) -> None:
    with pytest.raises(UnreadableImages, match=r"^here:2: .*write ID IMAGE"):
        parse(f"102afe660f2 a\n{line}\n", "here")
