"""The past of ``plimsoll top``: what disks did by each pass, and which limits were changed. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from plimsoll_agent.messages.limits import short_change
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import TAKEN, RecordedChange
from plimsoll_agent.model.limits import Limits, LimitsError
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.model.usage import Usage
from plimsoll_agent.monitor.usage_history import PastDisk, PastPass
from plimsoll_agent.top.sampler import Sample
from plimsoll_agent.util.frozen import frozen, replace

NOT_MEASURED = because(Code.NOT_SENT, detail="not measured in this pass")
NO_SAMPLE = because(Code.NOT_SENT, detail="Prometheus has no sample of it")
_UNKNOWN = Unknown(because(Code.NOT_SENT, detail="the history has the closest limit only, and none of this disk"))


@frozen(kw_only=True)
class PastMoment:
    """A pass, and the changes of limits between the one before it and itself; of the newest also those since then."""

    of: PastPass
    changes: tuple[RecordedChange, ...]


@frozen(kw_only=True)
class Rewound:
    """Where a screen is in the past: the passes that are known, and the number of the one that it shows."""

    moments: Sequence[PastMoment] = field(hash=False)
    back: int
    """1 is the newest."""
    gone: int
    """Disks of that pass that are no longer here."""

    @property
    def moment(self) -> PastMoment:
        return self.moments[-self.back]

    def strip(self, width: int) -> str:
        """The passes, oldest first: ``·`` one, ``◆`` one with changes, ``▲`` the one that is shown."""
        number = len(self.moments)
        cells = ["·"] * min(width, number)
        for at, moment in enumerate(self.moments):
            if moment.changes:
                cells[at * len(cells) // number] = "◆"
        cells[(number - self.back) * len(cells) // number] = "▲"
        return "".join(cells)


def moments(passes: Sequence[PastPass], changes: Iterable[RecordedChange]) -> list[PastMoment]:
    """The passes, each with the changes since the one before it that took effect.

    A pass measures before it changes: what the newest one changed is seen in no pass yet, and must not be missed.
    """
    effective = [change for change in changes if change.result in TAKEN]
    ends = [past.at for past in passes]
    of_each: list[list[RecordedChange]] = [[] for _ in passes]
    for change in effective if passes else ():
        of_each[min(bisect_left(ends, change.at), len(ends) - 1)].append(change)
    return [PastMoment(of=past, changes=tuple(its)) for past, its in zip(passes, of_each, strict=True)]


def rewound(moments: Sequence[PastMoment], back: int, now: Sample) -> tuple[Sample, Rewound]:
    """What the disks that are here ``now`` did in that pass."""
    past = moments[-back].of
    unknown = NOT_MEASURED if past.step is None else NO_SAMPLE
    usages = tuple(_usage(each.disk, past.disks, unknown) for each in now.usages)
    here = {each.disk.key for each in now.usages}
    hung = tuple(each for each in now.unreachable if each.guest.uuid in past.unanswered)
    sample = replace(now, usages=usages, unreachable=hung)
    return sample, Rewound(moments=moments, back=back, gone=len(past.disks.keys() - here))


def change_words(moment: PastMoment, now: Sample) -> str:
    """``web-1 vda 250 → 25 IOPS, …``; empty without a change."""
    servers = {each.disk.guest.uuid: each.disk.guest.display_name for each in now.usages}
    return ", ".join(
        f"{servers.get(change.disk.guest_uuid) or change.disk.guest_name} {change.disk.target}"
        f" {short_change(change.before, change.after)}"
        for change in moment.changes
    )


def _usage(disk: Disk, past: Mapping[str, PastDisk], unknown: Reason) -> Usage:
    then = past.get(disk.key)
    if then is None:
        return Usage(disk=replace(disk, actual=Unknown(unknown)), reason=unknown)
    shares = {} if then.limit is None or then.share is None else {then.limit: then.share}
    return Usage(disk=replace(disk, actual=_limits(then)), rates=then.rates, shares=shares)


def _limits(then: PastDisk) -> Limits | Unknown:
    """The closest limit of then: the history has no other."""
    try:
        return Limits.from_mapping({then.limit: then.allowed}) if then.limit and then.allowed else _UNKNOWN
    except LimitsError:  # of another version
        return _UNKNOWN
