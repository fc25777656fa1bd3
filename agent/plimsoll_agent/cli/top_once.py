"""``plimsoll top --once``: the rows of top as a list like others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from plimsoll_agent.messages import ceilings, sentences, serialize
from plimsoll_agent.messages.tones import TONES
from plimsoll_agent.model.limits import BASES
from plimsoll_agent.model.reason import Reason, Unknown
from plimsoll_agent.model.usage import AT_LIMIT_RATIO, ONE_READING, Rates
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.terminal.cells import iops, mib, percent
from plimsoll_agent.terminal.columns import GUEST, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.top.rows import DiskRow, Wrong, why
from plimsoll_agent.top.sampler import Sample
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import plural, printable

_OTHERS = (
    "guest_uuid", "project", "project_name", "user", "flavor", "bus", "volume", "pool", "namespace", "image",
    "encrypted", "shareable", "cluster", "monitors",
)  # fmt: skip
COLUMNS = (
    Column("server", most=16),
    GUEST,
    Column("disk", most=12),
    Column("iops", right=True),
    Column("bytes_sec", head="MiB/s", right=True, drop=5),
    Column("share", head="OF LIMIT", right=True),
    Column("at_limit", right=True, long=True),  # in one interval it is all or nothing, as the share tells too
    Column("type", drop=1, most=16),
    Column("actual", drop=4, wraps=True),
    Column("desired", drop=2, wraps=True),
    Column("state"),
    Column("reason", wraps=True, note=True),
    *(
        Column(name, long=True)
        for name in ("saved", "ceilings", "rates", "seconds", "shares", "sharing", "at_limit_window", *_OTHERS)
    ),
)


def ended(sample: Sample) -> Sample:
    """As no reading follows: a disk with only one has an unknown use."""
    usages = (
        replace(each, reason=ONE_READING) if each.rates is None and each.reason is None else each
        for each in sample.usages
    )
    return replace(sample, usages=tuple(usages))


def cells(row: DiskRow) -> Sequence[object]:
    """In the order of ``COLUMNS``: bytes, requests and seconds; a share of 1 is the whole limit."""
    usage, disk = row.usage, row.disk
    if usage is None or disk is None:
        raise ValueError("no disk")
    rates, at_limit, share = usage.rates, usage.at_limit, usage.share
    data = serialize.disk_data(disk)
    reason = _reason(row)
    return (
        disk.guest.display_name,
        disk.guest.name,
        disk.target,
        _number(None if rates is None else rates.of("total_iops_sec"), iops),
        _number(None if rates is None else rates.of("total_bytes_sec"), mib),
        _number(share, percent, 4),
        _number(None if at_limit is None else at_limit.share, percent, 4),
        row.type or None,
        Shown(serialize.limits_data(disk.actual), sentences.actual_words(disk.actual), TONES.get(row.wrong.code)),
        Shown(None if row.desired is None else row.desired.in_effect(), _desired_words(row)),
        Shown(state(row), _state_words(row), TONES.get(state(row))),
        Shown(None if reason is None else reason.as_record(), "" if reason is None else why(reason)),
        _shares(row.saved),
        Shown(ceilings.data(row.ceilings), ", ".join(ceilings.lines(row.ceilings, disk))),
        None if rates is None else _rates(rates),
        None if rates is None else round(rates.seconds, 3),
        _shares(usage.shares),
        usage.sharing,
        None if at_limit is None else round(at_limit.seconds, 3),
        *(_other(data[name]) for name in _OTHERS),
    )


def _shares(shares: Mapping[str, float]) -> Shown:
    words = ", ".join(f"{percent(of)} of {base}" for base, of in shares.items())
    return Shown({base: round(of, 4) for base, of in shares.items()}, words)


def _rates(rates: Rates) -> Shown:
    data = {base: round(rates.of(base), 3) for base in BASES}
    parts = (f"{base.partition('_')[0]} {_rate(base, value)}" for base, value in data.items())
    return Shown(data, ", ".join(parts))


def _rate(base: str, value: float) -> str:
    return f"{mib(value)} MiB/s" if "_bytes_" in base else f"{iops(value)} IOPS"


def _other(value: object) -> object:
    if isinstance(value, bool):
        return Shown(value, "yes" if value else "no")
    return Shown(value, ", ".join(map(printable, value))) if isinstance(value, list) else value


def _number(value: float | None, words: Callable[[float], str], digits: int = 3) -> Shown:
    return Shown(None, "-") if value is None else Shown(round(value, digits), words(value))


def _desired_words(row: DiskRow) -> str:
    if row.desired is not None:
        return sentences.short_limits(row.desired)
    return "unknown" if row.desired_unknown else "-"


def state(row: DiskRow) -> str:
    """What is wrong first, else the state as in ``disk list``."""
    if row.wrong is not Wrong.NOT:
        return row.wrong.code
    if row.reason is not None or row.limit_unknown or row.outcome is None:
        return Kind.UNKNOWN.value
    kind = row.outcome.result.kind
    if kind is Kind.UNKNOWN and row.desired is not None:  # they are known from the last pass
        return (Kind.IN_SYNC if row.actual == row.desired else Kind.PLANNED).value
    return kind.value


def _state_words(row: DiskRow) -> str:
    words = sentences.STATE_WORDS
    return words.get(state(row), row.wrong.words)


def _reason(row: DiskRow) -> Reason | None:
    """Why its rates, its limits or its desired limits are unknown, or why a change is deferred."""
    if row.reason is not None:
        return row.reason
    if isinstance(row.actual, Unknown):
        return row.actual.reason
    if row.outcome is None:
        return None
    desired, result = row.outcome.decision.desired, row.outcome.result
    if isinstance(desired, Unknown) and row.desired is None:
        return desired.reason
    return result.reason if result.kind is Kind.DEFERRED else None


def sum_of(rows: Sequence[DiskRow]) -> str:
    """``4 disks, 3 guests: 1 unlimited, 1 unknown, 2 at limit``."""
    counts = Counter(row.wrong for row in rows)
    parts = [f"{counts[wrong]} {wrong.words}" for wrong in reversed(Wrong) if wrong and counts[wrong]]
    unknown = sum(row.unknown or row.outcome is None for row in rows)
    parts += [f"{unknown} unknown"] if unknown else []
    shares = [row.usage.share or 0 for row in rows if row.usage is not None]
    parts.append(f"{sum(share >= AT_LIMIT_RATIO for share in shares)} at limit")
    guests = len({row.guest_uuid for row in rows})
    return f"{plural(len(shares), 'disk')}, {plural(guests, 'guest')}: {', '.join(parts)}"
