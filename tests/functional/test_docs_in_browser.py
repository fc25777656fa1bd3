"""The documentation in a real browser: on a phone and on a desk, by day and in the dark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.browser import CHROMIUM, Tab, browser

DOCS = Path(__file__).parents[2] / "docs"
PHONE, DESK = 390, 1280
_SAMPLES_THAT_SCROLL = """JSON.stringify([...document.querySelectorAll("pre")]
    .filter(each => !each.closest(".picture") && each.scrollWidth > each.clientWidth + 1)
    .map(each => each.innerText.slice(0, 60)))"""
_COLOURS = """JSON.stringify(["p", "a.reference.internal", ".highlight pre"].map(name => {
    const found = document.querySelector("article " + name), ground = found.closest(".highlight") || document.body
    return getComputedStyle(found).color + " on " + getComputedStyle(ground).backgroundColor}))"""

pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium on this machine"),
    pytest.mark.usefixtures("programs_unmeasured"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("furo")
    if made_before := os.environ.get("PLIMSOLL_TEST_DOCS"):  # by script/test, from this tree
        return Path(made_before)
    made = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", DOCS, made], check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def test_no_page_is_wider_than_its_screen_and_no_sample_scrolls(tab: Tab, site: Path) -> None:
    wide = {}
    for page in sorted(DOCS.rglob("*.rst")):
        if "_build" not in page.parts:
            tab.open((site / page.relative_to(DOCS)).with_suffix(".html").as_uri(), DESK)
            for width in (DESK, PHONE):
                tab.set_width(width)
                over, samples = tab.value("document.documentElement.scrollWidth"), tab.value(_SAMPLES_THAT_SCROLL)
                if over > width or samples != "[]":
                    wide[page.name, width] = (over, samples)
    assert wide == {}


def test_a_sample_wraps_on_paper_too(tab: Tab, site: Path) -> None:
    tab.ask("Emulation.setEmulatedMedia", media="print")
    tab.open((site / "guide/when-things-go-wrong.html").as_uri(), DESK)
    wraps = tab.value("getComputedStyle(document.querySelector('pre')).whiteSpace")
    tab.ask("Emulation.setEmulatedMedia", media="")
    assert wraps in ("pre-wrap", "preserve")


def _luminance(colour: str) -> float:
    """By WCAG 2.1."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_samples_and_links_stand_out_by_day_and_in_the_dark(tab: Tab, site: Path, scheme: str) -> None:
    tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    tab.open((site / "tutorial.html").as_uri(), PHONE)
    for pair in json.loads(tab.value(_COLOURS)):
        text, ground = map(_luminance, re.findall(r"rgba?\([^)]*\)", pair))
        assert (ground < 0.05) == (scheme == "dark")
        assert (max(text, ground) + 0.05) / (min(text, ground) + 0.05) >= 4.5, pair
