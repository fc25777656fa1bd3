"""What ``plimsoll top`` shows: a sample as lines of a terminal or as plain data, and what its keys do. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from plimsoll_agent import report, views
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import BASES, Limits, Unit
from plimsoll_agent.outcome import Overlooked
from plimsoll_agent.reason import Reason, Unknown
from plimsoll_agent.sampler import Sample
from plimsoll_agent.usage import AT_WALL, Rates, Usage

FORMAT_VERSION = 1
SORTS = ("wall", "iops", "bytes", "name")
NEAR_WALL = 0.75
"""From here on a share is coloured."""

HELP = """\
IOPS, MiB/s    what the disk did in the last interval, reads and writes together
OF LIMIT       the share of its limit that this is; above 100 % in a burst
AT THE WALL    how much of the last 60 s, or since it is watched, it was at 95 %
               of a limit or above
*              the limit is shared with disks of the same guest, and so is this
-  ?           has no such limit; its limit is not known

q              quit
s  ← →         sort by the next: closest to the wall, IOPS, bytes, name
w i b n        sort by one of these
/              show only what has a text: guest, disk, volume, image, project
Esc            show all again
p              pause: the screen stands still, the disks are followed
↑ ↓ PgUp PgDn  scroll; also Home and End
h ?            this page; any key leaves it"""


# --- keys


@dataclass(frozen=True, slots=True)
class View:
    """What a person chose to see."""

    sort: str = "wall"
    needle: str = ""
    typing: bool = False
    paused: bool = False
    help: bool = False
    first: int = 0


_SORT_KEYS = {sort[0]: sort for sort in SORTS}
_ESCAPES = {
    "\x1b[A": "up", "\x1bOA": "up",
    "\x1b[B": "down", "\x1bOB": "down",
    "\x1b[C": "right", "\x1bOC": "right",
    "\x1b[D": "left", "\x1bOD": "left",
    "\x1b[5~": "pageup", "\x1b[6~": "pagedown",
    "\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home",
    "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end",
    "\x1b": "esc", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace",
}  # fmt: skip
_KEY = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO[@-~]|.", re.DOTALL)


def keys(typed: str) -> list[str]:
    """What a terminal sent, as keys: characters, and names for the others. What is no key of ours is left out."""
    found = (_ESCAPES.get(sent, sent) for sent in _KEY.findall(typed))
    return [key for key in found if key.isprintable()]


def unfinished(typed: str) -> bool:
    """True when the rest of a key may still be on its way."""
    return re.search(r"\x1b(\[[0-9;?]*|O)?$", typed) is not None


def press(view: View, key: str, *, page: int, rows: int) -> View | None:
    """The view after a key; None to quit. ``page`` is how many lines of ``rows`` are to be seen at once."""
    if view.typing:
        return _typed(view, key)
    if key == "q":
        return None
    if view.help:
        return replace(view, help=False)
    scrolls = {"up": -1, "down": 1, "pageup": -page, "pagedown": page, "home": -rows, "end": rows}
    if key in scrolls:
        return replace(view, first=max(0, min(view.first + scrolls[key], rows - page)))
    if key in _SORT_KEYS:
        return replace(view, sort=_SORT_KEYS[key], first=0)
    if key in ("s", "right", "left"):
        step = -1 if key == "left" else 1
        return replace(view, sort=SORTS[(SORTS.index(view.sort) + step) % len(SORTS)], first=0)
    match key:
        case "/":
            return replace(view, typing=True)
        case "esc":
            return replace(view, needle="", first=0)
        case "p":
            return replace(view, paused=not view.paused)
        case "h" | "?":
            return replace(view, help=True)
        case _:
            return view


def _typed(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, typing=False)
        case "esc":
            return replace(view, typing=False, needle="", first=0)
        case "backspace":
            return replace(view, needle=view.needle[:-1], first=0)
        case _ if len(key) == 1:
            return replace(view, needle=view.needle + key, first=0)
        case _:
            return view


# --- rows

Row = Usage | Overlooked


def rows(sample: Sample, sort: str = "wall", needle: str = "") -> list[Row]:
    """The disks in order, then the guests whose disks were never seen. What is not known stands behind the rest."""
    seen = {usage.disk.guest.uuid for usage in sample.usages}
    every: list[Row] = [*sample.usages, *(silent for silent in sample.silent if silent.guest.uuid not in seen)]
    wanted = needle.casefold()
    return sorted((row for row in every if wanted in _searched(row)), key=_ORDERS[sort])


def _searched(row: Row) -> str:
    if isinstance(row, Overlooked):
        return f"{row.guest.name}\n{row.guest.uuid}".casefold()
    disk, guest = row.disk, row.disk.guest
    words = (guest.name, disk.target, guest.display_name, guest.uuid, disk.volume_id, disk.path)
    return "\n".join(word or "" for word in (*words, guest.project, guest.project_name)).casefold()


def _by_name(row: Row) -> tuple[str, str]:
    return (row.guest.name, "") if isinstance(row, Overlooked) else (row.disk.guest.name, row.disk.target)


def _by_rate(base: str) -> Callable[[Row], tuple[object, ...]]:
    def order(row: Row) -> tuple[object, ...]:
        rates = None if isinstance(row, Overlooked) else row.rates
        return (rates is None, -rates.of(base) if rates else 0.0, _by_name(row))

    return order


def _by_wall(row: Row) -> tuple[object, ...]:
    usage = None if isinstance(row, Overlooked) else row
    share = usage.share if usage else None
    wall = usage.wall if usage else None
    return (share is None, -(share or 0.0), -(wall.share if wall else 0.0), *_by_rate("total_iops_sec")(row))


_ORDERS: dict[str, Callable[[Row], tuple[object, ...]]] = {
    "wall": _by_wall,
    "iops": _by_rate("total_iops_sec"),
    "bytes": _by_rate("total_bytes_sec"),
    "name": _by_name,
}


# --- text in cells

# What terminals disagree on the width of: variants of an emoji and its colour go, a flag becomes its letters.
_STEADY = {
    **dict.fromkeys((*range(0xFE00, 0xFE10), *range(0x1F3FB, 0x1F400))),
    **{0x1F1E6 + number: chr(ord("A") + number) for number in range(26)},
}


def steady(text: str) -> str:
    """Text that somebody else chose, safe to show, and as wide in one terminal as in another."""
    return report.printable(text).translate(_STEADY)


def cut(text: str, most: int) -> str:
    """Text in ``most`` cells or fewer; what is cut off is shown by an ellipsis."""
    return text if cell_len(text) <= most else set_cell_size(text, max(most - 1, 0)).rstrip() + "…"


def cut_middle(text: str, most: int) -> str:
    """The same for names that differ at their ends."""
    if cell_len(text) <= most:
        return text
    tail, room = "", most // 2
    for character in reversed(text):
        room -= cell_len(character)
        if room < 0:
            break
        tail = character + tail
    return cut(text, most - cell_len(tail)) + tail


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Text in just so many cells."""
    text = cut(text, width)
    spare = " " * (width - cell_len(text))
    return spare + text if right else text + spare


