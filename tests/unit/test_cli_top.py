"""``plimsoll top``: what its screen shows at any width, with any names, and what its keys do."""

from __future__ import annotations

import io
import json
import unicodedata
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console, Group

from plimsoll_agent.cli import topview
from plimsoll_agent.cli.topview import Shown, View, keys, press, rows, screen
from plimsoll_agent.disk import Disk
from plimsoll_agent.hypervisor import BlockStats, GuestRef
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Overlooked
from plimsoll_agent.reason import Code, Unknown, because
from plimsoll_agent.sampler import Sample
from plimsoll_agent.usage import Reading, Usage, follow, unanswered
from tests.unit.values import NOON, a_disk, a_guest

NODE_LIMITS = Limits(total_iops_sec=250, total_bytes_sec=104857600)
SILENCE = because(Code.UNANSWERED, detail="no answer from QEMU within 5 s")

PLAIN = "instance-00000001"
NAMES = (
    PLAIN,
    "🚀 rocket 🛒",
    "👍🏽❤️🇩🇪👨‍👩‍👧",  # a colour, a variant, a flag, and a family that is joined
    "שרת-גיבוי",
    "خادم الويب",
    "数据库服务器" * 9,
    "e\u0301te\u0301",
    "evil\x1b[2J\u202e\u2066\r\n[red]:smile:",
)
RIGHT_TO_LEFT = NAMES[3:5]


def using(disk: Disk, iops: float = 100, of_bytes: float = 2**20, seconds: float = 2) -> Usage:
    """A disk that reads so much."""
    done = BlockStats(int(iops * seconds), int(of_bytes * seconds), 0, 0)
    before = follow((), [disk], {disk.target: Reading(0, BlockStats(0, 0, 0, 0))})
    return follow(before, [disk], {disk.target: Reading(seconds, done)})[0]


def disk_named(name: str, number: int = 0, limits: Limits | Unknown = NODE_LIMITS, **other: object) -> Disk:
    guest = a_guest(name=name, uuid=f"guest-{number}", display_name=name)
    return a_disk(guest, **{"target": "vda", "in_force": limits, **other})


def shown(*usages: Usage, silent: tuple[Overlooked, ...] = (), **other: object) -> Shown:
    sample = Sample(usages, silent, len({usage.disk.guest.uuid for usage in usages}) + len(silent))
    return Shown(**{"sample": sample, "at": NOON, "node": "compute-17", "interval": 2.0, **other})  # type: ignore[arg-type]


def crowd(number: int) -> Shown:
    return shown(*(using(disk_named(NAMES[n % len(NAMES)], n), iops=n) for n in range(number)))


def drawn(what: Shown, view: View, width: int, height: int) -> list[str]:
    """The screen as rich sends it to a terminal of that size."""
    console = Console(width=width, height=height, file=io.StringIO(), color_system=None, highlight=False)
    console.print(Group(*screen(what, view, width, height)), end="")
    return console.file.getvalue().split("\n")[:height]  # type: ignore[attr-defined]


def cells(line: str, first: int, last: int) -> str:
    """What stands in these cells of a line."""
    found, at = "", 0
    for character in line:
        at += cell_len(character)
        if first < at <= last or (found and not cell_len(character)):
            found += character
    return found


# --- columns


@pytest.mark.parametrize("number", [1, 50, 500])
@pytest.mark.parametrize("width", [80, 200])
def test_figures_stand_under_their_titles_whatever_the_names(width: int, number: int) -> None:
    lines = drawn(crowd(number), View(sort="iops"), width, 24)
    titles, body = lines[1], lines[2:-1][:number]
    assert len(lines) == 24
    assert len({cell_len(line) for line in body}) == 1
    assert cell_len(titles) == width >= cell_len(body[0])
    end = titles.index("IOPS") + len("IOPS")
    assert [cells(line, end - 7, end).strip() for line in body] == [str(number - 1 - n) for n in range(len(body))]
    end = titles.index("MiB/s") + len("MiB/s")
    assert {cells(line, end - 7, end).strip() for line in body} == {"1.0"}


def test_a_wide_terminal_shows_more() -> None:
    disk = disk_named(PLAIN, volume_id="e725b0de-c647-4620-be6b-d427f6cb59cf")
    narrow, wide = (drawn(shown(using(disk)), View(), width, 10)[2] for width in (80, 200))
    for more in ("e725b0de-c647-4620-be6b-d427f6cb59cf", "250 iops 100 MiB/s", "100 + 0", "████"):
        assert more not in narrow
        assert more in wide


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("name", RIGHT_TO_LEFT)
def test_latin_letters_stand_between_right_to_left_names_and_the_figures(name: str, width: int) -> None:
    # Else a terminal that turns such names round takes the figures with them (Unicode's bidi algorithm).
    line = drawn(shown(using(disk_named(name))), View(), width, 10)[2]
    right_to_left = False
    for character in line:
        kind = unicodedata.bidirectional(character)
        right_to_left = kind in ("R", "AL") or (right_to_left and kind != "L")
        assert not (right_to_left and kind == "EN"), line


