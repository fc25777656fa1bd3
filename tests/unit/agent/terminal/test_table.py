"""Tables at every width: nothing wider than the terminal, no word broken, no row lost, columns straight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

import pytest
from rich.cells import cell_len

from plimsoll_agent.cli import acknowledge, catalogue, disk, hold, record, rules_test, settings, state, top_once
from plimsoll_agent.messages.tones import Tone
from plimsoll_agent.terminal import table
from plimsoll_agent.terminal.columns import Column, guest_column
from plimsoll_agent.terminal.output import Terminal
from plimsoll_agent.terminal.table import Cell, Row
from plimsoll_agent.util.text import printable
from plimsoll_insight.cli import (
    drill_compare,
    drill_report,
    forecast,
    load,
    mds_watch,
    region_load,
    return_plan,
    simulate,
    simulate_replay,
    slow_rows,
)
from plimsoll_insight.load.region import LoadBy
from plimsoll_insight.replay.summary import ReplayBy
from plimsoll_monitoring.cli import record as region_record
from plimsoll_monitoring.cli import region, region_approvals, region_holds
from plimsoll_monitoring.region.probes import ProbesBy
from plimsoll_probes.cli import looking, timetable
from tests.unit.widths import WIDTHS

NAMES = (
    "web-1",
    "🚢🚢 кот",
    "データベース-本番-0001",
    "[red]web[/red]",
    "a\x1b[2J\nb\u202e",
    "n" * 70,
    "two words",
    "e\u0301te\u0301",
)
WHYS = (
    "",
    "attached 09:20, catalogue is from 09:14",
    "a brake stopped 212 of 240 disks until plimsoll approve 7f3a91c2b04d88e1",
)
LIMITS = ("unlimited", "250 iops 100 MiB/s", "read 200 iops write 100 iops (burst 2000 for 60 s) 1.5 GiB/s", "-")
# A cell for each name of a column; other columns have a name that a tenant chose.
USUAL = {
    "begin": ["14:02:11"],
    "sizes": ["read 512k 100 %; write 4k 97 %, 16k 3 %", "write 4k 96 %"],
    "guest": [f"instance-{number:08x}" for number in range(9)],
    "disk": ["vda", "vdb"],
    "size": ["20 GiB", "1.5 TiB", "?"],
    "state": ["in sync", "out of sync", "unknown", "held"],
    **dict.fromkeys(("actual", "desired", "desired_now", "desired_then", "limits", "limit", "keys"), LIMITS),
    **dict.fromkeys(("reason", "why", "detail"), WHYS),
    **dict.fromkeys(("volume", "guest_uuid"), ("e725b0de-c647-4620-be6b-d427f6cb59cf", "(own disk)")),
    **dict.fromkeys(("since", "until", "read", "at", "when", "last"), ("2026-11-21 03:10 UTC",)),
    **dict.fromkeys(("consumer", "of", "change", "job", "verdict", "condition", "region", "states"), ("both", "ok")),
    **dict.fromkeys(("digest", "left", "every", "oldest", "newest", "percent", "remove"), ("7f3a91c2b04d88e1",)),
    "file": ["/var/lib/plimsoll/catalogue/attachments.json"],
    "part": ["QoS specs", "guests"],
    "name": ["default/internal-rack2/ceph1-021", "  osd.382"],
    "jobs": ["read, write, mixed"],
    "ranks": ["0: 1,950  1: 12  2: 0.3", "2"],
}  # fmt: skip
LISTS: dict[str, Sequence[Column]] = {
    "disk list": disk.LIST_COLUMNS,
    "disk explain": disk._EXPLAINED,
    "disk hold list": hold.HoldList.columns,
    "disk acknowledge list": acknowledge.AcknowledgeList.columns,
    "probe list": looking.LIST_COLUMNS,
    "probe history": looking.COLUMNS,
    "probe timetable": timetable.COLUMNS,
    "record": record.COLUMNS,
    "settings": settings._COLUMNS,
    **{f"load --by {by}": load._columns(by) for by in load.BY},
    "load --latency": (*load._columns("volume"), *load.LATENCY_COLUMNS),
    "load --by time": load.TIME_COLUMNS,
    **{f"region load --by {by}": region_load._columns(by, several=True) for by in LoadBy},
    **{f"simulate --from-prometheus --by {by}": simulate_replay._columns(by, several=True) for by in ReplayBy},
    "slow": (Column("name"), *slow_rows.FIGURES),
    "slow, the answer alone": slow_rows.ANSWER_COLUMNS,
    "slow --by time": slow_rows.TIME_COLUMNS,
    "slow --by image": slow_rows.IMAGE_COLUMNS,
    "forecast": forecast.COLUMNS,
    "simulate": simulate.COLUMNS,
    "drill report": drill_report.COLUMNS,
    "drill compare": drill_compare.COLUMNS,
    "mds watch": mds_watch.RANK_COLUMNS,
    "mds watch --by time": mds_watch.TIME_COLUMNS,
    "mds watch --by directory": mds_watch.DIRECTORY_COLUMNS,
    "return plan": return_plan.COLUMNS,
    "top --once": top_once.COLUMNS,
    "rules test": rules_test._COLUMNS,
    "state check": state._COLUMNS,
    "catalogue show": catalogue._TYPE_COLUMNS,
    "catalogue show --volumes": catalogue._VOLUME_COLUMNS,
    "catalogue age": catalogue._AGE_COLUMNS,
    "region approvals": region_approvals._APPROVAL_COLUMNS,
    "region hold list": region_holds._HOLD_COLUMNS,
    "region record": region_record.COLUMNS,
    "region disks": region._disk_columns(several=True),
    **{f"region probes --by {by}": region._probe_columns(by, several=True) for by in ProbesBy},
}


def rows_of(columns: Sequence[Column], number: int) -> list[Row]:
    def text(column: Column, row: int) -> str:
        if column.right and column not in USUAL:
            return str(row * 7)
        cells = USUAL.get(column, NAMES)
        return printable(cells[row % len(cells)])

    return [
        [Cell(text(column, row), Tone.WARNING if row % 3 else None) for column in columns] for row in range(number)
    ]


def plain(line: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", line)


def test_settings_stay_a_table_at_80_columns_beside_a_long_path() -> None:
    path = "/etc/plimsoll/congestion.pub"
    row = [Cell(text) for text in ("health", "unreachable_guests_critical", path, "/etc/plimsoll/plimsoll.conf:12")]
    heads = [column for column in LISTS["settings"] if not column.long]
    first, second, third = (plain(line) for line in table.lines(heads, [row], Terminal(80, colour=False)))
    assert first.split() == ["SECTION", "SETTING", "VALUE", "ORIGIN"]
    assert second.startswith("health   unreachable_guests_critical  /etc/plimsoll/")
    assert path.endswith(third.strip())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("name", "number"), [*((name, 50) for name in LISTS), ("disk list", 1), ("disk list", 500), ("region disks", 500)]
)
def test_a_list_fits_its_terminal(name: str, width: int, number: int) -> None:
    columns = [column for column in LISTS[name] if not column.long]
    rows = rows_of(columns, number)
    drawn = [plain(line) for line in table.lines(columns, rows, Terminal(width, colour=True))]
    assert max(map(cell_len, drawn)) <= width
    words = {word for row in rows for cell in row for word in cell.text.split()}
    words |= {part for column in columns for end in ("", ",", ".") for part in f"{column.head}{end}".split()}
    words |= {part for column in columns for part in column.label.split()}  # of blocks
    words |= {f"[{mark}]" for mark in range(9)} | {
        "Hidden:",
        "A",
        "wider",
        "terminal",
        "or",
        "-c",
        "shows",
        "them.",
    }
    is_block = not drawn[0].startswith(columns[0].head)
    breakable = [
        row[n].text for row in rows for n, column in enumerate(columns) if is_block or (column.wraps and column.most)
    ]
    for word in {word for line in drawn for word in line.split()} - words:
        head, mark, tail = word.partition("…")
        if any(word in text for text in breakable):
            continue
        assert mark, word
        assert any(whole.startswith(head) for whole in words), word
        assert any(whole.endswith(tail) for whole in words), word
    listed = takewhile(lambda line: not line.startswith("Hidden:"), drawn)  # heads have units
    units = {"MiB/s", "GiB/s", "iops"} - set(columns)  # a column of that name begins lines of blocks
    assert not any(re.match(rf"\s*({'|'.join(units)})", line) for line in listed), "a unit without its number"
    if any(drawn[0].lstrip().startswith(column.head) for column in columns):
        below = re.compile(r"\[\d|Hidden:|terminal")
        first = next(column.head for column in columns if drawn[0].lstrip().startswith(column.head))
        reach = drawn[0].index(first) + len(first)
        assert sum(bool(line[:reach].strip()) for line in drawn[1:] if not below.match(line)) >= number
    else:  # a block a row
        blocks = "\n".join(drawn).split("\n\n")
        assert len(blocks) == number


@pytest.mark.parametrize("name", LISTS)
def test_a_pipe_gets_a_line_a_row_with_all_of_it(name: str) -> None:
    columns = [column for column in LISTS[name] if not column.long]
    rows = rows_of(columns, 50)
    head, *drawn = table.lines(columns, rows, Terminal(None, colour=False))
    assert len(drawn) == 50
    assert [part.strip() for part in re.split(r"\s{2,}", head)] == [column.head for column in columns]
    for line, row in zip(drawn, rows, strict=True):
        assert all(cell.text in line for cell in row)


def drawn(columns: Sequence[Column], *rows: Sequence[str], width: int | None = 40, **other: bool) -> list[str]:
    cells = [[Cell(text) for text in row] for row in rows]
    return list(table.lines(columns, cells, Terminal(width, colour=False), **other))


def test_a_number_stays_with_its_unit() -> None:
    columns = (Column("name"), Column("limits", wraps=True))
    assert drawn(columns, ("web", "250 iops 100 MiB/s"), width=20) == [
        "NAME  LIMITS",
        "web   250 iops",
        "      100 MiB/s",
    ]


def test_numbers_stand_to_the_right() -> None:
    assert drawn((Column("n", right=True), Column("x")), ("5", "a"), ("500", "b")) == ["  N  X", "  5  a", "500  b"]


def test_what_is_dropped_first_is_declared_and_told() -> None:
    columns = (Column("guest"), Column("pool", drop=2), Column("size", drop=1), Column("state"))
    row = ("instance-1", "volumes", "100 GiB", "in sync")
    assert drawn(columns, row, width=32) == [
        "GUEST       POOL     STATE",
        "instance-1  volumes  in sync",
        "Hidden: SIZE. A wider terminal",
        "or -c shows them.",
    ]
    assert drawn(columns, row, width=24)[0].split() == ["GUEST", "STATE"]


def test_no_cell_wraps_beside_a_column_that_says_nothing() -> None:
    columns = (Column("guest"), Column("type", drop=1), Column("limits", wraps=True))
    row = ("instance-1", "-", "read 500 IOPS write 400 IOPS 20 MiB/s")
    assert drawn(columns, row, width=42)[:3] == [
        "GUEST       LIMITS",
        "instance-1  read 500 IOPS write 400 IOPS",
        "            20 MiB/s",
    ]


def test_a_name_is_whole_before_the_longest_cells_get_more_room() -> None:
    columns = (Column("server", most=8), Column("limits", wraps=True))
    rows = [(f"shop-production-{number}", "250 IOPS") for number in range(4)]
    assert drawn(columns, *rows, ("db", "read 500 IOPS (burst 1000 IOPS) write 400 IOPS"), width=50) == [
        "SERVER             LIMITS",
        *(f"shop-production-{number}  250 IOPS" for number in range(4)),
        "db                 read 500 IOPS (burst 1000 IOPS)",
        "                   write 400 IOPS",
    ]


def test_what_was_asked_for_is_never_dropped() -> None:
    columns = (Column("guest"), Column("pool", drop=1))
    assert drawn(columns, ("instance-00000001", "volumes"), ("b", "c"), width=20, asked=True) == [
        "guest  instance-00000001",
        "pool   volumes",
        "",
        "guest  b",
        "pool   c",
    ]


def test_a_long_reason_is_a_footnote_where_it_does_not_fit() -> None:
    columns = (Column("guest"), Column("state"), Column("reason", wraps=True, note=True))
    rows = [("a", "unknown", "no such volume in Cinder, or hidden"), ("b", "in sync", "")]
    assert drawn(columns, *rows, width=60) == [
        "GUEST  STATE    REASON",
        "a      unknown  no such volume in Cinder, or hidden",
        "b      in sync",
    ]
    assert drawn(columns, *rows, width=30) == [
        "GUEST  STATE",
        "a      unknown [1]",
        "b      in sync",
        "[1]  no such volume in Cinder,",
        "     or hidden",
    ]


def test_a_reason_of_many_rows_is_told_once() -> None:
    columns = (Column("guest"), Column("state"), Column("reason", wraps=True, note=True))
    rows = [(f"g{number}", "unknown", "no such volume in Cinder, or hidden") for number in range(5)]
    assert drawn(columns, *rows, width=200)[-2:] == [
        "g4     unknown [1]",
        "[1]  no such volume in Cinder, or hidden",
    ]
    assert drawn(columns, *rows, width=None)[1:] == [f"g{n}     unknown  {rows[0][2]}" for n in range(5)]


def test_a_name_is_cropped_in_its_middle_before_a_column_is_dropped() -> None:
    columns = (Column("server", most=10), Column("size", drop=1))
    assert drawn(columns, ("データベース本番", "5 GiB"), width=20) == [
        "SERVER         SIZE",
        "データ…ス本番  5 GiB",
    ]


def test_colour_is_around_the_cell_and_moves_nothing() -> None:
    columns, rows = (Column("a"), Column("b")), [[Cell("x", Tone.CRITICAL), Cell("y")]]
    (_, row) = table.lines(columns, rows, Terminal(80, colour=True))
    assert row == "\x1b[1;31mx\x1b[0m  y"


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("web-1", "web-1", "web-1"),
        ("shop-production-eu1-database-replica", "shop-production-us1-database-replica", "shop-pr…replica"),
        ("-", "-", "-"),
    ],
    ids=["one-name", "cropped-alike", "no-name"],
)
def test_servers_that_look_alike_are_told_apart_where_the_guest_is_left_out(one: str, other: str, shown: str) -> None:
    columns = (Column("server", most=17), guest_column(drop=1), Column("disk"), Column("state"))
    rows = [(one, "instance-00000412", "vda", "in sync"), (other, "instance-0000040c", "vda", "in sync")]
    rows.append(("mail", "instance-00000400", "vda", "in sync"))
    wide, narrow = (drawn(columns, *rows, width=width) for width in (80, 36))
    assert [line.split()[0] for line in wide[1:4]] == [one, other, "mail"]
    assert [line.split("  ")[0] for line in narrow[1:4]] == [f"{shown} …0412", f"{shown} …040c", "mail"]
