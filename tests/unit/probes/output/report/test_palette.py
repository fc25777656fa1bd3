"""The colours of a report can be told apart by everybody, on light pages and on dark ones."""

from __future__ import annotations

from itertools import combinations

import pytest

from plimsoll_probes.model.finding import Verdict
from plimsoll_probes.output.report import palette
from plimsoll_probes.output.report.gathered import UNJUDGED
from tests.unit.colours import DEFICIENCIES, Triple, ciede2000, contrast, seen_difference

THEMES = pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])


@THEMES
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_no_two_verdicts_look_alike_to_anybody(deficiency: str, theme: int) -> None:
    colours = [(name, both[theme]) for name, both in palette.VERDICTS.items()]
    for (name, one), (another, other) in combinations(colours, 2):
        assert seen_difference(one, other, deficiency) >= 25, (name, another)


@THEMES
def test_every_colour_can_be_seen_on_the_page(theme: int) -> None:
    """3 to 1 is what WCAG 2.1 asks of graphics, 4.5 of text."""
    paper = palette.PAPER[theme]
    for name, both in palette.VERDICTS.items():
        assert contrast(both[theme], paper) >= 3, name
    for name in set(palette.LINES) - {"paper", "line", "beyond"}:
        assert contrast(palette.LINES[name][theme], paper) >= (4.5 if name in ("ink", "faint") else 3), name
    assert contrast(palette.HEAT, paper) >= 3


def test_every_verdict_has_a_colour() -> None:
    assert {"unjudged" if each in UNJUDGED else each.value for each in Verdict} == set(palette.VERDICTS)


def test_figures_are_drawn_in_colours_that_tell_their_names() -> None:
    light = [colour for colour, _ in palette.LINES.values()]
    assert len(set(light)) == len(light)


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
        ((50.0, 2.49, -0.001), (50.0, -2.49, 0.0011), 7.2195),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((22.7233, 20.0904, -46.694), (23.0331, 14.973, -42.5619), 2.0373),
        ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_differences_are_those_of_the_paper_that_defines_them(one: Triple, other: Triple, difference: float) -> None:
    """From table 1 of Sharma, Wu and Dalal, 2005."""
    assert ciede2000(one, other) == pytest.approx(difference, abs=1e-4)


def test_black_on_white_has_the_greatest_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
