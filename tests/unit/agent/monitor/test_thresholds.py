"""The figures that a node is judged by: their names, and the ranges that an operator may write."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nagiosplugin import Range

from plimsoll_agent.config import settings as config
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.monitor.thresholds import MEASURE, MEASURES, SHIPPED, alarms, checked_range
from tests.unit.values import examples

near_ranges = st.text(alphabet="@~:.-+0159e ", max_size=8)


@examples
@given(text=near_ranges | st.text(max_size=6), value=st.floats(-20, 20))
@example(text="5.:", value=0)
@example(text="٣:", value=0)
@example(text="@~:", value=0)
@example(text="@5:10", value=5)
@example(text="5", value=-1)
def test_whatever_is_taken_for_a_range_means_to_nagios_what_it_means_here(text: str, value: float) -> None:
    try:
        taken = checked_range(text)
    except ValueError:
        return
    assert alarms(taken, value) == (taken != "" and not Range(taken).match(value))


@pytest.mark.parametrize("text", ["10", "5:", "~:10", "5:10", "@5:10", "-5:-1", "0.5", "~:0.5", "", "  10 "])
def test_the_forms_that_nagios_documents_are_taken(text: str) -> None:
    assert checked_range(text) == text.strip()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", "900"), ("1m:1h30m", "60:5400"), ("@~:1d", "@~:86400"), ("900", "900"), ("10s:", "10:"), ("", "")],
)
def test_a_range_of_seconds_may_have_units_and_nagios_gets_seconds(text: str, seconds: str) -> None:
    assert checked_range(text, "s") == seconds


@pytest.mark.parametrize("text", ["15m", "1h:"])
def test_a_count_has_no_units(text: str) -> None:
    with pytest.raises(ValueError, match="is not a range"):
        checked_range(text)


@pytest.mark.parametrize("text", ["15w", "1h:1m", "m", "1.5h", "0s0"])
def test_what_is_no_range_of_durations_is_refused_as_it_was_written(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is not a range: write 15m"):
        checked_range(text, "s")


def test_each_figure_has_one_row_of_its_own() -> None:
    assert len({measure.name for measure in MEASURES}) == len(MEASURES) == len(MEASURE) == len(SHIPPED)
    assert {measure.subject for measure in MEASURES} == {"agent", "limits", "probe"}


def test_an_operator_can_set_each_range_and_those_not_set_are_the_shipped_ones(tmp_path: Path) -> None:
    conf = tmp_path / "plimsoll.conf"
    conf.write_text("[health]\nbraked_critical = 20\nunlimited_warning =\npass_age_warning = 15m\n")
    ranges = config.load([conf], []).health
    assert set(ranges) == set(MEASURE)
    assert (ranges["braked"].warning, ranges["braked"].critical) == (SHIPPED["braked"].warning, "20")
    assert ranges["unlimited"].warning == "", "empty is never"
    assert ranges["pass_age"].warning == "900"
    assert ranges["failed"] == SHIPPED["failed"]


def test_what_is_no_range_is_refused_where_the_settings_are_read(tmp_path: Path) -> None:
    conf = tmp_path / "plimsoll.conf"
    conf.write_text("[health]\nbraked_critical = many\n")
    with pytest.raises(ConfigError, match="braked_critical") as raised:
        config.load([conf], [])
    assert "is not a range: write 10" in str(raised.value)
