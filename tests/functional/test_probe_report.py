"""``plimsoll probe report`` in a real browser: it needs nothing else, fits a telephone, and can be printed."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_probes.model.job import JobName
from plimsoll_probes.store.history import History
from tests.functional.browser import CHROMIUM, Tab, browser, greys
from tests.measuring import unmeasured
from tests.unit.probes.output.report.test_gathered import FAILED, INCONCLUSIVE, KEPT, OVER, SHORT, SLOW, run
from tests.unit.results import MS, a_flow, a_measurement, a_subject

NASTY = '$x^2$</title><script>document.title="mine"</script><img src=http://127.0.0.1:9/x onerror="document.title=1">'
LONG = "a-name-without-any-end-" * 10
GUESTS = {"plain": SHORT, NASTY: SLOW, LONG: OVER, "批处理 בדיקה": KEPT, "broken": FAILED, "moved": INCONCLUSIVE}
PHONE, DESK = 390, 1280
AT = datetime(2026, 9, 30, 22, 58, tzinfo=UTC)
CLOCK = "from plimsoll_probes.cli import report; report.now = lambda: report.datetime.fromisoformat('{at}'); "
MAIN = "from plimsoll_agent.terminal.main import main; main()"

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium on this machine")


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report on guests in every state, whose names are as bad as they can be."""
    directory = tmp_path_factory.mktemp("node")
    history = History(directory / "probes.sqlite")
    stuck = a_measurement(a_flow([20_000 * MS] * 10))
    for number, (name, finding) in enumerate(GUESTS.items()):
        subject = a_subject(guest_uuid=f"u{number}", guest_name=name, display_name=name, volume_type=name)
        for hours, job in zip((90, 40, 3), JobName, strict=True):
            measured = {"measured": stuck} if finding is SHORT else {}
            history.add(run(1, finding, subject=subject, started=AT - timedelta(hours=hours), job=job, **measured))
    return report(directory)


def report(directory: Path, since: str = "7d", at: datetime = AT, **environment: str) -> str:
    """The address of what the command makes of the history in that directory at that time."""
    output, settings = directory / "report.html", directory / "plimsoll.conf"
    settings.write_text(f"[DEFAULT]\nstate_dir = {directory}\n")
    words = ["--config-file", str(settings), "probe", "report", "--since", since, "-o", str(output)]
    program = CLOCK.format(at=at.isoformat()) + MAIN
    ran = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        env=os.environ | environment,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""
    *first, last = ran.stderr.splitlines()
    assert last.startswith(f"{output}: ")
    assert first in ([], ["No probe has run on this node yet; see: plimsoll probe run"])
    return output.as_uri()


def test_it_asks_for_nothing_and_the_console_is_silent(tab: Tab, page: str) -> None:
    """Its own policy forbids a request; none is tried, and nothing of the page falls under it."""
    tab.open(page, DESK)
    assert [each for each in tab.requests if not each.startswith("data:")] == [page]
    assert tab.complaints == []


def test_no_name_of_a_guest_runs_or_is_lost(tab: Tab, page: str) -> None:
    tab.open(page, DESK)
    assert tab.value("document.title").startswith(
        "2 of 6 guests do not get what was promised, 1 gets more; 1 not measured"
    )
    assert tab.value("document.scripts.length") == 0
    for name in GUESTS:
        assert name in tab.value("document.body.innerText"), name


