"""The report's page: whole, harmless whatever guests are called, and small whatever their number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from plimsoll_probes.model.finding import Why
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.output.report.gathered import gather
from plimsoll_probes.output.report.page import (
    MOST_CARDS,
    MOST_LINES,
    MOST_TYPES,
    MOST_WORST,
    Reader,
    ReportOrigin,
    WaitingTargets,
    page,
)
from plimsoll_probes.output.report.span import ReportPeriod
from plimsoll_probes.schedule.late import Late
from tests import depth
from tests.unit.probes.output.report.test_gathered import FAILED, INCONCLUSIVE, KEPT, OVER, SHORT, SLOW, gathered, run
from tests.unit.probes.schedule.test_late import a_target
from tests.unit.results import HOSTILE, MS, a_flow, a_measurement, a_subject
from tests.unit.values import NOON

MADE = ReportOrigin(node="node1", version="1.2.3", guest=None, job=None)
NASTY = '$x^2$</title></svg><script>alert(1)</script><img src=x onerror="alert(2)">&amp;'


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a page, and test_report_plots sees it."""
    for name in ("guest_svg", "type_svg"):
        monkeypatch.setattr(f"plimsoll_probes.output.report.page.{name}", lambda *_: b"<svg/>")


class Parsed(HTMLParser):
    """Tags, attributes, and what a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self._hidden = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._hidden += tag in ("style", "title")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "title")

    def handle_data(self, data: str) -> None:
        self.text += "" if self._hidden else data

    @property
    def said(self) -> str:
        return " ".join(self.text.split())

    @property
    def images(self) -> int:
        return self.tags.count("img")


def made(*runs: ProbeResult, waiting: WaitingTargets | None = None, how: ReportOrigin = MADE) -> str:
    def of_guest(uuid: str) -> Sequence[ProbeResult]:
        return [each for each in reversed(runs) if each.subject.guest_uuid == uuid]

    told = gathered(*runs)
    return page(told, waiting or WaitingTargets(), Reader(of_guest, lambda result: (result.started, None)), how)


def read(*runs: ProbeResult, waiting: WaitingTargets | None = None, how: ReportOrigin = MADE) -> Parsed:
    return Parsed(made(*runs, waiting=waiting, how=how))


def named(name: str, hours_ago: float = 3, finding: object = SHORT) -> ProbeResult:
    subject = a_subject(guest_name=name, display_name=name, volume_type=name, directory=name, target=name)
    result: ProbeResult = run(hours_ago, finding, subject=subject)  # type: ignore[arg-type]
    return result


def a_postponed(name: str = "instance-00000009") -> Postponed:
    return Postponed(
        at=NOON,
        node="node1",
        guest_uuid="u9",
        guest_name=name,
        directory="/srv",
        why=Why.UNHEALTHY,
        facts={"detail": name},
    )


def test_no_name_of_a_guest_becomes_markup() -> None:
    nasty = NASTY.replace("&amp;", "")
    waiting = WaitingTargets([a_postponed(nasty)])
    parsed = read(
        named(nasty),
        named(nasty, 2, FAILED),
        waiting=waiting,
        how=ReportOrigin(node=nasty, version="1", guest=nasty, job=None),
    )
    harmless = read(
        named("x"),
        named("x", 2, FAILED),
        waiting=WaitingTargets([a_postponed("x")]),
        how=ReportOrigin(node="x", version="1", guest="x", job=None),
    )
    assert parsed.tags == harmless.tags
    assert nasty in parsed.text
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]


def test_what_is_text_already_is_not_escaped_twice() -> None:
    assert NASTY in read(named(NASTY)).text


def test_characters_that_a_page_cannot_show_become_question_marks() -> None:
    text = made(named(HOSTILE))
    assert "a?[2J?b?c?d?e?f" in text
    assert not [character for character in "\x1b\x07\u202e\u2028" if character in text]


def test_a_page_asks_for_nothing_from_anywhere() -> None:
    text = made(run(3), run(2, SHORT))
    parsed = Parsed(text)
    references = [value for name, value in parsed.attributes if name in ("src", "href", "srcset", "action", "data")]
    assert references
    assert not [each for each in references if not each.startswith(("data:", "#"))]
    assert "script" not in parsed.tags
    assert "url(" not in text
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in parsed.attributes


def test_every_figure_has_words_for_who_cannot_see_it() -> None:
    parsed = read(run(3), run(2, SHORT))
    texts = [value for name, value in parsed.attributes if name == "alt"]
    assert len(texts) == parsed.images == 2
    assert all(texts)


def test_the_headline_comes_first_and_is_the_title_too() -> None:
    text = made(run(3), run(2, SHORT, "b"))
    assert text.startswith("<!DOCTYPE html>")
    headline = "1 of 2 guests does not get what was promised"
    assert f"<h1>{headline}</h1>" in text
    assert f"<title>{headline}" in text


def test_a_row_of_the_worst_says_who_why_how_much_and_since_when() -> None:
    said = read(run(3, SHORT)).said
    for part in (
        "canary instance-a, vdb, /var/tmp",
        "gold",
        "short : 38 % of limit 250 IOPS",
        "0.3 of 250 (0.1 %)",
        "41 ms",
        "1 of 1",
        "2026-11-20 09:00 UTC",
        "since 2026-11-20 09:00 UTC",
    ):
        assert part in said.replace("short: ", "short : "), part


def test_an_unknown_latency_is_no_number() -> None:
    stuck = a_measurement(a_flow([20_000 * MS] * 10, slowest=21_000 * MS))
    parsed = read(run(3, SHORT, measured=stuck))
    assert "> 17 s" in parsed.said
    assert "17.2 s" not in parsed.said
    assert "17.18" not in parsed.said


def test_what_is_not_judged_stands_apart_with_its_reason() -> None:
    said = read(run(3), run(2, FAILED, "b"), run(1, INCONCLUSIVE, "c")).said
    assert ", 1 inconclusive" in said.split("Not among these 1: 0 reduced")[1]
    before, after = said.split("Not judged")
    assert "instance-c" not in before
    assert "the guest was migrated during the run" in after
    assert "1 in the figures, 2 left out of them" in after


def test_a_guest_whose_probes_fail_is_in_trouble_now_with_the_reason_once() -> None:
    failed = (run(3 - number, FAILED, job=job) for number, job in enumerate(JobName))
    said = read(run(9), run(4, KEPT, "b"), *failed).said
    now = said.split("In trouble now (1)")[1].split("Of the others")[0]
    assert "failed: fio is missing: install fio in the guestmixed, also write and read" in now
    assert said.count("fio is missing") == 1
    assert said.startswith("1 of 2 guests gets what was promised; 1 not measured: its probe failed")


def test_jobs_that_are_inconclusive_alike_are_one_line() -> None:
    text = made(*(run(3 - number, INCONCLUSIVE, job=job) for number, job in enumerate(JobName)))
    assert text.count("was migrated") == 1
    assert "mixed, write, read" in text


def test_who_was_not_probed_though_it_was_time_is_told() -> None:
    late = Late(a_target(since=timedelta(days=3)), None)
    said = read(run(3), waiting=WaitingTargets([a_postponed()], [late])).said
    assert "1 probe is postponed. 1 probe is overdue." in said
    assert "never begun, chosen since 2026-11-17 12:00 UTC" in said
    assert "Ceph is unhealthy" in said


def test_a_page_without_runs_says_so_and_what_to_do() -> None:
    parsed = read(how=ReportOrigin(node="node1", version="1.2.3", guest="web", job="read"))
    assert "No probes in this time" in parsed.said
    assert "No guest web was probed with the job read between" in parsed.said
    assert "plimsoll probe timetable" in parsed.said
    assert "only guest web, job read" in parsed.said
    assert "Verdicts" not in parsed.said
    assert parsed.images == 0


def test_where_only_failures_are_there_are_no_empty_figures() -> None:
    parsed = read(run(3, FAILED))
    assert "Not measured: the guest's newest probe failed" in parsed.said
    assert parsed.images == 0
    assert "fio is missing" in parsed.said


def test_hundreds_of_guests_in_trouble_stay_a_page_that_can_be_read() -> None:
    number = depth.count(quick=100, landing=500, soak=5000)
    trouble = [
        run(3, SHORT, f"g{each:03}", subject=a_subject(guest_uuid=f"g{each}", volume_type=f"type{each % 40}"))
        for each in range(number)
    ]
    text = made(*trouble, *(run(2, INCONCLUSIVE, f"f{each:03}") for each in range(50)))
    parsed = Parsed(text)
    assert len(text) < 3_000_000
    assert parsed.images == MOST_TYPES + MOST_CARDS
    assert text.count('<td class="who">') == MOST_WORST + 10
    assert text.count('<div class="strip">') == MOST_LINES
    for count in (
        f"{number - MOST_WORST} more are in trouble now.",
        f"{number - MOST_LINES} more guests are in the first line only",
        f"{40 - MOST_TYPES} more volume types",
        f"{number - MOST_CARDS} more have no figure",
        "40 more:",
    ):
        assert count in parsed.said, count


def test_where_no_guest_is_in_trouble_the_slowest_are_looked_at() -> None:
    slow = a_measurement(a_flow([900 * MS] * 10))
    runs = [run(3, guest=f"quick{number}") for number in range(5)]
    text = made(*runs, run(3, guest="slow", measured=slow))
    assert "The slowest guests" in text
    assert "The worst guests" not in text
    first = text.split("The slowest guests")[1].split("<figure>")[1]
    assert "instance-slow" in first


def test_colours_are_not_all_that_tells_the_verdicts_apart() -> None:
    """Marks of verdicts that are judged differ in place and height, and each has its word."""
    text = made(run(3, KEPT), run(2, SHORT, "b"))
    keys = re.findall(
        r'<rect class="([\w-]+)" x="0" y="(\S+)" width="1" height="(\S+)"><title>([\w-]+)</title>', text
    )
    shapes = {kind: (top, height) for kind, top, height, word in keys if kind == word}
    judged = {"kept", "short", "slow", "over-limit", "no-limit"}
    assert judged <= set(shapes)
    assert len({shapes[kind] for kind in judged}) == len(judged)


def test_the_verdicts_come_first_and_every_part_can_be_gone_to() -> None:
    text = made(run(3, SHORT), run(2, INCONCLUSIVE, "b"), *(run(9, SHORT, "c"), run(1, KEPT, "c")))
    parts = re.findall(r'<section id="(\w+)">', text)
    assert parts[:3] == ["time", "now", "well"]
    assert re.findall(r'<a href="#(\w+)">', text) == parts
    assert "verdicts" in re.findall(r'id="(\w+)"', text)


def test_who_is_well_again_is_apart_from_who_is_in_trouble_and_collapsed() -> None:
    recovered = [each for number in range(20) for each in (run(9, SHORT, f"r{number}"), run(1, KEPT, f"r{number}"))]
    text = made(run(3, SLOW, "b"), *recovered)
    now, well = text.split('<section id="now">')[1].split('<section id="well">')
    assert now.count('class="who"') == 1
    assert now.lstrip().startswith("<details open>")
    assert well.lstrip().startswith("<details>")
    assert "5 more were in trouble and are well again." in well
    assert "more are in trouble" not in text
    assert text.split('<section id="time">')[1].index("instance-b") < text.index('<section id="now">')


def test_a_row_shows_its_verdict_as_the_timeline_does() -> None:
    row = made(run(3, SLOW)).split('class="why"')[1].split("</td>")[0]
    assert '<rect class="slow"' in row
    assert '<span class="word">slow</span>' in row


def test_what_is_not_judged_has_its_mark_too() -> None:
    assert '<rect class="inconclusive"' in made(run(3, INCONCLUSIVE)).split('class="why"')[1].split("</td>")[0]


def test_verdicts_come_with_the_most_urgent_first() -> None:
    rows = re.findall(r'<td class="word">.*?</span>([\w-]+)</td>', made(run(3)), re.DOTALL)
    assert rows == ["short", "slow", "over-limit", "kept", "no-limit"]


def test_no_line_breaks_in_a_date_an_option_or_before_a_unit() -> None:
    text = made(run(3, SLOW), run(2, OVER, "b"))
    unbroken = re.findall('<span class="one">([^<]*)</span>', text)
    assert {"1.4 s", "50 ms", "2026-11-20", "--verify", "250 IOPS"} <= set(unbroken)


def test_the_timeline_begins_and_ends_when_the_report_does() -> None:
    """Columns of 8 h begin at 00:00, 08:00 and 16:00; the report at 11:00. What is before would look like a gap."""
    hour = timedelta(hours=1)
    span = ReportPeriod(NOON - timedelta(days=7) - hour, NOON - hour, 8 * hour)
    told = gather([run(3)], span, {}, {})
    text = page(told, WaitingTargets(), Reader(lambda uuid: [], lambda result: None), MADE)
    assert set(re.findall(r'<div class="strip[^"]*">\s*<svg viewBox="([^"]*)"', text)) == {"0.375 0 21 20"}
    days = re.findall(r'<span style="left: ([\d.]+)%"><time>([^<]+)</time>', text)
    assert days[0] == (f"{100 * 13 / (7 * 24):.2f}", "14 Nov")


def test_the_page_says_how_it_was_made() -> None:
    parsed = read(run(3), how=ReportOrigin(node="r2-n14", version="1.2.3", guest=None, job=None))
    assert "on node r2-n14, plimsoll 1.2.3" in parsed.said
    assert "2026-11-19 12:00 to 2026-11-20 12:00 UTC (1 d)" in parsed.said
