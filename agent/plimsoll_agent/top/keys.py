"""The keys of ``plimsoll top``, and what they change. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from plimsoll_agent.top.rows import SORTS
from plimsoll_agent.util.frozen import frozen, replace

HELP = """\
IOPS, MiB/s    what the disk did in the last interval, reads and writes together
OF LIMIT       its share of the closest limit; a burst is above 100 %
AT LIMIT       share of the last 60 s, or less, at 95 % of a limit or above
first rows     a missing limit, or one that is far from the desired one
*              the limit is shared with other disks of the same guest
-  ?           no limit; unknown

↑ ↓ PgUp PgDn  move; also j k Home End
Enter          explain the limits of this disk; Esc or q closes it
a i b s n      sort by share of limit, IOPS, bytes, server, guest; also ← →
r              reverse the order
/              filter: guest, server, project, type, disk, volume, image
Esc            clear the filter
p              pause the screen; measuring goes on
<  >           a pass back, up to an hour; a pass on; > at the end is now;
               with --prometheus a week, in steps of 10 min, 1 h and 4 h
h              the command that holds this disk; Esc or q closes it
t              copy a sentence for the tenant: was this disk slow, and why
?              this page; any key closes it
q              quit; Ctrl-Z suspends"""


@frozen(kw_only=True)
class Explained:
    """Why a disk has its limits."""

    title: str
    head: Sequence[str]
    rows: Sequence[tuple[str, str]]
    """Source and answer; the source is empty in a continued line."""
    copy: str = ""
    """What the terminal's clipboard gets."""


class About(StrEnum):
    """What a pane has of its disk."""

    LIMITS = "limits"
    HOLD = "hold"
    TENANT = "tenant"


@frozen(kw_only=True)
class Pane:
    """The part of the screen with an explanation."""

    key: str
    """Of the row."""
    explained: Explained | None = None
    """None while it is being found out."""
    first: int = 0
    about: About = About.LIMITS


@frozen(kw_only=True)
class View:
    sort: str = "at-limit"
    reverse: bool = False
    needle: str = ""
    typing: bool = False
    paused: bool = False
    help: bool = False
    cursor: str | None = None
    """The key of the row; None stays on the first."""
    at: int = 0
    """The number of that row when it was last seen."""
    first: int = 0
    """The number of the first row on the screen."""
    pane: Pane | None = None
    back: int = 0
    """So many passes back from now; 0 is live."""


@frozen(kw_only=True)
class Shape:
    """What the keys need to know of the screen: the keys of all rows, in order, and how many rows and lines fit."""

    rows: Sequence[str]
    page: int
    pane_page: int = 0
    pane_lines: int = 0


_ESCAPES = {
    "\x1b[A": "up", "\x1bOA": "up",
    "\x1b[B": "down", "\x1bOB": "down",
    "\x1b[C": "right", "\x1bOC": "right",
    "\x1b[D": "left", "\x1bOD": "left",
    "\x1b[5~": "pageup", "\x1b[6~": "pagedown",
    "\x1b[H": "home", "\x1bOH": "home", "\x1b[1~": "home", "\x1b[7~": "home",
    "\x1b[F": "end", "\x1bOF": "end", "\x1b[4~": "end", "\x1b[8~": "end",
    "\x1b": "esc", "\r": "enter", "\n": "enter", "\x1bOM": "enter", "\x7f": "backspace", "\x08": "backspace",
}  # fmt: skip
_KEY = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO[@-~]|.", re.DOTALL)
_SORT_KEYS = {sort[0]: sort for sort in SORTS}
_LETTERS = {"j": "down", "k": "up"}


def keys(text: str) -> list[str]:
    """What a terminal sent, as characters and names of keys; unknown keys are left out."""
    names = (_ESCAPES.get(code, code) for code in _KEY.findall(text))
    return [key for key in names if key.isprintable()]


def unfinished(text: str) -> bool:
    """Whether the rest of a key may follow."""
    return re.search(r"\x1b(\[[0-9;?]*|O)?$", text) is not None


def settled(view: View, shape: Shape) -> View:
    """The view of these rows: the cursor is on its disk wherever that is now, and on the screen."""
    last = max(len(shape.rows) - 1, 0)
    at = min(view.at, last)
    if view.cursor is None:
        at = 0
    elif view.cursor in shape.rows:
        at = shape.rows.index(view.cursor)
    first = max(min(view.first, at), at - shape.page + 1)
    return replace(view, at=at, first=max(0, min(first, last + 1 - shape.page)))


def press(view: View, key: str, shape: Shape) -> View | None:
    """The settled view after a key; None to quit."""
    if view.typing:
        return _typed(view, key)
    if view.help:
        return replace(view, help=False)
    if view.pane is not None and (next_view := _in_pane(view, view.pane, key, shape)) is not None:
        return next_view
    if key == "q":
        return None
    if (to := _moved(key, view.at, shape.page, len(shape.rows) - 1)) is not None:
        return _on_row(view, to, shape)
    if key in _SORT_KEYS:
        return _from_top(replace(view, sort=_SORT_KEYS[key]))
    if key in ("right", "left"):
        step = -1 if key == "left" else 1
        return _from_top(replace(view, sort=SORTS[(SORTS.index(view.sort) + step) % len(SORTS)]))
    match key:
        case "enter" if shape.rows:
            return replace(_on_row(view, view.at, shape), pane=Pane(key=shape.rows[view.at]))
        case "r":
            return _from_top(replace(view, reverse=not view.reverse))
        case "/":
            return replace(view, typing=True)
        case "esc":
            return _from_top(replace(view, needle=""))
        case "p":
            return replace(view, paused=not view.paused)
        case "<":
            return replace(view, back=view.back + 1)
        case ">":
            return replace(view, back=max(view.back - 1, 0))
        case "h" | "t" if shape.rows:
            about = About.HOLD if key == "h" else About.TENANT
            return replace(_on_row(view, view.at, shape), pane=Pane(key=shape.rows[view.at], about=about))
        case "?":
            return replace(view, help=True)
        case _:
            return view


def _moved(key: str, at: int, page: int, last: int) -> int | None:
    """Where a key goes from there, None for a key that goes nowhere."""
    to = {"up": at - 1, "down": at + 1, "pageup": at - page, "pagedown": at + page, "home": 0, "end": last}
    key = _LETTERS.get(key, key)
    return max(0, min(to[key], last)) if key in to else None


def _on_row(view: View, at: int, shape: Shape) -> View:
    if not shape.rows:
        return view
    return settled(replace(view, cursor=shape.rows[at], at=at), shape)


def _in_pane(view: View, pane: Pane, key: str, shape: Shape) -> View | None:
    if key in ("esc", "q"):
        return replace(view, pane=None)
    to = _moved(key, pane.first, shape.pane_page, shape.pane_lines - shape.pane_page)
    return None if to is None else replace(view, pane=replace(pane, first=to))


def _from_top(view: View) -> View:
    return replace(view, cursor=None, at=0, first=0)


def _typed(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, typing=False)
        case "esc":
            return _from_top(replace(view, typing=False, needle=""))
        case "backspace":
            return _from_top(replace(view, needle=view.needle[:-1]))
        case _ if len(key) == 1:
            return _from_top(replace(view, needle=view.needle + key))
        case _:
            return view
