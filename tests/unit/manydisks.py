"""A pass over so many disks, of every kind that ``plan`` tells apart."""

from __future__ import annotations

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Unmanaged
from plimsoll_agent.reconcile.outcome import Braked, Edit, Kind, Outcome, PassReport, Result
from plimsoll_agent.util.frozen import replace
from tests.unit.outcomes import a_pass, planned, staying
from tests.unit.values import NOON, a_disk, a_guest

PER_GIB = {"parameter": "total_iops_sec", "per_gb": 30, "gib": 100, "minimum": 500, "maximum": None, "result": 3000}
SPEC = because(Code.QOS_SPEC, type="gold", spec="gold-iops", consumer="front-end", gib=100, arithmetic=[PER_GIB])
DEFAULT = because(Code.NODE_DEFAULT)
RULE = because(Code.RULE, rule="gold racks", why="contract 7")
HELD = because(Code.HOLD, why="import runs", by="ann", until="2026-11-20T14:30:00+00:00")
NOT_FETCHED = because(Code.VOLUME_NOT_FETCHED, since=NOON.isoformat())
UNWELL = because(Code.CLUSTER_UNHEALTHY, cluster="bcebd1ee-1d2f-4c49-8a8b-2b1cd6ac1dd1", checks="OSD_DOWN, SLOW_OPS")
IOPS = Limits(total_iops_sec=250)
NODE = Limits(total_iops_sec=250, total_bytes_sec=100 * 2**20)
GOLD = Limits(total_iops_sec=3000)
BURST = Limits(total_iops_sec=3000, total_iops_sec_max=5000, total_bytes_sec=100 * 2**20)
SPLIT = Limits(read_iops_sec=300, write_iops_sec=100)
REVISION = "7f3a91c2b04d88e1" * 4


def a_pass_over(number: int) -> PassReport:
    """Of ten disks, one at least is of each kind; some servers have long names, or some in wide characters."""
    outcomes = [_outcome(each) for each in range(number)]
    keys = frozenset(o.disk.key for o in outcomes if o.result.reason.code is Code.BRAKED)
    report = a_pass(*outcomes, seconds=1.5)
    if not keys:
        return report
    edits = (
        Edit(
            source="gold-iops", parameter="total_iops_sec", before=3000, after=30, disks=len(keys), origin="qos-spec"
        ),
    )
    stop = Braked(
        revision=REVISION,
        catalogue="ab" * 32,
        keys=keys,
        of=number,
        removed=0,
        raised=0,
        lowered=len(keys),
        edits=edits,
        left=(0.01,),
    )
    return replace(report, braked=stop)


def _outcome(number: int) -> Outcome:
    servers = ("a-server-with-a-very-long-name", "データベース", "web-1", "")
    guest = a_guest(
        uuid=f"{number:08x}-0000-4000-8000-000000000000",
        name=f"instance-{number:08x}",
        display_name=servers[number % 4] or None,
    )
    match number % 10:
        case 0 | 1 | 2 | 3:
            return planned(a_disk(guest, actual=Limits()), NODE, DEFAULT)
        case 4:
            return planned(a_disk(guest, actual=Limits(total_iops_sec=500)), GOLD, SPEC)
        case 5:
            braked = because(Code.BRAKED, revision=REVISION, disks=1, of=10)
            return planned(
                a_disk(guest, actual=GOLD), Limits(total_iops_sec=30), SPEC, result=Result(Kind.DEFERRED, braked)
            )
        case 6:
            return _still(a_disk(guest, actual=IOPS), Unknown(NOT_FETCHED), Kind.UNKNOWN)
        case 7:
            return _still(a_disk(guest, actual=NODE), Unmanaged(HELD), Kind.LEFT_ALONE)
        case 8:
            return planned(a_disk(guest, actual=BURST), SPLIT, RULE, cause=Code.EXTERNAL_CHANGE)
        case _:
            return planned(a_disk(guest, actual=GOLD), Limits(), RULE, result=Result(Kind.DEFERRED, UNWELL))


def _still(disk: Disk, desired: Unknown | Unmanaged, kind: Kind) -> Outcome:
    return staying(disk, desired, kind, desired.reason)
