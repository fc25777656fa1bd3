"""``plimsoll top``: what its keys do."""

from __future__ import annotations

import pytest

from plimsoll_agent.top import keys as key_map
from plimsoll_agent.top.keys import About, Explained, Pane, Shape, View, keys, press, settled
from plimsoll_agent.util.frozen import replace

ROWS = [f"row-{number}" for number in range(35)]


@pytest.mark.parametrize(
    ("sent", "pressed"),
    [
        ("q", ["q"]),
        ("\x1b", ["esc"]),
        ("\x1b[A\x1bOB\x1b[5~", ["up", "down", "pageup"]),
        ("\x1b[1;5C\x1b[24~x", ["x"]),
        ("/שרת\r", ["/", "ש", "ר", "ת", "enter"]),
        ("a\x7f\x08\x00\x9b", ["a", "backspace", "backspace"]),
    ],
    ids=repr,
)
def test_keys_as_terminals_send_them(sent: str, pressed: list[str]) -> None:
    assert keys(sent) == pressed


@pytest.mark.parametrize(("sent", "more"), [("\x1b", True), ("x\x1b[", True), ("\x1b[5", True), ("\x1b[A", False)])
def test_a_key_that_came_in_part_is_waited_for(sent: str, more: bool) -> None:
    assert key_map.unfinished(sent) is more


def pressed(*sent: str, rows: list[str] | None = None, view: View | None = None, pane: int = 0) -> View | None:
    now = view or View()
    shape = Shape(rows=ROWS if rows is None else rows, page=10, pane_page=min(pane, 5), pane_lines=pane)
    for key in sent:
        after = press(settled(now, shape), key, shape)
        if after is None:
            return None
        now = after
    return now


def test_q_quits_but_closes_what_is_open_and_is_a_letter_in_a_filter() -> None:
    assert pressed("q") is None
    assert pressed("?", "q") == View()
    assert pressed("/", "q", "b", "backspace", "enter") == View(needle="q")
    assert pressed("/", "q", "enter", "q") is None
    opened = pressed("enter", "q")
    assert opened is not None
    assert opened.pane is None


@pytest.mark.parametrize(("key", "about"), [("enter", About.LIMITS), ("h", About.HOLD), ("t", About.TENANT)])
def test_a_pane_is_of_the_row_of_the_cursor(key: str, about: About) -> None:
    view = pressed("down", key)
    assert view is not None
    assert (view.pane, view.cursor) == (Pane(key=ROWS[1], about=about), ROWS[1])
    assert pressed(key, rows=[]) == View(), "no row, no pane"


def test_back_and_forward_end_at_now() -> None:
    for sent, back in ((("<", "<"), 2), (("<", ">"), 0), ((">",), 0)):
        view = pressed(*sent)
        assert view is not None
        assert view.back == back


def test_esc_shows_all_again() -> None:
    assert pressed("/", "a", "esc") == View()
    assert pressed("/", "a", "enter", "esc") == View()


@pytest.mark.parametrize(
    ("sent", "sort"),
    [
        ("right", "iops"),
        ("right " * 5, "at-limit"),
        ("left", "name"),
        ("n", "name"),
        ("s", "server"),
        ("i", "iops"),
        ("b", "bytes"),
        ("b a", "at-limit"),
    ],
)
def test_keys_that_sort(sent: str, sort: str) -> None:
    assert pressed(*sent.split()) == View(sort=sort)


def test_r_reverses_the_order_and_reverses_it_back() -> None:
    assert pressed("r") == View(reverse=True)
    assert pressed("r", "r") == View()


@pytest.mark.parametrize(
    ("sent", "at"),
    [
        ("down", 1),
        ("j j k", 1),
        ("up", 0),
        ("pagedown", 10),
        ("pagedown " * 9, 34),
        ("end up", 33),
        ("end home", 0),
        ("end s", 0),
    ],
)
def test_the_cursor_stays_among_the_rows(sent: str, at: int) -> None:
    view = pressed(*sent.split())
    assert view is not None
    assert (view.at, view.cursor in (None, ROWS[at])) == (at, True)


def test_the_page_follows_the_cursor() -> None:
    down = pressed(*["down"] * 12)
    assert down is not None
    assert down.first == 3
    up = pressed(*["up"] * 9, view=down)
    assert up is not None
    assert (up.at, up.first) == (3, 3)


def test_the_cursor_follows_its_disk_and_stays_where_it_was_when_that_went_away() -> None:
    view = pressed("down", "down")
    assert view is not None
    shape = Shape(rows=list(reversed(ROWS)), page=10)
    assert (settled(view, shape).at, settled(view, shape).first) == (32, 23)
    assert settled(view, Shape(rows=[row for row in ROWS if row != "row-2"], page=10)).at == 2


def test_a_cursor_that_was_not_moved_stays_on_the_first_row() -> None:
    assert settled(View(), Shape(rows=list(reversed(ROWS)), page=10)) == View()


def test_no_row_is_no_place_for_a_cursor_or_an_explanation() -> None:
    for key in ("down", "end", "enter", "pagedown"):
        assert pressed(key, rows=[]) == View()


def test_an_open_explanation_scrolls_and_the_cursor_stays() -> None:
    known = View(pane=Pane(key="row-0", explained=Explained(title="", head=(), rows=())))
    view = pressed(*["down"] * 9, view=known, pane=8)
    assert view is not None
    assert view.pane is not None
    assert (view.pane.first, view.at) == (3, 0)
    view = pressed("home", view=view, pane=8)
    assert view is not None
    assert view == replace(known, at=0)


def test_enter_asks_again() -> None:
    known = View(pane=Pane(key="row-0", explained=Explained(title="", head=(), rows=())))
    view = pressed("enter", view=known, pane=8)
    assert view is not None
    assert view.pane == Pane(key="row-0")