@pytest.mark.parametrize("width", [80, 200])
def test_no_name_speaks_to_the_terminal(width: int) -> None:
    screen_ = "\n".join(drawn(crowd(len(NAMES)), View(), width, 24))
    assert all(character.isprintable() or character == "\n" for character in screen_)


def test_nothing_is_left_in_a_name_that_terminals_disagree_about() -> None:
    assert topview.steady("👍🏽❤️🇩🇪") == "👍❤DE"


def test_long_names_that_differ_at_their_end_stay_apart() -> None:
    names = [f"a-very-long-name-that-somebody-chose-for-a-guest-{n}" for n in range(3)]
    found = drawn(shown(*(using(disk_named(name, n)) for n, name in enumerate(names))), View(), 80, 10)[2:5]
    assert len({line.partition(" vda")[0] for line in found}) == 3


def test_a_terminal_of_any_size_gets_just_its_lines() -> None:
    for width in (1, 10, 40, 79, 81, 119, 300):
        for height in (1, 2, 3, 5):
            lines = drawn(crowd(9), View(), width, height)
            assert len(lines) == height
            assert max(map(cell_len, lines)) <= width


# --- what is known and what is not


def line_of(usage: Usage, width: int = 80) -> str:
    return drawn(shown(usage), View(), width, 10)[2]


def test_a_disk_at_its_limit() -> None:
    words = line_of(using(disk_named(PLAIN), iops=248)).split()
    assert " ".join(words) == "instance-00000001 vda 248 99 % 1.0 1 % 100 % of 2 s"


def test_more_than_the_whole_limit_is_never_cut_to_it() -> None:
    line = line_of(using(disk_named(PLAIN), iops=500), 120)
    assert "200 %" in line
    assert "█████████+" in line


def test_where_no_limit_is_there_is_no_share() -> None:
    assert line_of(using(disk_named(PLAIN, limits=Limits()))).split()[2:] == ["100", "-", "1.0", "-", "unlimited"]


def test_an_unknown_limit_is_neither_zero_nor_none() -> None:
    words = line_of(using(disk_named(PLAIN, limits=Unknown(SILENCE)))).split()
    assert words[2:] == ["100", "?", "1.0", "?", "limit", "unknown"]


def test_a_disk_that_was_read_once_shows_no_figures() -> None:
    before = follow((), [disk_named(PLAIN)], {"vda": Reading(0, BlockStats(5, 5, 5, 5))})[0]
    assert "not known before the second reading" in line_of(before)


def test_a_little_is_not_nothing() -> None:
    seldom = using(disk_named(PLAIN), iops=0.02, of_bytes=1, seconds=100)
    assert line_of(seldom).split()[2:8] == ["<0.1", "<1", "%", "<0.1", "<1", "%"]


def test_a_guest_that_hangs_is_named_with_its_reason() -> None:
    ref = GuestRef("guest-0", PLAIN)
    hung = unanswered((), [disk_named(PLAIN)], SILENCE)
    lines = drawn(shown(*hung, silent=(Overlooked(ref, SILENCE),)), View(), 80, 10)
    assert "not answering: instance-00000001" in lines[1]
    assert "not known: no answer from QEMU within 5 s" in lines[3]


def test_a_guest_whose_disks_nobody_saw_has_a_line_too() -> None:
    lines = drawn(shown(silent=(Overlooked(GuestRef("u", "unseen"), SILENCE),)), View(), 80, 10)
    assert lines[3].startswith("unseen ")
    assert "disks not known: no answer" in lines[3]


def test_a_limit_that_is_shared_is_marked() -> None:
    limits = Limits(total_iops_sec=100, group_name="g")
    disks = [disk_named(PLAIN, limits=limits), disk_named(PLAIN, limits=limits, target="vdb", node="3")]
    zero, some = BlockStats(0, 0, 0, 0), BlockStats(25, 0, 0, 0)
    before = follow((), disks, {"vda": Reading(0, zero), "vdb": Reading(0, zero)})
    both = follow(before, disks, {"vda": Reading(1, some), "vdb": Reading(1, some)})
    assert "50 %*" in line_of(both[0])


def test_a_round_that_takes_too_long_is_said() -> None:
    assert "a round takes 3.1 s" in drawn(shown(late=3.14), View(), 80, 10)[1]


def test_trouble_with_all_of_it_is_not_an_empty_node() -> None:
    text = "\n".join(drawn(shown(trouble="libvirt does not list its guests"), View(), 80, 10))
    assert "libvirt does not list its guests" in text
    assert "no RBD disk" not in text


# --- order and filter

