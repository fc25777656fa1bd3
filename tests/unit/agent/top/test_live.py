"""``plimsoll top``: what its screen shows at any width, with any names."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.console import Console

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import BlockStats, GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.model.usage import Reading, Usage, follow, unreachable
from plimsoll_agent.reconcile.outcome import UnreachableGuest
from plimsoll_agent.terminal.cells import bar, cut_words, steady
from plimsoll_agent.top import keys
from plimsoll_agent.top.keys import Explained, Pane, View
from plimsoll_agent.top.live import Contents, screen
from plimsoll_agent.top.rows import Planned
from plimsoll_agent.top.sampler import Sample
from plimsoll_agent.util.frozen import replace
from tests.unit.agent.monitor.usages import NODE_LIMITS, SILENCE, desiring, disk_named, using
from tests.unit.values import NOON

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
HUNDREDTH = Limits(total_iops_sec=2, total_bytes_sec=2**20)
WIDTHS = (80, 120, 160, 200)


def shown(*usages: Usage, unreachable: tuple[UnreachableGuest, ...] = (), **other: object) -> Contents:
    sample = Sample(usages, unreachable, len({usage.disk.guest.uuid for usage in usages}) + len(unreachable))
    return Contents(**{"sample": sample, "at": NOON, "node": "compute-17", "interval": 2.0, **other})  # type: ignore[arg-type]


def crowd(number: int) -> Contents:
    """Disks of all kinds of names; the 4th is unlimited, the 6th has a hundredth of what is desired."""
    limits = [NODE_LIMITS] * number
    limits[3:4], limits[5:6] = [Limits()] * (number > 3), [HUNDREDTH] * (number > 5)
    disks = [disk_named(NAMES[n % len(NAMES)], n, limits[n]) for n in range(number)]
    return shown(*(using(disk, iops=n) for n, disk in enumerate(disks)), planned=desiring(NODE_LIMITS, *disks))


def painted(lines: Sequence[object], width: int, height: int) -> list[str]:
    """As rich sends them to a terminal of that size."""
    console = Console(width=width, height=height, file=io.StringIO(), color_system=None, highlight=False)
    for line in lines:
        console.print(line, soft_wrap=True)
    return console.file.getvalue().split("\n")[:height]  # type: ignore[attr-defined]


def drawn(what: Contents, view: View, width: int, height: int) -> list[str]:
    return painted(screen(what, view, width, height).lines, width, height)


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
@pytest.mark.parametrize("width", WIDTHS)
def test_figures_stand_under_their_titles_whatever_the_names(width: int, number: int) -> None:
    lines = drawn(crowd(number), View(sort="iops"), width, 24)
    titles, body = lines[1], lines[2:-1][:number]
    assert len(lines) == 24
    assert {cell_len(line) for line in (titles, *body)} == {width}
    wrong = [3, 5] if number > 5 else []
    order = wrong + [n for n in reversed(range(number)) if n not in wrong]
    end = titles.index("IOPS") + len("IOPS")
    assert [cells(line, end - 5, end).strip() for line in body] == [str(n) for n in order[: len(body)]]
    end = titles.index("MiB/s") + len("MiB/s")
    assert {cells(line, end - 5, end).strip() for line in body} == {"1.0"}
    begin = titles.index("OF LIMIT")
    shares = [cells(line, begin, begin + 18).rstrip() for line in body[len(wrong) :]]
    assert all(re.fullmatch(r" *<?\d+ % of \d+ (IOPS|MiB/s)", share) for share in shares)
    assert {share.index(" %") for share in shares} <= {3}, "they stand below each other"


def test_columns_are_dropped_in_their_order() -> None:
    disk = disk_named(PLAIN, volume_id="e725b0de-c647-4620-be6b-d427f6cb59cf")
    what = shown(using(disk), planned=desiring(NODE_LIMITS, disk))
    always = ["SERVER", "GUEST", "DISK", "IOPS", "MiB/s", "OF LIMIT", "AT LIMIT"]
    for width, more in {
        80: [],
        120: ["LIMIT"],
        130: ["LIMIT", "TYPE"],
        160: ["LIMIT", "TYPE", "READ + WRITE", "READ + WRITE"],
        190: ["LIMIT", "TYPE", "READ + WRITE", "READ + WRITE", "VOLUME"],
        210: ["LIMIT", "TYPE", "READ + WRITE", "READ + WRITE", "VOLUME", "PROJECT"],
    }.items():
        titles = re.split(r"\s{2,}", drawn(what, View(), width, 10)[1].strip())
        assert sorted(titles) == sorted(always + more), width
    assert re.split(r"\s{2,}", drawn(what, View(), 40, 10)[1].strip())[:2] == ["GUEST", "DISK"]


def test_what_is_saved_has_a_column_where_a_disk_has_a_burst() -> None:
    """The least of several bursts: that one ends first."""
    disks = [disk_named(PLAIN), disk_named("other", 2)]
    saved = {disks[0].key: {"total_iops_sec": 0.25, "total_bytes_sec": 1.0}}
    what = shown(*map(using, disks), planned=replace(desiring(NODE_LIMITS, *disks), saved=saved))
    titles, first, second = drawn(what, View(sort="name"), 100, 10)[1:4]
    end = titles.index("SAVED") + len("SAVED")
    assert sorted((first[end - 5 : end], second[end - 5 : end])) == ["     ", " 25 %"]
    assert "SAVED" not in drawn(replace(what, planned=desiring(NODE_LIMITS, *disks)), View(), 100, 10)[1]


def test_a_wide_terminal_has_the_cells_of_its_columns() -> None:
    disk = disk_named(PLAIN, volume_id="e725b0de-c647-4620-be6b-d427f6cb59cf")
    wide = drawn(shown(using(disk), planned=desiring(NODE_LIMITS, disk)), View(), 240, 10)[2]
    for more in ("e725b0de-c647-4620-be6b-d427f6cb59cf", "250 IOPS 100 MiB/s", "100 + 0", "████░░░░░░", "shop"):
        assert more.casefold() in wide.casefold()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RIGHT_TO_LEFT)
def test_latin_letters_stand_between_right_to_left_names_and_the_figures(name: str, width: int) -> None:
    # Else a terminal that turns such names round takes the figures with them (Unicode's bidi algorithm).
    line = drawn(shown(using(disk_named(name))), View(), width, 10)[2]
    right_to_left = False
    for character in line:
        kind = unicodedata.bidirectional(character)
        right_to_left = kind in ("R", "AL") or (right_to_left and kind != "L")
        assert not (right_to_left and kind == "EN"), line


@pytest.mark.parametrize("width", WIDTHS)
def test_no_name_speaks_to_the_terminal(width: int) -> None:
    explained = Explained(title=NAMES[-1], head=NAMES, rows=tuple((name, name) for name in NAMES))
    for view in (View(), View(pane=Pane(key="x", explained=explained)), View(typing=True, needle=NAMES[-1])):
        lines = screen(crowd(len(NAMES)), view, width, 40).lines
        assert all(line.plain.isprintable() for line in lines)
        assert {span.style for line in lines for span in line.spans} <= {
            "bold", "reverse", "bold red", "bold yellow", "yellow", "dim", "",
        }  # fmt: skip


def test_nothing_is_left_in_a_name_that_terminals_disagree_about() -> None:
    assert steady("👍🏽❤️🇩🇪") == "👍❤DE"


def test_long_names_that_differ_at_their_end_stay_apart() -> None:
    names = [f"a-very-long-name-that-somebody-chose-for-a-guest-{n}" for n in range(3)]
    found = drawn(shown(*(using(disk_named(name, n)) for n, name in enumerate(names))), View(), 80, 10)[2:5]
    assert len({line.partition(" vda")[0] for line in found}) == 3


def test_a_terminal_of_any_size_gets_just_its_lines() -> None:
    pane = Pane(key="x", explained=Explained(title="title", head=("head",), rows=(("source", "answer " * 50),)))
    for view in (View(), View(help=True), View(pane=pane)):
        for width in (1, 10, 40, 79, 81, 119, 300):
            for height in (1, 2, 3, 5, 12):
                lines = screen(crowd(9), view, width, height).lines
                assert len(lines) <= height
                assert max(line.cell_len for line in lines) <= width


@pytest.mark.parametrize(
    ("text", "most", "found"),
    [
        ("unlimited, desired 250 IOPS 100 MiB/s", 37, "unlimited, desired 250 IOPS 100 MiB/s"),
        ("unlimited, desired 250 IOPS 100 MiB/s", 36, "unlimited, desired 250 IOPS…"),
        ("unlimited, desired 250 IOPS 100 MiB/s", 27, "unlimited, desired…"),
        ("unlimited, desired 250 IOPS 100 MiB/s", 17, "unlimited…"),
        ("unlimited", 5, "unli…"),
    ],
)
def test_no_number_is_cut_or_parted_from_its_unit(text: str, most: int, found: str) -> None:
    assert cut_words(text, most) == found


def test_a_bar_has_a_track() -> None:
    assert [bar(share, 10) for share in (0, 0.52, 1, 1.2)] == ["░" * 10, "█████░░░░░", "█" * 10, "█████████+"]


# --- what is wrong


@pytest.mark.parametrize("sort", ["at-limit", "iops", "bytes", "server", "name"])
@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_not_limited_as_desired_is_first_and_said_in_words(width: int, sort: str) -> None:
    for reverse in (False, True):
        lines = drawn(crowd(50), View(sort=sort, reverse=reverse), width, 24)
        assert "1 unlimited" in lines[0]
        assert "1 far from desired" in lines[0]
        assert "unlimited, desired 250 IOPS" in lines[2]
        assert re.search("2 IOPS( 1 MiB/s)?, desired 250 IOPS", lines[3])


@pytest.mark.parametrize("width", [70, 80, 90, 100])
def test_what_is_desired_is_not_cut_on_a_busy_node_with_long_names(width: int) -> None:
    disks = [disk_named(f"instance-{n:08x}", n, NODE_LIMITS if n else Limits()) for n in range(3)]
    disks = [replace(disk, guest=replace(disk.guest, display_name="a-server-with-a-long-name")) for disk in disks]
    usages = [using(disk, iops=133490 - n, of_bytes=2**34) for n, disk in enumerate(disks)]
    line = drawn(shown(*usages, planned=desiring(NODE_LIMITS, *disks)), View(), width, 10)[2]
    assert "133490" in line
    assert "instance-00000000  vda " in line or width < 80
    assert "unlimited, desired 250 IOPS" in line
    assert cell_len(line) == width


def styles(what: Contents, number: int) -> set[object]:
    return {span.style for span in screen(what, View(), 80, 10).lines[number].spans}


def test_what_is_not_limited_as_desired_has_a_colour() -> None:
    assert "bold red" in styles(crowd(50), 0)
    assert "bold red" in styles(crowd(50), 2)
    assert "bold yellow" in styles(crowd(50), 3)
    assert not {"bold red", "bold yellow"} & styles(crowd(1), 2)


# --- what is known and what is not


def line_of(usage: Usage, width: int = 80, desired: Limits | Unknown | None = NODE_LIMITS) -> str:
    return drawn(shown(usage, planned=desiring(desired, usage.disk)), View(), width, 10)[2]


def words_of(usage: Usage, desired: Limits | Unknown | None = NODE_LIMITS) -> str:
    """The words after the names, without the bar."""
    words = line_of(usage, desired=desired).split(" vda ")[1].split()
    return " ".join(word for word in words if not set(word) & set("█░"))


def test_a_disk_at_its_limit() -> None:
    assert words_of(using(disk_named(PLAIN), iops=248)) == "248 1.0 99 % of 250 IOPS 100 %"


def test_the_share_is_of_the_limit_that_is_closest() -> None:
    assert words_of(using(disk_named(PLAIN), iops=25, of_bytes=52428800)) == "25 50.0 50 % of 100 MiB/s"


def test_the_share_of_a_limit_of_reads_says_so() -> None:
    limits = Limits(read_iops_sec=200, write_iops_sec=400)
    usage = using(disk_named(PLAIN, limits=limits), iops=100)
    assert words_of(usage, desired=limits) == "100 1.0 50 % of read 200 IOPS"


def test_of_a_limit_that_is_too_wide_and_one_that_is_missing_the_missing_one_is_told() -> None:
    usage = using(disk_named(PLAIN, limits=Limits(total_iops_sec=5000)))
    assert words_of(usage) == "100 1.0 unlimited, desired 100 MiB/s…"


def test_more_than_the_whole_limit_is_never_cut_to_it() -> None:
    line = line_of(using(disk_named(PLAIN), iops=500), 120)
    assert "200 %" in line
    assert "█████████+" in line


def test_where_no_limit_is_there_is_no_share() -> None:
    assert words_of(using(disk_named(PLAIN, limits=Limits())), desired=None) == "100 1.0 - -"
    assert "unlimited" in line_of(using(disk_named(PLAIN, limits=Limits())), 160, desired=None)


def test_an_unknown_limit_is_neither_zero_nor_none() -> None:
    line = line_of(using(disk_named(PLAIN, limits=Unknown(SILENCE))), 120)
    assert "limit unknown: no answer from QEMU within 5 s" in line


def test_desired_limits_that_are_unknown_are_not_none() -> None:
    line = line_of(using(disk_named(PLAIN, limits=Limits())), 160, desired=Unknown(SILENCE))
    assert "unlimited, desired unknown" in line


def test_a_disk_that_was_read_once_shows_no_figures() -> None:
    def read_once(disk: Disk) -> Usage:
        stats = BlockStats(read_requests=5, read_bytes=5, write_requests=5, write_bytes=5)
        return follow((), [disk], {"vda": Reading(0, stats)})[0]

    assert "unknown until the second reading" in line_of(read_once(disk_named(PLAIN)))
    unlimited = read_once(disk_named(PLAIN, limits=Limits()))
    assert words_of(unlimited).startswith("? ? unlimited, desired 250 IOPS")


def test_a_little_is_not_nothing() -> None:
    seldom = using(disk_named(PLAIN), iops=0.02, of_bytes=1, seconds=100)
    assert words_of(seldom).startswith("<0.1 <0.1 <1 %")


def test_a_guest_that_hangs_is_named_with_its_reason() -> None:
    ref = GuestRef("guest-0", PLAIN)
    hung = unreachable((), [disk_named(PLAIN)], SILENCE)
    lines = drawn(shown(*hung, unreachable=(UnreachableGuest(ref, SILENCE),)), View(), 80, 10)
    assert "unreachable: instance-00000001" in lines[1]
    assert "unknown: no answer from QEMU within" in lines[3]


def test_a_guest_whose_disks_no_pass_saw_has_a_line_too() -> None:
    lines = drawn(shown(unreachable=(UnreachableGuest(GuestRef("u", "unseen"), SILENCE),)), View(), 80, 10)
    assert "unseen" in lines[3]
    assert "disks unknown: no answer" in lines[3]


def test_a_limit_that_is_shared_is_marked() -> None:
    limits = Limits(total_iops_sec=100, group_name="g")
    disks = [disk_named(PLAIN, limits=limits), disk_named(PLAIN, limits=limits, target="vdb", node="3")]
    zero, some = (
        BlockStats(read_requests=0, read_bytes=0, write_requests=0, write_bytes=0),
        BlockStats(read_requests=25, read_bytes=0, write_requests=0, write_bytes=0),
    )
    before = follow((), disks, {"vda": Reading(0, zero), "vdb": Reading(0, zero)})
    both = follow(before, disks, {"vda": Reading(1, some), "vdb": Reading(1, some)})
    assert "50 %*" in line_of(both[0], desired=limits)


def test_a_round_that_takes_too_long_is_said() -> None:
    assert "a reading takes 3.1 s" in drawn(shown(late=3.14), View(), 80, 10)[1]


def test_trouble_with_all_of_it_is_not_an_empty_node() -> None:
    text = "\n".join(drawn(shown(trouble="libvirt does not list its guests"), View(), 80, 10))
    assert "libvirt does not list its guests" in text
    assert "no RBD disk" not in text


def test_what_is_unknown_is_counted_and_not_nothing_at_limit() -> None:
    dark = unreachable((), [disk_named("dark", 5), disk_named("dark", 5, target="vdb")], SILENCE)
    blind = using(disk_named("x", 9, Unknown(SILENCE)))
    head = drawn(shown(*dark, blind, using(disk_named("a"))), View(), 80, 10)[0]
    assert "3 unknown" in head
    assert "unknown" not in drawn(shown(using(disk_named("a"))), View(), 80, 10)[0]


def test_why_the_desired_limits_are_unknown_is_said() -> None:
    text = drawn(shown(planned=Planned(complaint="/etc/plimsoll/rules.yaml:3: no\nsuch key")), View(), 80, 10)[1]
    assert "/etc/plimsoll/rules.yaml:3: no such key" in text


# --- cursor, filter, pane


def test_the_cursor_is_on_its_disk_and_its_disk_on_the_screen() -> None:
    what = crowd(50)
    on = screen(what, View(sort="iops"), 80, 13)
    for _ in range(30):
        after = keys.press(on.view, "down", on.shape)
        assert after is not None
        on = screen(what, after, 80, 13)
    (line,) = [line for line in on.lines[2:-1] if any(span.style == "reverse" for span in line.spans)]
    assert line.plain.partition(" vda ")[2].split()[0] == "21"  # 3 and 5 come first
    assert "22-31 of 50" in on.lines[-1].plain
    moved = shown(*(using(usage.disk, iops=100 - (usage.rates.of("total_iops_sec") if usage.rates else 0))
                    for usage in what.sample.usages), planned=what.planned)  # fmt: skip
    on = screen(moved, on.view, 80, 13)
    (line,) = [line for line in on.lines[2:-1] if any(span.style == "reverse" for span in line.spans)]
    assert line.plain.partition(" vda ")[2].split()[0] == "79"


def test_rows_that_went_away_leave_no_empty_screen() -> None:
    assert "1-3 of 3" in drawn(crowd(3), View(first=400, at=400, cursor="gone"), 80, 13)[-1]


def test_a_filter_leaves_its_disks_and_is_said() -> None:
    lines = drawn(crowd(50), View(needle="rocket"), 80, 24)
    assert "/ filter: rocket" in lines[-1]
    assert sum("rocket" in line for line in lines[2:-1]) == 7
    assert "no disk matches the filter" in drawn(crowd(5), View(needle="nobody"), 80, 24)[2]


def test_the_head_counts_disks_that_a_filter_leaves_out() -> None:
    assert "1 unlimited" in drawn(crowd(50), View(needle="no such"), 80, 24)[0]


@pytest.mark.parametrize("height", [8, 24, 40])
def test_an_explanation_is_shown_below_the_disks_and_scrolls(height: int) -> None:
    rows = tuple((f"source {n}", f"answer {n} " + "word " * 20) for n in range(20))
    on = screen(
        crowd(50),
        View(pane=Pane(key="x", explained=Explained(title="plimsoll disk explain a vda", head=("head",), rows=rows))),
        80,
        height,
    )
    lines = painted(on.lines, 80, height)
    assert len(lines) == height
    assert any("plimsoll disk explain a vda" in line for line in lines)
    assert " vda " in lines[2]
    seen = set()
    for _ in range(60):
        seen |= {line for line in painted(on.lines, 80, height) if line.startswith("source")}
        after = keys.press(on.view, "down", on.shape)
        assert after is not None
        on = screen(crowd(50), after, 80, height)
    assert {line.split("  ")[0] for line in seen} == {f"source {n}" for n in range(20)}


def test_help_is_shown_whole_in_24_lines_of_80() -> None:
    lines = drawn(crowd(3), View(help=True), 80, 24)
    assert [line.rstrip() for line in lines[2 : 2 + len(keys.HELP.splitlines())]] == keys.HELP.splitlines()


@pytest.mark.parametrize("width", [60, *WIDTHS])
def test_the_way_out_and_help_are_there_at_every_width(width: int) -> None:
    assert painted(screen(crowd(9), View(), width, 12).lines, width, 12)[-1].startswith("q quit   ? help ")


@pytest.mark.parametrize("width", [60, *WIDTHS])
@pytest.mark.parametrize("mode", ["observe", "writes paused"])
def test_passes_that_write_nothing_are_told_at_every_width(width: int, mode: str) -> None:
    seen = screen(shown(planned=Planned(mode=mode)), View(), width, 12)
    assert painted(seen.lines, width, 12)[0].startswith(f"compute-17 12:00:00Z   {mode}   ")
