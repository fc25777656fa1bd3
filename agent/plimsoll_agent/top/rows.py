"""The rows of ``plimsoll top``: what a disk does, what is desired for it, their order and filter. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from functools import lru_cache

from plimsoll_agent.messages import ceilings, sentences
from plimsoll_agent.messages.ceilings import CeilingShare
from plimsoll_agent.model.direction import share_left
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import BASES, UNITS, Limits, Unit, of_unit
from plimsoll_agent.model.reason import Code, Reason, Unknown
from plimsoll_agent.model.usage import AT_LIMIT_RATIO, Rates, Usage
from plimsoll_agent.policy.decide import Desired
from plimsoll_agent.reconcile.outcome import Kind, Outcome, UnreachableGuest
from plimsoll_agent.top.sampler import Sample
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

_NOTHING_SAVED: Mapping[str, float] = {}
FAR = 10
"""A limit this many times the desired one, or this small a part of it, is far from it, as for the brake's default."""


class Wrong(IntEnum):
    """How far a disk is from what is desired; the worst come first, whatever the order of the rest."""

    NOT = 0
    FAR = 1
    UNLIMITED = 2

    @property
    def words(self) -> str:
        return {Wrong.NOT: "", Wrong.FAR: "far from desired", Wrong.UNLIMITED: "unlimited"}[self]

    @property
    def code(self) -> str:
        return self.words.replace(" ", "-")


@frozen(kw_only=True)
class Planned:
    """What a pass would decide on the disks that are followed."""

    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    """By ``Disk.key``."""
    complaint: str = ""
    """Why the desired limits are unknown, or are not those of the rules file."""
    mode: str = ""
    """What passes do with that: ``enforce``, ``observe``, ``writes paused``; empty where it is unknown."""
    saved: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By ``Disk.key`` the share of each burst that is saved, by the limit's name."""
    ceilings: Mapping[str, Sequence[CeilingShare]] = field(default_factory=dict)
    """By ``Disk.key`` those that it shares."""


@frozen(kw_only=True)
class DiskRow:
    """A disk, or a guest whose disks were never observed."""

    guest_name: str
    guest_uuid: str
    usage: Usage | None
    outcome: Outcome | None
    reason: Reason | None
    """Why its use is unknown."""
    saved: Mapping[str, float] = field(default_factory=dict)
    """The share of each burst that is saved, by the limit's name; empty without a burst."""
    ceilings: Sequence[CeilingShare] = ()

    @property
    def key(self) -> str:
        return self.guest_uuid if self.usage is None else self.usage.disk.key

    @property
    def disk(self) -> Disk | None:
        return None if self.usage is None else self.usage.disk

    @property
    def rates(self) -> Rates | None:
        return None if self.usage is None else self.usage.rates

    @property
    def actual(self) -> Limits | Unknown | None:
        return None if self.usage is None else self.usage.disk.actual

    @property
    def server(self) -> str:
        return "" if self.disk is None else self.disk.guest.display_name or ""

    @property
    def type(self) -> str:
        disk = self.outcome.disk if self.outcome is not None else self.disk
        return "" if disk is None else disk.volume_type or ""

    @property
    def desired(self) -> Limits | None:
        """None where no limits are desired, or they are unknown."""
        if self.outcome is None:
            return None
        desired, ours = self.outcome.decision.desired, self.outcome.decision.ours
        if isinstance(desired, Desired):
            return desired.limits
        if desired.reason.code is Code.SIZE_UNKNOWN and ours is not None:
            return ours.desired  # by the last pass: top reads no sizes, since QEMU halts the guest for it
        return None

    @property
    def desired_unknown(self) -> bool:
        return self.desired is None and (self.outcome is None or isinstance(self.outcome.decision.desired, Unknown))

    @property
    def unknown(self) -> bool:
        """Its use, its limits or the desired ones are unknown; before the first decision they are not yet."""
        return self.reason is not None or self.limit_unknown or (self.outcome is not None and self.desired_unknown)

    @property
    def wrong(self) -> Wrong:
        actual, desired = self.actual, self.desired
        if self.missed is not None:
            return Wrong.UNLIMITED
        if self.outcome is not None and self.outcome.disk.reduced is not None and self.outcome.disk.reduced == actual:
            actual = self.outcome.disk.actual
        return _wrong(actual, desired) if isinstance(actual, Limits) and desired is not None else Wrong.NOT

    @property
    def missed(self) -> Limits | None:
        """As ``Outcome.missed``, by the actual limits of this reading."""
        if self.outcome is None or self.desired is not None or self.actual != Limits():
            return None
        last = self.outcome.decision.last_desired
        return None if last is None or last.unlimited else last

    @property
    def limits_words(self) -> str:
        """``unlimited, desired 250 IOPS``, and why that is not changed now."""
        actual, desired = self.actual, self.desired
        if isinstance(actual, Unknown):
            return f"limit unknown: {why(actual.reason)}"
        words = sentences.actual_words(actual)
        if self.missed is not None:
            return f"{words}, {sentences.short_limits(self.missed)} desired last"
        if self.desired_unknown:
            return f"{words}, desired unknown" if actual == Limits() else words
        if desired is None or desired == actual:
            return words
        is_deferred = self.outcome is not None and self.outcome.result.kind is Kind.DEFERRED
        deferral = f"; {sentences.deferred_words(self.outcome.result.reason)}" if self.outcome and is_deferred else ""
        part = ceilings.brief(self.ceilings, self.usage.disk) if self.usage is not None else ""
        return f"{words}, desired {sentences.short_limits(desired)}{deferral}" + (f"; {part}" if part else "")

    @property
    def limits_brief(self) -> str:
        """``25 IOPS, desired 250 IOPS…``: the first unit in which the limits differ, or that has no limit."""
        actual, desired = self.actual, self.desired
        if not isinstance(actual, Limits) or desired is None:
            return self.limits_words
        return _brief(actual, desired)

    @property
    def limit_unknown(self) -> bool:
        return isinstance(self.actual, Unknown)

    def means(self, needle: str) -> bool:
        """Whether a text is in one of its names, whatever its case."""
        return needle.casefold() in self._searched

    @property
    def _searched(self) -> str:
        disk = self.disk
        words: tuple[str | None, ...] = (self.guest_name, self.guest_uuid)
        if disk is not None:
            guest = disk.guest
            words += (guest.display_name, guest.project, guest.project_name, self.type)
            words += (disk.target, disk.volume_id, disk.path)
        return "\n".join(word or "" for word in words).casefold()


