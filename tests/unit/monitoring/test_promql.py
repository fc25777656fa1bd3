"""Questions to Prometheus: what a person typed chooses series, and never becomes a part of the question."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.errors import UsageError
from plimsoll_monitoring.promql import SeriesSelection, any_of, quote
from tests.unit.values import examples

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
# A string of Go, of which PromQL's are: no quote, backslash or line's end as it is, and only escapes that Go
# knows, which no half of a pair is.
GO_STRING = re.compile(r'"(?:[^"\\\n]|\\[abfnrtv\\"]|\\u(?!d[89a-f])[0-9a-f]{4})*"')


def pattern(matcher: str, label: str) -> re.Pattern[str]:
    """The pattern that a matcher holds a label against; RE2 reads these as Python does."""
    found = re.fullmatch(rf'{label}=~(".*")', matcher, re.DOTALL)
    assert found is not None
    return re.compile(json.loads(found[1]), re.DOTALL)


@examples
@given(TEXT)
def test_any_text_is_quoted_as_go_reads_it_and_comes_back_the_same(text: str) -> None:
    assert GO_STRING.fullmatch(quote(text))
    assert json.loads(quote(text)) == text


@examples
@given(TEXT, TEXT)
def test_a_value_that_is_asked_for_matches_itself_and_no_other(text: str, other: str) -> None:
    asked = pattern(any_of("project", [text]), "project")
    assert asked.fullmatch(text)
    assert bool(asked.fullmatch(other)) == (text == other)


@pytest.mark.parametrize(
    ("node", "instance", "meant"),
    [
        ("compute-17", "compute-17", True),
        ("compute-17", "compute-17:9100", True),
        ("compute-17", "compute-17.example.org:9100", True),
        ("compute-17", "compute-170:9100", False),
        ("compute-17", "xcompute-17:9100", False),
        ("compute-1", "compute-17", False),
        ("compute.17", "compute-17", False),
        ("compute-17:9100", "compute-17:9100", True),
        ("compute-17:9100", "compute-17:9101", False),
        ("fd00::17", "[fd00::17]:9100", True),
        ("fd00::17", "fd00::17", True),
        ("[fd00::17]", "[fd00::17]:9100", True),
        ("fd00::17", "[fd00::170]:9100", False),
        ("fd00::17", "[2001:fd00::17]:9100", False),
        ("[fd00::17]:9100", "[fd00::17]:9100", True),
        ("[fd00::17]:9100", "[fd00::17]:9101", False),
    ],
)
def test_a_node_is_meant_by_its_host_or_by_its_whole_instance(node: str, instance: str, meant: bool) -> None:
    (matcher,) = re.findall(r'instance=~".*"', SeriesSelection(nodes=(node,)).matchers())
    assert bool(pattern(matcher, "instance").fullmatch(instance)) == meant


def test_type_and_project_are_asked_of_series_that_have_them_only() -> None:
    selection = SeriesSelection(region="r1", nodes=(), types=("gold",), projects=("p1",))
    assert selection.matchers() == '{region="r1"}'
    assert selection.matchers('state="x"', types=True) == '{region="r1", volume_type=~"gold", state="x"}'
    assert selection.matchers(projects=True) == '{region="r1", project=~"p1"}'


def test_a_word_that_is_no_text_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="is not UTF-8"):
        SeriesSelection(region="\udcff").matchers()