IDLE = using(disk_named("idle", 1), iops=0, of_bytes=0)
CLOSE = using(disk_named("close", 2, Limits(total_iops_sec=10)), iops=9, of_bytes=512)
FREE = using(disk_named("free", 3, Limits()), iops=5000)
MUCH = using(disk_named("much", 4), iops=30, of_bytes=50 * 2**20)
DARK = unanswered((), [disk_named("dark", 5)], SILENCE)[0]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("wall", "close much idle free dark"),
        ("iops", "free much close idle dark"),
        ("bytes", "much free close idle dark"),
        ("name", "close dark free idle much"),
    ],
)
def test_the_order(sort: str, order: str) -> None:
    found = rows(shown(IDLE, DARK, FREE, MUCH, CLOSE).sample, sort)
    assert " ".join(row.disk.guest.name for row in found if isinstance(row, Usage)) == order


@pytest.mark.parametrize(
    "needle", ["CLOSE", "vda", "7f1c", "volumes/img", "76f321b2", "shop", "guest-2", "kasse"], ids=str
)
def test_the_filter_finds_a_disk_by_all_its_names(needle: str) -> None:
    guest = replace(CLOSE.disk.guest, display_name="Kasse")
    disk = replace(CLOSE.disk, guest=guest, volume_id="7f1c", image="img")
    assert rows(shown(replace(CLOSE, disk=disk)).sample, "wall", needle)
    assert not rows(shown(replace(CLOSE, disk=disk)).sample, "wall", f"{needle}no")


# --- keys


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
    assert topview.unfinished(sent) is more


def pressed(*sent: str, page: int = 10, number: int = 35, view: View | None = None) -> View | None:
    now = view or View()
    for key in sent:
        after = press(now, key, page=page, rows=number)
        if after is None:
            return None
        now = after
    return now


def test_q_quits_but_is_a_letter_in_a_filter() -> None:
    assert pressed("q") is None
    assert pressed("h", "q") is None
    assert pressed("/", "q", "b", "backspace", "enter") == View(needle="q")
    assert pressed("/", "q", "enter", "q") is None


def test_esc_shows_all_again() -> None:
    assert pressed("/", "a", "esc") == View()
    assert pressed("/", "a", "enter", "esc") == View()


@pytest.mark.parametrize(
    ("sent", "sort"),
    [("s", "iops"), ("s s s s", "wall"), ("left", "name"), ("right right", "bytes"), ("n", "name"), ("b w", "wall")],
)
def test_keys_that_sort(sent: str, sort: str) -> None:
    assert pressed(*sent.split()) == View(sort=sort)


@pytest.mark.parametrize(
    ("sent", "first"),
    [("down", 1), ("up", 0), ("pagedown", 10), ("pagedown " * 9, 25), ("end up", 24), ("end home", 0), ("end s", 0)],
)
def test_scrolling_stays_among_the_rows(sent: str, first: int) -> None:
    view = pressed(*sent.split())
    assert view is not None
    assert view.first == first


def test_fewer_rows_than_lines_do_not_scroll() -> None:
    assert pressed("end", "down", number=3) == View()


def test_what_is_scrolled_to_is_seen_and_said() -> None:
    lines = drawn(crowd(50), View(sort="iops", first=30), 80, 13)
    assert lines[2].split(" vda")[1].split()[0] == "19"
    assert "31-40 of 50" in lines[-1]


def test_rows_that_went_away_leave_no_empty_screen() -> None:
    assert "1-3 of 3" in drawn(crowd(3), View(first=400), 80, 13)[-1]


def test_help_is_shown_whole_in_24_lines_of_80_and_any_key_leaves_it() -> None:
    lines = drawn(crowd(3), View(help=True), 80, 24)
    assert [line.rstrip() for line in lines[2 : 2 + len(topview.HELP.splitlines())]] == topview.HELP.splitlines()
    assert pressed("?", "x") == View()


# --- json


def test_plain_data_has_ids_and_tells_unknown_from_nothing() -> None:
    what = shown(using(disk_named(PLAIN), iops=248), FREE, DARK, using(disk_named("x", 9, Unknown(SILENCE))))
    data = json.loads(json.dumps(topview.sample_data(what, rows(what.sample))))
    known, free, blind, dark = data["disks"]
    assert (known["guest"], known["guest_uuid"], known["disk"], known["pool"]) == (PLAIN, "guest-0", "vda", "volumes")
    assert known["in_force"] == {"total_iops_sec": 250, "total_bytes_sec": 104857600}
    assert known["rates"]["total_iops_sec"] == 248
    assert (known["share"], known["at_wall_share"], known["at_wall_window"], known["seconds"]) == (0.992, 1, 2, 2)
    assert known["shares"] == {"total_iops_sec": 0.992, "total_bytes_sec": 0.01}
    assert (free["in_force"], free["share"], free["reason"]) == ({}, None, None)
    assert (blind["in_force"], blind["share"], blind["reason"]["code"]) == (None, None, "unanswered")
    assert (dark["rates"], dark["share"], dark["reason"]["code"]) == (None, None, "unanswered")
