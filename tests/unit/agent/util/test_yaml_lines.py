"""YAML as an operator means it, with a line for everything that is wrong."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from plimsoll_agent.util import yaml_lines
from plimsoll_agent.util.yaml_lines import DEEPEST, Document
from tests import golden
from tests.unit.values import examples

LOADERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])]


@pytest.fixture(params=LOADERS, ids=lambda loader: loader.__name__, autouse=True)
def _loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs on both of PyYAML's parsers."""
    monkeypatch.setattr(yaml_lines, "LOADER", request.param)


def load(text: str) -> Document:
    return yaml_lines.load(text, yaml_lines.LOADER)


def faults(text: str) -> list[tuple[int, str]]:
    return [(fault.line, fault.text) for fault in load(text).faults]


def refused(text: str) -> tuple[int, str]:
    (only,) = faults(text)
    return only


DOCUMENT = """\
# a comment
default:
  limits:
    total_iops_sec: 250

rules:
  - name: a
    match: {pool: vms}
  -
    name: "b"
"""


def test_every_key_and_item_knows_its_line() -> None:
    document = load(DOCUMENT)
    assert document.value == {
        "default": {"limits": {"total_iops_sec": 250}},
        "rules": [{"name": "a", "match": {"pool": "vms"}}, {"name": "b"}],
    }
    assert document.line_of(["default"]) == 2
    assert document.line_of(["default", "limits", "total_iops_sec"]) == 4
    assert document.line_of(["rules", 0]) == 7
    assert document.line_of(["rules", 0, "match", "pool"]) == 8
    assert document.line_of(["rules", 1, "name"]) == 10


def test_what_is_missing_has_the_line_of_what_it_is_missing_from() -> None:
    document = load(DOCUMENT)
    assert document.line_of(["rules", 0, "limits", "total_iops_sec"]) == 7
    assert document.line_of(["nothing"]) == 1
    assert document.line_of([]) == 1


def reading(kind: str, text: str) -> str:
    document = load(text)
    found = [f"{fault.line}: {fault.text}" for fault in document.faults]
    if kind == "broken":
        (only,) = document.faults
        assert len(only.text.splitlines()) == 1
        assert len(only.text) < 200
        return f"{only.line}"
    odd = " ".join(".".join(map(str, place)) for place in sorted(document.odd, key=str))
    return "\n".join([repr(document.value), *([f"odd: {odd}"] if odd else []), *found])


def test_each_text_is_read_as_in_the_golden_file() -> None:
    golden.transcript("yaml.txt", reading)


def test_a_document_that_would_grow_without_bounds_stays_as_small_as_its_text() -> None:
    layers = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30)]
    document = load("\n".join(["l0: &l0 [lol]", *layers]))
    assert len(document.faults) == 29 * 9
    assert document.value["l29"] == [None] * 9


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\n\tb: 2\n", 2),
        ("a: 1\nb: 2\t\n", 2),
        ("a: 1\nb: \x07\n", 2),
        ("a: 1\nb: \ud800\n", 2),
        ("a: 1\nb: \ufeff2\n", 2),
        ("[" * 5000, 1),
        ("? " * 5000, 1),
        ("a: {b: 1, b: " + "[" * 5000, 1),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, line: int) -> None:
    at, said = refused(text)
    assert at == line
    assert len(said.splitlines()) == 1
    assert len(said) < 200


def test_lists_and_mappings_stand_in_one_another_up_to_a_depth() -> None:
    assert not faults("[" * DEEPEST + "]" * DEEPEST)
    assert "deep" in refused("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))[1]


def test_tabs_in_comments_and_a_byte_order_mark_harm_nothing() -> None:
    assert load("\ufeffa: 1 #\there\n#\t\nb: 2\n").value == {"a": 1, "b": 2}


_scraps = st.sampled_from(
    [
        "a: ",
        "- ",
        "\n",
        "  ",
        "{",
        "}",
        "[",
        "]",
        "'",
        '"',
        "!!int ",
        "!!set ",
        "&x ",
        "*x",
        "|",
        ">",
        "? ",
        "#",
        "~",
        "0o7",
    ]
)


_texts = st.text() | st.lists(_scraps | st.text(max_size=3)).map("".join)
# The loader is the same for all examples of one run.
on_each_loader = settings(examples, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(_texts)
@example("a: !!binary '\u20ac'")
@example("!!omap {a: b}")
@on_each_loader
def test_any_text_is_a_document_or_faults_with_their_lines(text: str) -> None:
    document = load(text)
    lines = len(text.splitlines()) + 1
    assert all(1 <= fault.line <= lines and fault.text for fault in document.faults)


@pytest.mark.skipif(len(LOADERS) == 1, reason="this PyYAML was built without libyaml")
@given(_texts)
@on_each_loader
def test_both_parsers_read_the_same_from_what_both_can_read(text: str) -> None:
    ours, other = (yaml_lines.load(text, loader) for loader in LOADERS)
    if not ours.faults and not other.faults:
        assert ours == other