@pytest.fixture(scope="module")
def fifty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report on 50 guests: nine in trouble now, one ten days ago, most of the others well again."""
    directory = tmp_path_factory.mktemp("fifty")
    history = History(directory / "probes.sqlite")
    for number in range(50):
        name = f"server-{number}-of-a-tenant.example"
        subject = a_subject(
            guest_uuid=f"u{number}",
            guest_name=f"instance-{number:08x}",
            display_name=name,
            volume_type=f"type{number % 5}",
        )
        for hours in (240, 90, 3):
            bad = {240: number == 9, 90: 9 < number < 40, 3: number < 9}[hours]
            finding = (SHORT, SLOW, OVER)[number % 3] if bad else KEPT
            if hours == 240 or number != 9:
                history.add(run(1, finding, subject=subject, started=AT - timedelta(hours=hours, minutes=number)))
    return report(directory, "30d")


def test_fifty_guests_are_a_short_page_on_a_telephone(tab: Tab, fifty: str) -> None:
    tab.open(fifty, PHONE)
    assert tab.value("document.querySelector('h1').innerText").endswith("; 1 last known bad, 10 d ago")
    assert tab.value("document.documentElement.scrollHeight") < 6000
    assert tab.value("document.documentElement.scrollWidth") <= PHONE


def test_fifty_guests_in_trouble_are_no_longer_page(tab: Tab, tmp_path: Path) -> None:
    history = History(tmp_path / "probes.sqlite")
    for number in range(50):
        name = f"server-{number}-of-a-tenant.example"
        subject = a_subject(
            guest_uuid=f"u{number}",
            guest_name=f"instance-{number:08x}",
            display_name=name,
            volume_type=f"type{number % 7}",
        )
        finding = (SHORT, SLOW, OVER, FAILED)[number % 4]
        history.add(run(1, KEPT, subject=subject, started=AT - timedelta(hours=90, minutes=number)))
        history.add(run(1, finding, subject=subject, started=AT - timedelta(hours=3, minutes=number)))
    tab.open(report(tmp_path, "30d"), PHONE)
    assert tab.value("document.querySelector('h1').innerText").startswith("26 of 50 guests do not get")
    assert tab.value("document.documentElement.scrollHeight") < 6000


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_figure_is_as_dark_as_the_page(tab: Tab, fifty: str, scheme: str) -> None:
    tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    try:
        tab.open(fifty, DESK)
        usual, *_ = greys(tab)
    finally:
        tab.ask("Emulation.setEmulatedMedia", features=[])
    assert usual < 40 if scheme == "dark" else usual > 250


def test_every_figure_can_be_seen(tab: Tab, page: str) -> None:
    tab.open(page, DESK)
    loaded = "[...document.images].map(each => each.complete && each.naturalWidth > 100)"
    assert tab.value(loaded) == [True] * 7  # four types of which something was judged, and three guests in trouble


@pytest.mark.parametrize("width", [320, PHONE, 768, 1121, DESK])
def test_no_page_is_wider_than_its_screen(tab: Tab, page: str, width: int) -> None:
    tab.open(page, width)
    assert tab.value("document.documentElement.scrollWidth") <= width
    everything = "[...document.querySelectorAll('body *')]"
    beyond = f"{everything}.filter(each => each.getBoundingClientRect().right > {width} + 1)"
    assert tab.value(f"{beyond}.map(each => each.outerHTML.slice(0, 80))") == []


@pytest.mark.parametrize("since", ["1d", "7d", "30d"])
def test_a_time_of_the_scale_is_shown_whole_or_not_at_all(tab: Tab, page: str, since: str) -> None:
    """Whatever the time of day: it decides how near to the right edge the last label begins."""
    node = Path(page.removeprefix("file://")).parent
    for hours in (0, 4, 17):
        with unmeasured():
            made = report(node, since, AT + timedelta(hours=hours))
        tab.open(made, 320)
        assert tab.value("document.documentElement.scrollWidth") <= 320
        scale = "document.querySelector('.scale').getBoundingClientRect()"
        labels = "[...document.querySelectorAll('.scale time')].map(each => each.getBoundingClientRect())"
        shown = f"{labels}.filter(each => each.width && each.top < {scale}.bottom - 1)"
        assert tab.value(f"{shown}.length") >= 3
        assert tab.value(f"{shown}.every(each => each.right <= {scale}.right)")


def test_letters_can_be_read_on_a_telephone(tab: Tab, page: str) -> None:
    """The text of the page at 11 px and more; that of figures, which shrink to the screen, at no less than 7."""
    tab.open(page, PHONE)
    sizes = "[...document.querySelectorAll('main *')].map(each => parseFloat(getComputedStyle(each).fontSize))"
    assert tab.value(f"Math.min(...{sizes})") >= 11
    shown = "[...document.images].filter(each => each.clientWidth)"
    scale = tab.value(f"Math.min(...{shown}.map(each => each.clientWidth / each.naturalWidth))")
    assert 8 * 96 / 72 * scale >= 7


def test_what_is_the_matter_is_on_the_first_screen_of_a_telephone(tab: Tab, page: str) -> None:
    tab.open(page, PHONE, 844)
    assert tab.value("document.querySelector('h1').getBoundingClientRect().bottom") < 844 / 3
    assert tab.value("document.querySelector('.strip').getBoundingClientRect().top") < 844


def test_it_can_be_printed(tab: Tab, page: str) -> None:
    tab.open(page, DESK)
    pdf = base64.b64decode(tab.ask("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"])
    assert pdf.startswith(b"%PDF-")
    assert 2 <= pdf.count(b"/Type /Page\n") <= 15


def test_on_paper_everything_is_open_and_nothing_is_cut_or_pale(tab: Tab, fifty: str) -> None:
    """A4 without its margins is 688 px wide; also where the reader's screen is dark."""
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    tab.ask("Emulation.setEmulatedMedia", media="print", features=dark)
    try:
        tab.open(fifty, 688)
        assert tab.value("document.documentElement.scrollWidth") <= 688
        assert tab.value("[...document.images].every(each => each.clientHeight > 100)")
        usual, darkest, _ = greys(tab)
    finally:
        tab.ask("Emulation.setEmulatedMedia", media="", features=[])
    assert usual > 250
    assert darkest < 45


def test_a_node_on_which_nothing_was_probed_has_a_page_that_says_so(tab: Tab, tmp_path: Path) -> None:
    tab.open(report(tmp_path), PHONE)
    assert tab.complaints == []
    assert tab.value("document.querySelector('h1').innerText") == "No probes in this time"
    assert "plimsoll probe run" in tab.value("document.body.innerText")
    assert tab.value("document.documentElement.scrollWidth") <= PHONE


def test_the_first_report_on_a_machine_is_as_quiet_as_any(page: str, tmp_path: Path) -> None:
    """matplotlib looks for fonts then, and would tell of it; and of a home that it may not write to."""
    node = Path(page.removeprefix("file://")).parent
    with unmeasured():
        report(node, MPLCONFIGDIR=str(tmp_path / "new"))
        report(node, MPLCONFIGDIR="/dev/null/nowhere")
