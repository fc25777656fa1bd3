"""QEMU's own word, read out of query-block as QEMU 5.2 to 7.2 write it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plimsoll_agent.adapters.libvirt.qmp import limits_by_image, returned
from plimsoll_agent.errors import Rejected
from plimsoll_agent.model.limits import Limits

THROTTLED = {"bps": 0, "bps_rd": 0, "bps_wr": 0, "iops": 250, "iops_rd": 0, "iops_wr": 0, "iops_max": 500}
THROTTLED |= {"iops_max_length": 10, "group": "/machine/peripheral/virtio-disk0/virtio-backend"}
LIMITS = Limits(total_iops_sec=250, total_iops_sec_max=500, total_iops_sec_max_length=10)
FREE = {"bps": 0, "bps_rd": 0, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0}


def device(file: object, throttle: dict[str, Any] = THROTTLED) -> dict[str, Any]:
    """A device as -blockdev has it: no name, a path in QEMU's object tree, and its file."""
    name = file if isinstance(file, str) else f"json:{json.dumps(file)}"
    path = "/machine/peripheral/virtio-disk0/virtio-backend"
    return {"device": "", "qdev": path, "inserted": {"file": name, "drv": "raw", "ro": False, **throttle}}


def rbd(pool: str = "volumes", image: str = "volume-1", **other: object) -> dict[str, object]:
    servers = [{"host": "10.0.0.1", "port": "3300"}, {"host": "10.0.0.2", "port": "3300"}]
    return {"driver": "rbd", "pool": pool, "image": image, "server": servers, "user": "cinder", **other}


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ({"driver": "raw", "file": rbd()}, "volumes/volume-1"),
        (rbd(), "volumes/volume-1"),
        ({"driver": "raw", "file": rbd(namespace="tenant")}, "volumes/tenant/volume-1"),
        ({"driver": "luks", "key-secret": "s", "file": rbd()}, "volumes/volume-1"),
        ({"driver": "raw", "file": rbd(encrypt={"format": "luks"})}, "volumes/volume-1"),
        ({"driver": "throttle", "file": {"driver": "raw", "file": rbd()}}, "volumes/volume-1"),
        ({"driver": "raw", "file": rbd(image='odd "name" 🚢')}, 'volumes/odd "name" 🚢'),
        ("rbd:volumes/volume-1:id=cinder:auth_supported=cephx:mon_host=10.0.0.1\\:3300", "volumes/volume-1"),
        ("rbd:volumes/tenant/volume-1:id=cinder", "volumes/tenant/volume-1"),
        ("rbd:volumes/volume-1", "volumes/volume-1"),
    ],
    ids=str,
)
def test_the_limits_of_an_rbd_disk_are_found_by_its_path(file: object, path: str) -> None:
    assert limits_by_image([device(file)]) == {path: LIMITS}


@pytest.mark.parametrize(
    "other",
    [
        {"device": "ide0-cd0", "removable": True, "tray_open": False},
        {"device": "ide0-cd0", "inserted": None},
        {"device": "drive0", "inserted": {"drv": "raw", **THROTTLED}},
        device("/var/lib/nova/instances/disk"),
        device({"driver": "qcow2", "file": {"driver": "file", "filename": "/x"}}),
        device({"driver": "raw", "file": {"driver": "host_device", "filename": "/dev/sda"}}),
    ],
    ids=["empty drive", "no medium", "no file", "file", "qcow2", "device"],
)
def test_what_is_no_rbd_disk_is_left_out_and_hides_no_other(other: dict[str, Any]) -> None:
    assert limits_by_image([other, device(rbd())]) == {"volumes/volume-1": LIMITS}


def test_each_disk_has_its_own_limits() -> None:
    assert limits_by_image([device(rbd()), device(rbd(image="volume-2"), FREE)]) == {
        "volumes/volume-1": LIMITS,
        "volumes/volume-2": Limits(),
    }


def test_an_error_of_qemu_is_rejected_with_its_words() -> None:
    assert returned({"return": {}, "id": "libvirt-7"}) == {}
    with pytest.raises(Rejected, match=r"^QEMU: Device 'x' not found$"):
        returned({"error": {"class": "DeviceNotFound", "desc": "Device 'x' not found"}, "id": "libvirt-7"})
    for hostile in (7, {"desc": "a" * 5000}, {"desc": "\x1b[2J\n"}, {}):
        with pytest.raises(Rejected) as refused:
            returned({"error": hostile})
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 300
