"""The pages of ``hist``, ``slow`` and ``drill report`` in a real browser: on a phone, light, dark, and on paper."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.command import Forked
from plimsoll_insight.drill.recording import RecordingWriter
from plimsoll_insight.figures.page import FigureTable
from plimsoll_insight.figures.page import page as page_of
from tests.functional.browser import CHROMIUM, Tab, browser, greys
from tests.functional.conftest import ended
from tests.functional.test_hist import SAMPLES
from tests.functional.test_slow import LOGS, TREE
from tests.unit.insight.drill.recorded import BEGAN, drill, probed, write

PHONE, DESK = 320, 1280
A4 = (688, 1017)
"""In pixels of 1/96 inch: what is left of it within margins of 14 mm."""

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium on this machine")


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def of_many_osds(directory: Path) -> tuple[str, ...]:
    """60 OSDs on 12 hosts, over two hours, in which each host has slow requests now and then."""
    line = "2026-11-21T{:02}:{:02}:{:02}.0+0000 osd.{osd} (osd.{osd}) 4 : cluster [WRN]"
    line += " {n} slow requests (by type [ 'delayed' : {n} ])\n"
    lines = [
        line.format(10 + minute // 60, minute % 60, osd, osd=osd, n=1 + (osd * minute) % 7)
        for minute in range(120)
        for osd in range(60)
        if minute % 20 == osd // 5
    ]
    (directory / "ceph.log").write_text("".join(lines))
    tree = ["ID  CLASS  WEIGHT  TYPE NAME\n", "-1  60.0  root default\n"]
    for host in range(12):
        tree.append(f"-{host + 2}  5.0      host ceph-storage-rack2-{host:02}.example\n")
        tree += [f"{osd}  hdd  1.0          osd.{osd}  up  1.0  1.0\n" for osd in range(5 * host, 5 * host + 5)]
    (directory / "tree").write_text("".join(tree))
    return "slow", str(directory / "ceph.log"), "--tree", str(directory / "tree")


def of_a_drill(directory: Path) -> tuple[str, ...]:
    write(directory / "drill", drill(), disks=12)
    probed(directory / "drill", len(drill()))
    RecordingWriter.more(directory / "drill").write(BEGAN + 20, {"mark": "OSDs of host-3 stopped", "by": "root"})
    return "drill", "report", str(directory / "drill")


@pytest.fixture(scope="module", params=["hist", "slow", "slow of many", "drill"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its address."""
    directory = tmp_path_factory.mktemp("figures")
    words = {
        "hist": ("hist", str(SAMPLES)),
        "slow": ("slow", *LOGS, "--tree", TREE, "--interval", "1s"),
        "slow of many": of_many_osds(directory),
        "drill": of_a_drill(directory),
    }[request.param]
    (directory / "plimsoll.conf").write_text(f"[DEFAULT]\nstate_dir = {directory}/state\n")
    made = directory / "figures.html"
    with Forked(
        "--config-file", directory / "plimsoll.conf", *words, "--plot", str(made),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", env=os.environ,
    ) as process:  # fmt: skip
        ran = ended(process)
    assert (ran.status, ran.err) == (0, "")
    return made.as_uri()


def test_the_page_needs_nothing_else_and_fits_a_phone(tab: Tab, page: str) -> None:
    tab.open(page, PHONE)
    assert tab.value("document.documentElement.scrollWidth") <= PHONE
    rows = tab.value("[...document.querySelectorAll('tr')].map(each => each.clientHeight)")
    assert max(rows, default=0) <= 60, "words are in a column of letters"
    seen = tab.value("[...document.images].map(each => each.complete && each.naturalWidth > 100)")
    assert len(seen) >= 2
    assert all(seen)
    assert [each for each in tab.requests if not each.startswith(("file:", "data:"))] == []
    assert tab.complaints == []


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_figures_are_as_dark_as_the_page(tab: Tab, page: str, scheme: str) -> None:
    tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    try:
        tab.open(page, DESK)
        found = [greys(tab, number) for number in range(tab.value("document.images.length"))]
    finally:
        tab.ask("Emulation.setEmulatedMedia", features=[])
    for usual, darkest, lightest in found:
        assert usual < 40 if scheme == "dark" else usual > 250
        # Letters stand out, in any of them.
        assert lightest > 220 if scheme == "dark" else darkest < 45


def test_on_paper_figures_are_light_and_whole(tab: Tab, page: str) -> None:
    """Also where the reader's screen is dark."""
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    tab.ask("Emulation.setEmulatedMedia", media="print", features=dark)
    try:
        tab.open(page, A4[0])
        assert tab.value("document.documentElement.scrollWidth") <= A4[0]
        sizes = tab.value("[...document.images].map(each => [each.getBoundingClientRect().right, each.clientHeight])")
        first = tab.value("document.images[0].getBoundingClientRect().bottom + scrollY")
        printed = tab.ask("Page.printToPDF", paperWidth=8.5, paperHeight=11)["data"]  # Letter, shorter than A4
        found = [greys(tab, number) for number in range(len(sizes))]
    finally:
        tab.ask("Emulation.setEmulatedMedia", media="", features=[])
    pages = len(re.findall(rb"/Type /Page\b", base64.b64decode(printed)))
    assert first <= A4[1], "the first page has the sentences alone"
    assert 1 <= pages <= len(sizes) + 1, "figures, and behind them tables"
    assert all(right <= A4[0] and 100 < height <= A4[1] for right, height in sizes), sizes
    assert all(usual > 250 and darkest < 45 for usual, darkest, _ in found)


def test_on_paper_a_table_of_many_columns_loses_none(tab: Tab, tmp_path: Path) -> None:
    heads = ["PROJECT", "NAME", *(f"DISKS {number}" for number in range(12)), "LONGEST"]
    table = FigureTable("The worst first", heads, [["76f321b2fd294e5fa90eb0525110f9e2", *["43 ms–40 min"] * 14]])
    (tmp_path / "page.html").write_bytes(page_of("Replay", ["Of 12 disks: 4 worse off."], [], [table]))
    tab.ask("Emulation.setEmulatedMedia", media="print")
    try:
        tab.open((tmp_path / "page.html").as_uri(), A4[0])
        assert tab.value("document.documentElement.scrollWidth") <= A4[0]
    finally:
        tab.ask("Emulation.setEmulatedMedia", media="")
