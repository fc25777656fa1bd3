"""What a last pass over a node came to, as several unit tests start from it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from plimsoll_agent.congestion.signal import Wait
from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.hypervisor import BlockStats, GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.model.usage import Rates, Reading
from plimsoll_agent.monitor.pass_summary import LastCatalogue, LastCeiling, LastDisk, LastPass, Totals
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind, UnreachableGuest
from plimsoll_agent.store.refresh_state import Calls
from plimsoll_agent.util.frozen import replace
from tests.unit.node import FSID, uuid_of
from tests.unit.values import NOON, PROJECT, VOLUME

GOLD = Limits(total_iops_sec=500, total_iops_sec_max=1000, total_iops_sec_max_length=60, total_bytes_sec=104857600)
BRONZE = Limits(total_iops_sec=250)
UNTOUCHED = because(Code.TIMED_OUT, detail="no answer from QEMU within 5 s")


def a_name(number: int = 1, target: str = "vdb", **other: Any) -> DiskName:
    uuid = uuid_of(number)
    return DiskName(
        **{
            "key": f"{uuid}/{VOLUME}",
            "guest_uuid": uuid,
            "guest_name": f"instance-{number:08}",
            "project": PROJECT,
            "target": target,
            "pool": "volumes",
            "image": f"volume-{VOLUME}",
            "volume_id": VOLUME,
        }
        | other
    )


def a_last_disk(named: DiskName | None = None, **other: Any) -> LastDisk:
    """A gold one that is right, of which nobody has read the counters."""
    return LastDisk(
        **{
            "named": named or a_name(),
            "volume_type": "gold",
            "flavor": "m1.small",
            "cluster": FSID,
            "kind": Kind.IN_SYNC,
            "reason": because(Code.QOS_SPEC, spec="gold-iops", type="gold"),
            "actual": GOLD,
            "desired": GOLD,
            "drifted": False,
            "corrected": 0,
            "attachment": f"3:2:volumes/volume-{VOLUME}",
        }
        | other
    )


def a_last_pass(*disks: LastDisk, **other: Any) -> LastPass:
    """A good one that enforced, and ended at noon."""
    return LastPass(
        **{
            "version": "1.2.3",
            "boot": "b1",
            "started": NOON - timedelta(seconds=2),
            "ended": NOON,
            "grade": Grade.GOOD,
            "enforcing": True,
            "looked": NOON - timedelta(seconds=2),
            "last_good": NOON,
            "phases": {"observe": 1.25, "decide": 0.0625, "gate": 0.25, "apply": 0.125, "keep": 0.03125},
            "disks": disks,
            "guests": len({disk.named.guest_uuid for disk in disks}),
            "sources": {"libvirt": True, "rules": True, "record": True},
            "totals": Totals(passes={Grade.GOOD: 1}),
        }
        | other
    )


def a_varied_pass(**other: Any) -> LastPass:
    """One of four disks that has something of everything: what is not known, hostile names, a source that is down."""
    used = a_last_disk(
        corrected=2,
        reading=Reading(
            7200.5,
            BlockStats(
                read_requests=720000,
                read_bytes=11796480000,
                write_requests=480000,
                write_bytes=7864320000,
                nanoseconds=9600000000000,
                flushes=12000,
            ),
        ),
        rates=Rates(
            read_iops=120.0,
            write_iops=80.5,
            read_bytes=1966080.0,
            write_bytes=1318912.0,
            seconds=300.0,
            latency=0.0085,
        ),
        shares={"total_iops_sec": 0.401, "total_bytes_sec": 0.03125},
        allowed={"total_iops_sec": 700.0, "total_bytes_sec": 104892552.5},
        saved={"total_iops_sec": 0.375},
        server='web "1"',
        project_name="shop",
        held_until=NOON + timedelta(hours=6),
    )
    hostile = a_last_disk(
        a_name(2, "vdc", guest_name='in"\\stance\n\x1b[2J# HELP\u202e'),
        kind=Kind.CHANGED,
        drifted=True,
        corrected=1,
        actual=replace(BRONZE, size_iops_sec=16384),
        desired=replace(BRONZE, size_iops_sec=16384),
        unreduced=replace(BRONZE, size_iops_sec=16384),
        device_class="ssd",
        reading=Reading(7200.5, BlockStats(read_requests=7, read_bytes=28672, write_requests=0, write_bytes=0)),
    )
    own = a_last_disk(
        a_name(2, "vda", key=f"{uuid_of(2)}/vms/x_disk", pool="vms", image="x_disk", project=None, volume_id=None),
        volume_type=None,
        flavor=None,
        cluster=None,
        kind=Kind.UNKNOWN,
        reason=UNTOUCHED,
        actual=None,
        desired=BRONZE,
    )
    free = a_last_disk(
        a_name(3),
        volume_type="bronze",
        kind=Kind.FAILED,
        reason=because(Code.REJECTED, detail="no"),
        actual=Limits(),
        desired=BRONZE,
        reading=Reading(7200.5, BlockStats(read_requests=0, read_bytes=0, write_requests=0, write_bytes=0)),
        rates=Rates(read_iops=0.0, write_iops=0.0, read_bytes=0.0, write_bytes=0.0, seconds=300.0),
    )
    values = {
        "grade": Grade.PARTIAL,
        "last_good": NOON - timedelta(minutes=10),
        "interval": 300.0,
        "unreachable": (
            UnreachableGuest(GuestRef(uuid_of(4), "instance-00000004"), UNTOUCHED),
            UnreachableGuest(GuestRef(uuid_of(5), "instance-00000005"), because(Code.NOT_FOUND, detail="it is gone")),
        ),
        "unread": {
            f"{uuid_of(4)}/volumes/x": (
                "a1",
                Reading(
                    6900.5,
                    BlockStats(
                        read_requests=7,
                        read_bytes=28672,
                        write_requests=0,
                        write_bytes=0,
                        nanoseconds=9000,
                        flushes=3,
                    ),
                ),
            )
        },
        "healthy": frozenset({"c2"}),
        "paused_guests": frozenset({uuid_of(3)}),
        "hung_guests": frozenset({uuid_of(2)}),
        "paused": because(Code.PAUSED, file="/etc/plimsoll/paused", why="maintenance"),
        "revision": "0123456789abcdef0123456789abcdef",
        "braked": "a1b2c3d4e5f60718293a",
        "braked_disks": 3,
        "position": 12.5,
        "stage": "0a1b" * 16,
        "guests_to_probe": 2,
        "ceilings": (
            LastCeiling(
                whose="guest",
                owner=uuid_of(1),
                rule="small",
                ceiling={"total_iops_sec": 3000},
                allowed={"total_iops_sec": 2500},
                used={"total_iops_sec": None},
            ),
            LastCeiling(
                whose="project",
                owner=PROJECT,
                rule='data "bases"',
                ceiling={"total_iops_sec": 10000, "total_bytes_sec": 104857600},
                allowed={"total_iops_sec": 10000, "total_bytes_sec": 104857600},
                used={"total_iops_sec": 412.5, "total_bytes_sec": 0.0},
            ),
        ),
        "holds": 1,
        "sources": {
            "libvirt": True,
            "rules": False,
            "record": True,
            "writes": True,
            "disks": True,
            "catalogue": True,
        },
        "catalogue": LastCatalogue(NOON - timedelta(minutes=15), "openstack", 7200),
        "calls": Calls(20, 1, {"cinder": 40, "nova": 8}),
        "busy": 4,
        "totals": Totals(
            passes={Grade.GOOD: 10, Grade.PARTIAL: 2},
            outcomes={Kind.IN_SYNC: 41, Kind.CHANGED: 4, Kind.FAILED: 1, Kind.UNKNOWN: 2},
            corrected={"gold": 3, "silver": 1},
            light={(FSID, "volumes"): Wait(205.5, 36000.0)},
        ),
        "notes": (because(Code.NO_RESULTS, detail="disk full"),),
        "trouble": "/etc/plimsoll/rules.yaml:14: no\nUsing the last good rules.",
    }
    return replace(a_last_pass(used, hostile, own, free), **(values | other))