def bar(share: float, width: int = 10) -> str:
    """``███▍``; one that is more than full ends in a plus."""
    if share > 1.005:
        return "█" * (width - 1) + "+"
    eighths = min(round(share * width * 8), width * 8)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + ("" if rest == 0 else "▏▎▍▌▋▊▉"[rest - 1])


def _iops(value: float) -> str:
    return _little(value) or f"{value:.0f}"


def _mib(value: float) -> str:
    mib = value / 2**20
    return _little(mib) or (f"{mib:.1f}" if mib < 1000 else f"{mib:.0f}")


def _little(value: float) -> str:
    """Nothing is 0, and what is not nothing is not."""
    return "0" if value == 0 else "<0.1" if value < 0.1 else f"{value:.1f}" if value < 1 else ""


def _percent(share: float) -> str:
    return "<1 %" if 0 < share < 0.01 else f"{share * 100:.0f} %"


# --- columns


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its cell: the text, and the style that adds nothing to its meaning."""

    title: str
    width: int
    cell: Callable[[Usage], tuple[str, str]]
    right: bool = False


def _plain(show: Callable[[Usage], str]) -> Callable[[Usage], tuple[str, str]]:
    return lambda usage: (show(usage), "")


def _rate(words: Callable[[float], str], *bases: str) -> Callable[[Usage], tuple[str, str]]:
    def cell(usage: Usage) -> tuple[str, str]:
        return ("?" if usage.rates is None else " + ".join(words(usage.rates.of(base)) for base in bases)), ""

    return cell


def _colour(share: float | None) -> str:
    if share is None or share < NEAR_WALL:
        return ""
    return "bold red" if share >= AT_WALL else "yellow"


def _of_limit(unit: Unit) -> Callable[[Usage], tuple[str, str]]:
    def cell(usage: Usage) -> tuple[str, str]:
        share = usage.share_of(unit)
        if share is not None:
            return _percent(share) + ("*" if usage.sharing > 1 else ""), _colour(share)
        limits = usage.disk.in_force
        if not isinstance(limits, Limits):
            return "?", ""
        return ("?" if any(getattr(limits, base) for base in BASES if f"_{unit}_" in base) else "-"), ""

    return cell


def _bar_of(unit: Unit) -> Callable[[Usage], tuple[str, str]]:
    def cell(usage: Usage) -> tuple[str, str]:
        share = usage.share_of(unit)
        return ("", "") if share is None else (bar(share), _colour(share))

    return cell


def _wall(usage: Usage) -> tuple[str, str]:
    wall = usage.wall
    if isinstance(usage.disk.in_force, Unknown):
        return "limit unknown", ""
    if wall is None:
        return (report.UNLIMITED if usage.unlimited else "?"), ""
    return f"{_percent(wall.share)} of {wall.seconds:.0f} s", _colour(wall.share)


def _limits(usage: Usage) -> str:
    limits = usage.disk.in_force
    return f"unknown: {why(limits.reason)}" if isinstance(limits, Unknown) else report.in_force_words(limits)


def _volume(usage: Usage) -> str:
    return usage.disk.volume_id or "(own disk)"


def _server(usage: Usage) -> str:
    return steady(usage.disk.guest.display_name or "-")


_GAP = "  "
_NAME_LEAST, _NAME_MOST = 14, 30
_LIMITS_LEAST, _LIMITS_MOST = 18, 40
_SERVER_LEAST, _SERVER_MOST = 10, 40


def _columns(shown: Sequence[Row], width: int) -> tuple[int, list[Column]]:
    """The width for names, and the columns that fit beside them. The more room, the more of them."""
    usages = [row for row in shown if isinstance(row, Usage)]
    iops = [
        Column("IOPS", 7, _rate(_iops, "total_iops_sec"), right=True),
        Column("OF LIMIT", 8, _of_limit("iops"), right=True),
    ]
    through = [
        Column("MiB/s", 7, _rate(_mib, "total_bytes_sec"), right=True),
        Column("OF LIMIT", 8, _of_limit("bytes"), right=True),
    ]
    last = [Column("AT THE WALL", 13, _wall)]
    names = max((cell_len(_name(row)) for row in shown), default=0)
    most = max(width - _taken([*iops, *through, *last]), _NAME_LEAST)
    name = min(max(names, _NAME_LEAST), most, _NAME_MOST)
    spare = most - name

    def room_for(*more: Column) -> bool:
        nonlocal spare
        fits = spare >= _taken(more)
        spare -= _taken(more) if fits else 0
        return fits

    bars = Column("", 10, _bar_of("iops")), Column("", 10, _bar_of("bytes"))
    split = (
        Column("READ + WRITE", 12, _rate(_iops, "read_iops_sec", "write_iops_sec"), right=True),
        Column("READ + WRITE", 12, _rate(_mib, "read_bytes_sec", "write_bytes_sec"), right=True),
    )
    volume = Column("VOLUME", 36, _plain(_volume))
    if room_for(*bars):
        iops.append(bars[0])
        through.append(bars[1])
    if room_for(*split):
        iops.insert(1, split[0])
        through.insert(1, split[1])
    if room_for(volume):
        last.append(volume)
    for title, least, most, show in (
        ("LIMITS", _LIMITS_LEAST, _LIMITS_MOST, _limits),
        ("SERVER", _SERVER_LEAST, _SERVER_MOST, _server),
    ):
        needed = max((cell_len(show(usage)) for usage in usages), default=0)
        column = Column(title, min(max(needed, least), most, max(spare - len(_GAP), least)), _plain(show))
        if room_for(column):
            last.append(column)
    return name, [*iops, *through, *last]


def _taken(columns: Sequence[Column]) -> int:
    return sum(column.width + len(_GAP) for column in columns)


def _name(row: Row) -> str:
    if isinstance(row, Overlooked):
        return steady(row.guest.name)
    return f"{steady(row.disk.guest.name)} {steady(row.disk.target)}"


def _name_cell(row: Row, width: int) -> str:
    """The guest may be cut short, its disk never.

    Terminals that turn right-to-left text round take figures behind it along (Unicode's bidi algorithm, W2 to
    N2). The Latin letters of the disk hold them back, so it stands behind its guest; the server's name, which a
    tenant chose, stands at the end of the line. Marks that have no width would do it too, where a terminal knows
    them; where it does not, they spoil the line.
    """
    if isinstance(row, Overlooked):
        return fit(cut_middle(steady(row.guest.name), width), width)
    guest, target = steady(row.disk.guest.name), steady(row.disk.target)
    return fit(f"{cut_middle(guest, max(width - cell_len(target) - 1, 1))} {target}", width)


def _line(row: Row, name: int, columns: Sequence[Column], width: int) -> Text:
    line = Text(_name_cell(row, name) + _GAP)
    if isinstance(row, Overlooked) or row.rates is None:
        line.append(fit(_not_known(row), width - name - len(_GAP)), "dim")
    else:
        for number, column in enumerate(columns):
            text, style = column.cell(row)
            line.append(fit(text, column.width, right=column.right), style)
            line.append(_GAP if number < len(columns) - 1 else "")
    return line


def _not_known(row: Row) -> str:
    if isinstance(row, Overlooked):
        return f"disks not known: {why(row.reason)}"
    return f"not known: {why(row.reason)}" if row.reason else "not known before the second reading"


def why(reason: Reason) -> str:
    """A reason without the words about passes: here it is asked again in a moment anyway."""
    detail = reason.facts.get("detail")
    return report.printable(detail) if isinstance(detail, str) else report.words(reason)


# --- the screen


@dataclass(frozen=True, slots=True)
class Shown:
    """What there is to show: a sample, when it was taken and where, and what is wrong with all of it."""

    sample: Sample
    at: datetime
    node: str
    interval: float
    late: float | None = None
    """Seconds that a round takes, where that is longer than the interval."""
    trouble: str | None = None


def table(shown: Sequence[Row], width: int, first: int = 0, lines: int | None = None) -> Iterator[Text]:
    """The titles, and ``lines`` of the rows from the ``first`` on. Widths are those that all rows need."""
    name, columns = _columns(shown, width)
    titles = _GAP.join(fit(column.title, column.width, right=column.right) for column in columns)
    yield Text(fit(f"{fit('DISK', name)}{_GAP}{titles}", width), "bold")
    for row in shown[first : None if lines is None else first + lines]:
        yield _line(row, name, columns, width)


def head(shown: Shown, width: int, view: View | None = None) -> Iterator[Text]:
    """One line about the node, and one about what is wrong, if anything is."""
    sample = shown.sample
    disks, at_wall = len(sample.usages), sum((usage.share or 0) >= AT_WALL for usage in sample.usages)
    parts = [
        f"{steady(shown.node)} {shown.at:%H:%M:%S}",
        f"{disks} disk{'' if disks == 1 else 's'} on {sample.guests} guest{'' if sample.guests == 1 else 's'}",
        f"{at_wall} at the wall",
        f"every {shown.interval:g} s",
    ]
    if view is not None and view.paused:
        parts[-1] = "PAUSED"
    yield Text(fit("   ".join(parts), width), "reverse")
    wrong = list(_wrong(shown, width))
    if wrong:
        yield Text(fit("; ".join(wrong), width), "bold")


def _wrong(shown: Shown, width: int) -> Iterator[str]:
    if shown.late is not None:
        yield f"a round takes {shown.late:.1f} s, longer than the interval"
    if shown.trouble:
        yield report.printable(shown.trouble)
    elif shown.sample.silent:
        names = [cut(steady(silent.guest.name), 30) for silent in shown.sample.silent]
        number = max(1, min(len(names), (width - 30) // 20))
        more = f" and {len(names) - number} more" if number < len(names) else ""
        yield f"not answering: {', '.join(names[:number])}{more}"


def screen(shown: Shown, view: View, width: int, height: int) -> list[Text]:
    """All lines of the terminal."""
    lines = _help(shown, view, width) if view.help else _listing(shown, view, width, height)
    for line in lines:  # where the terminal is too narrow for it, cut rather than broken
        line.no_wrap, line.overflow = True, "crop"
    return lines[:height]


def _help(shown: Shown, view: View, width: int) -> list[Text]:
    return [*head(shown, width, view), Text(""), *map(Text, HELP.splitlines())]


def _listing(shown: Shown, view: View, width: int, height: int) -> list[Text]:
    found = rows(shown.sample, view.sort, view.needle)
    page = page_of(shown, height)
    first = max(0, min(view.first, len(found) - page))
    lines = [*head(shown, width, view), *table(found, width, first, page)]
    if not found and not shown.trouble:
        lines.append(Text("nothing matches" if view.needle else "no RBD disk on any running guest"))
    lines = [*lines, *(Text("") for _ in range(height))][: height - 1]
    return [*lines, Text(fit(_foot(view, first, page, len(found)), width), "reverse")]


def page_of(shown: Shown, height: int) -> int:
    """How many rows a screen has room for."""
    return max(1, height - 2 - len(list(head(shown, 80))))


def _foot(view: View, first: int, page: int, number: int) -> str:
    seen = f"{min(first + 1, number)}-{min(first + page, number)} of {number}"
    if view.typing:
        return f"filter: {steady(view.needle)}_   Enter keep  Esc all   {seen}"
    kept = (
        f"/ filter: {fit(steady(view.needle), min(cell_len(steady(view.needle)), 12))}" if view.needle else "/ filter"
    )
    return f"q quit  s sort: {view.sort}  {kept}  p pause  h help   {seen}"


# --- plain data


def sample_data(shown: Shown, found: Sequence[Row]) -> dict[str, object]:
    """For ``--once -f json``: units are bytes, requests and seconds, shares are 1 for the whole limit."""
    return {
        "version": FORMAT_VERSION,
        "node": shown.node,
        "at": shown.at.isoformat(),
        "interval": shown.interval,
        "disks": [_usage_data(row) for row in found if isinstance(row, Usage)],
        "overlooked": [
            {"guest": silent.guest.name, "guest_uuid": silent.guest.uuid, "reason": silent.reason.as_record()}
            for silent in shown.sample.silent
        ],
    }


def _usage_data(usage: Usage) -> dict[str, object]:
    disk: Disk = usage.disk
    wall, share, limits = usage.wall, usage.share, disk.in_force
    return views.disk_data(disk) | {
        "in_force": views.limits_data(limits),
        "seconds": None if usage.rates is None else round(usage.rates.seconds, 3),
        "rates": None if usage.rates is None else _rates_data(usage.rates),
        "share": None if share is None else round(share, 4),
        "shares": {base: round(of, 4) for base, of in usage.shares.items()},
        "sharing": usage.sharing,
        "at_wall_share": None if wall is None else round(wall.share, 4),
        "at_wall_window": None if wall is None else round(wall.seconds, 3),
        "reason": _reason_data(usage, limits),
    }


def _rates_data(rates: Rates) -> dict[str, float]:
    return {base: round(rates.of(base), 3) for base in BASES}


def _reason_data(usage: Usage, limits: Limits | Unknown | None) -> dict[str, object] | None:
    """Why what it does is not known, or else why its limits are not."""
    reason = usage.reason or (limits.reason if isinstance(limits, Unknown) else None)
    return None if reason is None else reason.as_record()
