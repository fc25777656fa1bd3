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

from plimsoll_probes.history import History
from plimsoll_probes.job import JobName
from tests.functional.browser import CHROMIUM, Tab, browser
from tests.unit.probes import MS, a_flow, a_measurement, a_subject
from tests.unit.test_report_gathered import DISCARDED, FAILED, KEPT, OVER, SHORT, SLOW, run

NASTY = '$x^2$</title><script>document.title="mine"</script><img src=http://127.0.0.1:9/x onerror="document.title=1">'
LONG = "a-name-without-any-end-" * 10
GUESTS = {"plain": SHORT, NASTY: SLOW, LONG: OVER, "批处理 בדיקה": KEPT, "broken": FAILED, "moved": DISCARDED}
PHONE, DESK = 390, 1280

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
    now = datetime.now(UTC)
    stuck = a_measurement(a_flow([20_000 * MS] * 10))
    for number, (name, finding) in enumerate(GUESTS.items()):
        subject = a_subject(guest_uuid=f"u{number}", guest_name=name, display_name=name, volume_type=name)
        for hours, job in zip((90, 40, 3), JobName, strict=True):
            measured = {"measured": stuck} if finding is SHORT else {}
            history.add(run(1, finding, subject=subject, started=now - timedelta(hours=hours), job=job, **measured))
    return report(directory)


def report(directory: Path, **environment: str) -> str:
    """What the installed command makes of the history in that directory, as a person would have it made."""
    output, settings = directory / "report.html", directory / "plimsoll.conf"
    settings.write_text(f"[DEFAULT]\nstate_dir = {directory}\n")
    words = ["--config-file", str(settings), "probe", "report", "--since", "7d", "-o", str(output)]
    command = Path(sys.executable).with_name("plimsoll")
    ran = subprocess.run(
        [str(command), *words], capture_output=True, encoding="utf-8", timeout=60, env=os.environ | environment
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""
    *first, last = ran.stderr.splitlines()
    assert last.startswith(f"{output}: ")
    assert first in ([], ["nothing was probed on this node yet; see: plimsoll probe run"])
    return output.as_uri()


def test_it_asks_for_nothing_and_the_console_is_silent(tab: Tab, page: str) -> None:
    """Its own policy forbids a request; none is tried, and nothing of the page falls under it."""
    tab.open(page, DESK)
    assert [each for each in tab.requests if not each.startswith("data:")] == [page]
    assert tab.complaints == []


def test_no_name_of_a_guest_runs_or_is_lost(tab: Tab, page: str) -> None:
    tab.open(page, DESK)
    assert tab.value("document.title").startswith("2 of 4 guests do not get what was promised")
    assert tab.value("document.scripts.length") == 0
    for name in GUESTS:
        assert name in tab.value("document.body.innerText"), name


def test_every_figure_can_be_seen(tab: Tab, page: str) -> None:
    tab.open(page, DESK)
    loaded = "[...document.images].map(each => each.complete && each.naturalWidth > 100)"
    assert tab.value(loaded) == [True] * 7  # four types of which something was judged, and three guests in trouble


@pytest.mark.parametrize("width", [320, PHONE, 768, 1060, DESK])
def test_nobody_has_to_scroll_sideways(tab: Tab, page: str, width: int) -> None:
    tab.open(page, width)
    assert tab.value("document.documentElement.scrollWidth") <= width
    everything = "[...document.querySelectorAll('body *')]"
    beyond = f"{everything}.filter(each => each.getBoundingClientRect().right > {width} + 1)"
    assert tab.value(f"{beyond}.map(each => each.outerHTML.slice(0, 80))") == []


def test_letters_can_be_read_on_a_telephone(tab: Tab, page: str) -> None:
    """The text of the page at 11 px and more; that of figures, which shrink to the screen, at no less than 7."""
    tab.open(page, PHONE)
    sizes = "[...document.querySelectorAll('main *')].map(each => parseFloat(getComputedStyle(each).fontSize))"
    assert tab.value(f"Math.min(...{sizes})") >= 11
    scale = tab.value("Math.min(...[...document.images].map(each => each.clientWidth / each.naturalWidth))")
    assert 8 * 96 / 72 * scale >= 7


def test_what_is_the_matter_is_on_the_first_screen_of_a_telephone(tab: Tab, page: str) -> None:
    tab.open(page, PHONE, 844)
    assert tab.value("document.querySelector('h1').getBoundingClientRect().bottom") < 844 / 3
    assert tab.value("document.querySelector('.cards td').getBoundingClientRect().top") < 844


def test_it_can_be_printed(tab: Tab, page: str) -> None:
    tab.open(page, DESK)
    pdf = base64.b64decode(tab.ask("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"])
    assert pdf.startswith(b"%PDF-")
    assert 2 <= pdf.count(b"/Type /Page\n") <= 15


def test_a_node_on_which_nothing_was_probed_has_a_page_that_says_so(tab: Tab, tmp_path: Path) -> None:
    tab.open(report(tmp_path), PHONE)
    assert tab.complaints == []
    assert tab.value("document.querySelector('h1').innerText") == "Nothing was probed in this time"
    assert "plimsoll probe run" in tab.value("document.body.innerText")
    assert tab.value("document.documentElement.scrollWidth") <= PHONE


def test_the_first_report_on_a_machine_is_as_quiet_as_any(page: str, tmp_path: Path) -> None:
    """matplotlib looks for fonts then, and would tell of it; and of a home that it may not write to."""
    node = Path(page.removeprefix("file://")).parent
    report(node, MPLCONFIGDIR=str(tmp_path / "new"))
    report(node, MPLCONFIGDIR="/dev/null/nowhere")
