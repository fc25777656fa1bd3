"""What was written under congestion and by ceilings that disks share, as entries of the record: one for each pass and
device class, or those ceilings.

An entry has the limits of each disk that it changed, with and without the reduction; the newest one of a disk counts.
It is written before the limits are. For changes without an effect there is another one with the limits that stayed,
which takes back the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from plimsoll_agent.ceilings.buckets import CeilingKey
from plimsoll_agent.model.disk import Disk, DiskName
from plimsoll_agent.model.entries import Event, Happening, RecordedEvent
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason
from plimsoll_agent.policy.diff import Change, Reduction
from plimsoll_agent.util.decoding import as_json, text, value_of
from plimsoll_agent.util.frozen import asdict, frozen, replace

DISKS = "members"


@frozen(kw_only=True)
class Intended:
    """The limits of a disk, and those that it has without a reduction."""

    at: datetime
    by: str
    disk: DiskName
    attachment: str
    limits: Limits
    of: Limits
    x: float
    cluster: str
    device_class: str
    failed: bool = False
    """It had no effect, and these limits stayed."""
    ceilings: tuple[CeilingKey, ...] = ()

    @property
    def reason(self) -> Reason:
        return Reduction(
            of=self.of,
            own=None,
            x=self.x,
            cluster=self.cluster,
            device_class=self.device_class,
            ceilings=self.ceilings,
            ends=not self.is_reduced,
        ).reason

    @property
    def is_reduced(self) -> bool:
        return self.limits != self.of


def events(changes: Iterable[Change], now: datetime, by: str, *, failed: bool = False) -> list[Event]:
    """An entry for each reason, as class and factor; of changes that ``failed`` with the limits of before."""
    rows: list[tuple[Reason, _Row]] = []
    for change in changes:
        reduction, limits = change.reduction, change.before if failed else change.after
        if reduction is not None:
            of = reduction.own.before if failed and reduction.own is not None else reduction.of
            rows.append((reduction.reason, _row(change.disk, limits, of)))
    return _entries(rows, now, by, failed=failed)


def without_effect(pairs: Iterable[tuple[Disk, Intended]], now: datetime, by: str) -> list[Event]:
    """As ``events`` of changes that failed, of disks that have other limits than was intended."""
    rows = [
        (last.reason, _row(disk, disk.in_force, disk.actual))
        for disk, last in pairs
        if isinstance(disk.in_force, Limits) and isinstance(disk.actual, Limits)
    ]
    return _entries(rows, now, by, failed=True)


_Row = Mapping[str, object]


def _row(disk: Disk, limits: Limits, of: Limits) -> _Row:
    return {
        "disk": asdict(disk.named),
        "attachment": disk.attachment,
        "limits": limits.in_effect(),
        "of": of.in_effect(),
    }


def _entries(rows: Iterable[tuple[Reason, _Row]], now: datetime, by: str, *, failed: bool) -> list[Event]:
    by_reason: dict[str, tuple[Reason, list[_Row]]] = {}
    for reason, row in rows:
        by_reason.setdefault(as_json(reason.as_record()), (reason, []))[1].append(row)
    return [
        Event(
            at=now,
            by=by,
            what=Happening.CEILING if reason.code is Code.CEILING else Happening.CONGESTION,
            reason=replace(reason, facts={**reason.facts, DISKS: disks} | ({"failed": True} if failed else {})),
        )
        for _, (reason, disks) in sorted(by_reason.items(), key=lambda row: row[0])
    ]


def standing(newest_first: Iterable[RecordedEvent]) -> Iterator[Intended]:
    """What was written, the newest first, without that which had no effect.

    Raises what ``decoding.UNREADABLE`` names.
    """
    taken_back: set[str] = set()
    for each in (each for event in newest_first for each in _intended(event)):
        if each.failed:
            taken_back.add(each.disk.key)
        elif each.disk.key in taken_back:
            taken_back.remove(each.disk.key)
        else:
            yield each


def _intended(event: RecordedEvent) -> Iterator[Intended]:
    facts: Mapping[str, Any] = {} if event.reason is None else event.reason.facts
    rows: Sequence[Mapping[str, Any]] = facts.get(DISKS) or ()
    for row in rows:
        yield Intended(
            at=event.at,
            by=event.by,
            disk=value_of(DiskName, row["disk"]),
            attachment=text(row["attachment"]),
            limits=Limits.from_mapping(row["limits"]),
            of=Limits.from_mapping(row["of"]),
            x=float(facts["x"]),
            cluster=text(facts["cluster"]),
            device_class=text(facts["class"]),
            failed=facts.get("failed") is True,
            ceilings=tuple(value_of(CeilingKey, each) for each in facts.get("ceilings") or ()),
        )