@lru_cache(maxsize=4096)  # few sets of limits, and many disks in each frame
def _wrong(actual: Limits, desired: Limits) -> Wrong:
    if desired.unlimited:
        return Wrong.NOT
    if actual.unlimited:
        return Wrong.UNLIMITED
    if actual.shortens(desired):  # a burst is as long as what is saved of it
        return Wrong.NOT
    lacks = any(_limits(desired, unit) and not _limits(actual, unit) for unit in UNITS)
    far = lacks or min(share_left(actual, desired), share_left(desired, actual)) * FAR <= 1
    return Wrong.FAR if far else Wrong.NOT


@lru_cache(maxsize=4096)
def _brief(actual: Limits, desired: Limits) -> str:
    units: tuple[Unit, ...] = ("iops", "bytes")
    pairs = [(of_unit(actual, unit), of_unit(desired, unit)) for unit in units]
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    old, new = min(differing, key=lambda pair: not pair[0].unlimited, default=(actual, desired))
    return f"{sentences.short_limits(old)}, desired {sentences.short_limits(new)}…"


def _limits(limits: Limits, unit: Unit) -> bool:
    return any(getattr(limits, base) for base in BASES if f"_{unit}_" in base)


def why(reason: Reason) -> str:
    """A reason without text about passes, which top does not need."""
    detail = reason.facts.get("detail")
    return printable(detail) if isinstance(detail, str) else sentences.words(reason)


def guest_words(unreachable: UnreachableGuest) -> str:
    """A guest that could not be read, and ``why``."""
    return f"{printable(unreachable.guest.name)}  {why(unreachable.reason)}"


def rows(sample: Sample, plan: Planned, sort: str = "at-limit", *, reverse: bool = False) -> list[DiskRow]:
    """The wrong ones first; unknown values come last, also in reverse."""
    uuids = {usage.disk.guest.uuid for usage in sample.usages}
    every = [_of_disk(usage, plan) for usage in sample.usages]
    every += [_of_guest(guest) for guest in sample.unreachable if guest.guest.uuid not in uuids]
    by_name = sorted(every, key=_by_name)
    unknown, order = _ORDERS[sort]
    by_name.sort(key=order, reverse=reverse)
    # Python's sorting is stable: the order above stays among equals.
    return sorted(by_name, key=lambda row: (-row.wrong, unknown(row)))


def _of_disk(usage: Usage, plan: Planned) -> DiskRow:
    guest, key = usage.disk.guest, usage.disk.key
    return DiskRow(
        guest_name=guest.name,
        guest_uuid=guest.uuid,
        usage=usage,
        outcome=plan.outcomes.get(key),
        reason=usage.reason,
        saved=plan.saved.get(key, _NOTHING_SAVED),
        ceilings=plan.ceilings.get(key, ()),
    )


def _of_guest(unreachable: UnreachableGuest) -> DiskRow:
    return DiskRow(
        guest_name=unreachable.guest.name,
        guest_uuid=unreachable.guest.uuid,
        usage=None,
        outcome=None,
        reason=unreachable.reason,
    )


Order = tuple[Callable[[DiskRow], int], Callable[[DiskRow], tuple[object, ...]]]
"""How unknown it is what a row is sorted by, and that."""


def _by_name(row: DiskRow) -> tuple[str, str]:
    return (row.guest_name, "" if row.disk is None else row.disk.target)


def _by_rate(base: str) -> Order:
    return (lambda row: row.rates is None), (lambda row: (-row.rates.of(base) if row.rates else 0.0,))


def _no_share(row: DiskRow) -> int:
    """1 for a disk without a limit, or whose limit is unknown, 2 where nothing is known."""
    return 2 if row.usage is None or row.rates is None else int(row.usage.share is None)


def _by_share(row: DiskRow) -> tuple[object, ...]:
    usage, rates = row.usage, row.rates
    at_limit = usage.at_limit if usage else None
    share = round((usage.share if usage else None) or 0.0, 2)
    # The column is seen to be in order; noise does not move disks at their limits, nor those of about the same rate.
    return (
        -1.0 if abs(share - 1) <= 1 - AT_LIMIT_RATIO else -share,
        -round(at_limit.share if at_limit else 0.0, 1),
        -float(f"{rates.of('total_iops_sec') if rates else 0.0:.2g}"),
    )


_ORDERS: dict[str, Order] = {
    "at-limit": (_no_share, _by_share),
    "iops": _by_rate("total_iops_sec"),
    "bytes": _by_rate("total_bytes_sec"),
    "server": (lambda row: not row.server, lambda row: (row.server.casefold(),)),
    "name": (lambda _: 0, _by_name),
}
SORTS = tuple(_ORDERS)
