"""What was written under congestion, as entries of the record: one for each pass and device class.

An entry has the limits of each disk that it changed, with and without the reduction; the newest one of a disk counts.
It is written before the limits are. For changes that failed there is another one with the limits that stayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.entries import Event, Happening, RecordedEvent
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.util.decoding import text, value_of
from plimsoll_agent.util.frozen import asdict, frozen

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

    @property
    def is_reduced(self) -> bool:
        return self.limits != self.of


def events(changes: Iterable[Change], now: datetime, by: str, *, failed: bool = False) -> list[Event]:
    """An entry for each class and factor; of changes that ``failed`` with the limits of before."""
    rows: dict[tuple[str, str, float], list[dict[str, object]]] = {}
    for change in changes:
        reduction = change.reduction
        if reduction is not None:
            key = (reduction.cluster, reduction.device_class, reduction.x)
            limits = change.before if failed else change.after
            rows.setdefault(key, []).append(
                {
                    "disk": asdict(change.disk.named),
                    "attachment": change.disk.attachment,
                    "limits": limits.in_effect(),
                    "of": reduction.of.in_effect(),
                }
            )
    return [
        Event(
            at=now,
            by=by,
            what=Happening.CONGESTION,
            reason=because(
                Code.CONGESTION,
                x=x,
                cluster=cluster,
                **{"class": name, DISKS: disks} | ({"failed": True} if failed else {}),
            ),
        )
        for (cluster, name, x), disks in sorted(rows.items(), key=lambda row: row[0])
    ]


def intended(event: RecordedEvent) -> Iterator[Intended]:
    """The disks of an entry. Raises what ``decoding.UNREADABLE`` names."""
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
        )
