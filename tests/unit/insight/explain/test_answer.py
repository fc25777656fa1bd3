"""The answer of explain: the cause in a line, a row for each disk, what to run next, and the tenant's sentence."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.cells import cell_len

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.terminal.moments import Window
from plimsoll_agent.terminal.output import Terminal
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.explain import answer, messages
from plimsoll_insight.explain.answer import ExplainCase, Explained
from plimsoll_insight.explain.cause import find
from plimsoll_insight.explain.evidence import Evidence, Neighbour, PassInterval, SharedPlace
from plimsoll_insight.explain.guests import ExplainedDisk
from tests.unit.values import VOLUME
from tests.unit.widths import plain

DATA = Path(__file__).parents[2] / "data"
END = datetime(2026, 11, 28, 10, 20, tzinfo=UTC)
CALM = PassInterval(
    at=0,
    node="node7:9100",
    operations=100.0,
    bytes=409600.0,
    share=0.2,
    limit="total_iops_sec",
    allowed=500,
    latency=0.004,
    of_node=0.005,
    raised=(),
)
LOUD = Neighbour(uuid="u9", place=SharedPlace.NODE, unit="operations", rate=5000, share=0.94)
BESIDE_LOUD = replace(CALM, latency=0.2, neighbours=(LOUD,))
AT_LIMIT = replace(CALM, share=1.0, latency=0.3)
UNWELL = replace(CALM, latency=0.9, raised=("OSD_DOWN", "SLOW_OPS"))
ALONE = replace(CALM, latency=0.9)
NOTHING = PassInterval(at=0)
SERVER = "web-29"


def a_disk(name: str, *intervals: PassInterval, volume: str = "", since: float | None = None) -> Explained:
    """Intervals of five minutes that end at ``END``; first measured then, if that is later than asked."""
    last = END.timestamp()
    every = tuple(
        replace(each, at=last - 300.0 * back)
        for each, back in zip(intervals, reversed(range(len(intervals))), strict=True)
    )
    limits = Limits(total_iops_sec=500).in_effect()
    disk = ExplainedDisk(
        guest_uuid="u1",
        disk=name,
        volume=volume,
        volume_type="gold",
        pool="volumes",
        cluster="c",
        evidence=Evidence(seconds=300.0, intervals=every, usual=0.004, since=since),
        limits=limits,
    )
    return disk, find(disk.evidence)


def around(slow: PassInterval, number: int = 40) -> list[PassInterval]:
    return [*[CALM] * 100, *[slow] * number, *[CALM] * (188 - number)]


def a_case(*disks: Explained, server: str = SERVER, node: str | None = "node7:9100") -> ExplainCase:
    window = Window(since=END - timedelta(days=1), until=END, words="the last 24h", options="--since 24h")
    return ExplainCase(
        server=server,
        disks=disks,
        window=window,
        names={"u9": "web-28"},
        reasons=messages.UNEXPLAINED,
        node=None if node is None else ("north", node),
    )


CASES = {
    "a neighbour, and a disk that was not slow": a_case(
        a_disk("vdc", *[CALM] * 288),
        a_disk("vda", *around(BESIDE_LOUD)),
        a_disk("vdb", *around(BESIDE_LOUD), volume=VOLUME),
    ),
    "its own limit, and then nothing known": a_case(
        a_disk("vda", *[CALM] * 100, *[AT_LIMIT] * 40, *[NOTHING] * 20, *[CALM] * 128), a_disk("vdb", *[CALM] * 288)
    ),
    "three causes": a_case(
        a_disk("vda", *[NOTHING] * 200, *[CALM] * 80),
        a_disk("vdb", *around(AT_LIMIT, 9)),
        a_disk("vdc", *around(UNWELL)),
    ),
    "alone, of one disk on the node itself": a_case(a_disk("vda", *around(ALONE, 14)), node=None),
    "not slow": a_case(a_disk("vda", *[CALM] * 288), a_disk("vdb", *[CALM] * 288)),
    "not slow since it is measured": a_case(a_disk("vda", *[CALM] * 12, since=END.timestamp() - 3600)),
    "its metrics ended": a_case(a_disk("vda", *[CALM] * 276, *[NOTHING] * 12)),
    "a single interval": a_case(a_disk("vda", AT_LIMIT)),
    "nothing measured": a_case(a_disk("vda")),
    "a long name in another script": a_case(a_disk("vda", *around(UNWELL)), server="数据库服务器-生产环境-" * 3),
}


def lines(case: ExplainCase, width: int | None = None, *, blocks: bool = True) -> list[str]:
    return [*answer.lines(case, Terminal(width, colour=False), blocks=blocks)]


@pytest.mark.parametrize("width", [80, 120])
def test_what_is_printed(width: int) -> None:
    said = "".join(f"--- {name}\n" + "".join(f"{line}\n" for line in lines(CASES[name], width)) for name in CASES)
    path = DATA / f"explained_{width}.txt"
    assert said == path.read_text()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 200])
def test_the_cause_and_the_time_line_fit(name: str, width: int) -> None:
    for line in lines(CASES[name], width):
        if not line.startswith(("next: ", "tenant: ")):  # those are folded with all that is written
            assert cell_len(line) <= width, line


def test_the_cause_is_the_first_line_and_begins_with_the_guilty() -> None:
    assert lines(CASES["a neighbour, and a disk that was not slow"])[0] == (
        "web-29 vda, vdb was slow because of a NEIGHBOUR on node7: web-28 did 94 % of the node's requests"
        "   2026-11-27 18:40–22:00 UTC (3 h 20 min)"
    )


def test_a_time_of_the_last_day_is_told_without_the_day_and_a_server_whose_disks_are_all_slow_without_disks() -> None:
    late = [*[CALM] * 200, *[UNWELL] * 12]
    assert lines(a_case(a_disk("vda", *late), a_disk("vdb", *late)))[0] == (
        "web-29 was slow because of the CLUSTER: OSD_DOWN, SLOW_OPS   09:20–10:20 UTC (1 h)"
    )


def test_a_neighbour_is_named_on_the_node_where_it_was_also_after_a_move() -> None:
    loud, less = replace(LOUD, rate=500), replace(LOUD, uuid="u8", rate=500, share=0.6)
    away = replace(BESIDE_LOUD, node="node9:9100", neighbours=(less,))
    home = replace(BESIDE_LOUD, neighbours=(loud,))
    moved = [*[CALM] * 100, *[home] * 20, *[CALM] * 100, *[away] * 10, *[CALM] * 58]
    assert lines(a_case(a_disk("vda", *moved), node="node9:9100"))[0].startswith(
        "web-29 vda was slow because of a NEIGHBOUR on node7: web-28 did 94 % of the node's requests"
    )


def test_guests_that_share_a_pool_are_told_by_the_pool_and_two_limits_by_their_disks() -> None:
    pool = replace(
        BESIDE_LOUD, neighbours=(replace(LOUD, place=SharedPlace.POOL, unit="bytes", uuid="u8", rate=9e6),)
    )
    assert lines(a_case(a_disk("vda", *around(pool))))[0].startswith(
        "web-29 vda was slow because of a NEIGHBOUR in pool volumes: u8 did 94 % of the pool's bytes"
    )
    small = replace(AT_LIMIT, allowed=250)
    assert lines(a_case(a_disk("vda", *around(AT_LIMIT)), a_disk("vdb", *around(small))))[0].startswith(
        "web-29 was slow because of its own LIMITs: vda 500 IOPS, vdb 250 IOPS"
    )
    bursts = replace(CALM, share=0.8, latency=0.9)
    assert "its own LIMIT, 500 IOPS, in bursts" in lines(a_case(a_disk("vda", *around(bursts))))[0]


def test_disks_that_waited_for_the_same_are_one_sentence_for_the_tenant_with_their_time_counted_once() -> None:
    often = [*[CALM] * 100, *[UNWELL, CALM] * 20, *[CALM] * 100]
    (sentence,) = [
        line
        for line in lines(a_case(a_disk("vda", *often), a_disk("vdb", *often, volume=VOLUME)))
        if line.startswith("tenant: ")
    ]
    assert sentence.startswith(
        f'tenant: "For your disk vda and volume {VOLUME}, requests took 900 ms on average instead of 4 ms for 51 %'
        " of the time between 2026-11-27 22:40 and 2026-11-28 01:55 UTC, because "
    )


def test_where_there_is_no_room_the_figures_beside_the_rows_give_way() -> None:
    (row,) = [line for line in lines(CASES["alone, of one disk on the node itself"], 40) if line.startswith("vda")]
    assert re.fullmatch(r"vda  [·█]{35}", row)


def test_a_limit_is_raised_on_its_node() -> None:
    hold = "plimsoll disk hold add u1 vdb --for 2h --set total_iops_sec=N --reason TEXT"
    case = a_case(a_disk("vdb", *around(AT_LIMIT)))
    assert f"next: ssh node7 {hold}" in lines(case)
    assert f"next: {hold}" in lines(replace(case, node=None))


def test_a_limit_that_is_reduced_is_no_promise_and_has_no_hold() -> None:
    reduced = replace(AT_LIMIT, allowed=250, desired=500)
    said = lines(a_case(a_disk("vdb", *around(reduced), volume=VOLUME)))
    assert said[0].startswith("web-29 vdb was slow because of its own LIMIT, 250 IOPS, reduced from 500 IOPS   2026")
    assert [line for line in said if line.startswith("next: ")] == ["next: ssh node7 plimsoll disk explain u1 vdb"]
    sentence = f'tenant: "Your volume {VOLUME} used all of its 250 IOPS, reduced from 500 IOPS, between '
    assert said[-1].startswith(sentence)


def test_a_volume_that_another_one_replaced_is_told_by_its_id_and_has_no_hold() -> None:
    disk, diagnosis = a_disk("vdb", *around(AT_LIMIT), volume=VOLUME)
    said = lines(a_case((replace(disk, replaced=True), diagnosis), a_disk("vdb", *[CALM] * 288)))
    name = f"vdb ({VOLUME[:8]})"
    assert said[0].startswith(f"web-29 {name} was slow because of its own LIMIT, 500 IOPS")
    assert any(line.startswith(f"{name}  ·") for line in said)
    assert "not slow: vdb" in said
    assert not any(line.startswith("next: ") for line in said)


def test_each_row_is_told_by_its_characters_and_not_by_colour_alone() -> None:
    case = CASES["its own limit, and then nothing known"]
    coloured = [*answer.lines(case, Terminal(80, colour=True))]
    assert plain("\n".join(coloured)) == lines(case, 80)
    row = next(line for line in coloured if "▓" in line)
    assert re.search(r"\x1b\[33m▓+\x1b\[0m\x1b\[1;35m\?+\x1b\[0m·", row)
    assert re.search(r"\x1b\[33mLIMIT\x1b\[0m", coloured[0])


def test_where_blocks_cannot_be_shown_the_rows_are_ascii() -> None:
    for case in CASES.values():
        rows = [line for line in lines(case, 80, blocks=False) if re.match(r"vd|  +[.?#=] ", line)]
        assert all(line.replace("→", "").isascii() for line in rows)
    (row,) = [
        line for line in lines(CASES["its own limit, and then nothing known"], 80, blocks=False) if "==" in line
    ]
    assert re.fullmatch(r"vda  \.+=+\?+\.+  limit 500 IOPS", row)


def test_no_name_speaks_to_the_terminal() -> None:
    case = a_case(a_disk("vda", *around(BESIDE_LOUD)), server="x\x1b[2J\n")
    for one in (case, replace(case, names={"u9": "y\x1b[2J"}), replace(case, node=("n", "z\x1b[2J"))):
        assert all(line.isprintable() for line in lines(one, 80))
