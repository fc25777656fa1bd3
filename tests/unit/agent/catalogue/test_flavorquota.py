"""A flavor's ``quota:disk_*`` gives the limits that Nova writes for local disks, and bursts on top."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.adapters.libvirt.domxml import parse
from plimsoll_agent.catalogue.flavorquota import quota
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown

DATA = Path(__file__).parents[2] / "data"


def test_the_limits_are_those_that_nova_wrote_for_the_guests_own_disk() -> None:
    _, disks = parse((DATA / "24-scsi-flavor-quota-root.live.xml").read_text(encoding="utf-8"))
    specs = {"quota:disk_read_iops_sec": "222", "quota:disk_write_bytes_sec": "5242880", "hw:cpu_policy": "shared"}
    assert [disk.defined for disk in disks if disk.volume_id is None] == [quota(specs)]


@pytest.mark.parametrize(
    "key",
    [
        "disk_read_iops_sec",
        "hw:disk_read_iops_sec",
        "quota:read_iops_sec",
        "quota:disk_io_limit",
        "quota:disk_size_iops_sec",
        "quota:",
    ],
)
def test_other_keys_of_a_flavor_are_no_quota_of_its_disks(key: str) -> None:
    assert quota({key: "100"}) is None


def test_a_quota_of_zero_is_an_answer_and_not_silence() -> None:
    assert quota({"quota:disk_total_iops_sec": "0"}) == Limits()


def test_a_quota_without_a_value_is_no_quota_as_in_libvirt() -> None:
    assert quota({"quota:disk_total_iops_sec": ""}) is None
    assert quota({"quota:disk_total_iops_sec": "", "quota:disk_read_bytes_sec": "5"}) == Limits(read_bytes_sec=5)


def test_bursts_and_their_lengths_are_taken_though_nova_has_none() -> None:
    specs = {
        "quota:disk_total_iops_sec": "250",
        "quota:disk_total_iops_sec_max": "500",
        "quota:disk_total_iops_sec_max_length": "20",
    }
    assert quota(specs) == Limits(total_iops_sec=250, total_iops_sec_max=500, total_iops_sec_max_length=20)


def test_what_follows_a_second_colon_is_not_looked_at_as_in_nova() -> None:
    assert quota({"quota:disk_read_iops_sec:old": "5"}) == Limits(read_iops_sec=5)


@pytest.mark.parametrize(
    "items",
    [
        {"read_iops_sec": "many"},
        {"read_iops_sec": "1_000"},
        {"read_iops_sec": "-1"},
        {"read_iops_sec": str(10**15 + 1)},
        {"read_iops_sec": "5", "total_iops_sec": "5"},
        {"read_iops_sec_max": "5"},
        {"read_iops_sec": "5", "read_iops_sec_max": "4"},
        {"read_iops_sec": "5", "read_iops_sec_max_length": "4"},
    ],
    ids=repr,
)
def test_a_quota_that_libvirt_or_qemu_would_refuse_is_unknown_and_never_zero(items: dict[str, str]) -> None:
    found = quota({f"quota:disk_{item}": text for item, text in items.items()})
    assert isinstance(found, Unknown)
    assert found.reason.code is Code.QUOTA_UNREADABLE
    assert "read_iops_sec" in str(found.reason.facts["detail"])


def test_a_flavor_has_credits_as_a_qos_spec_has_them() -> None:
    specs = {"quota:disk_total_iops_sec": "100", "plimsoll:total_iops_sec_max": "1000", "plimsoll:capacity": "60000"}
    assert quota(specs) == Limits(total_iops_sec=100, total_iops_sec_max=1000, total_iops_sec_max_length=60)
    assert isinstance(quota(specs | {"plimsoll:capacity": "some"}), Unknown)
