"""YAML as an operator means it, with a line for everything that is wrong."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from plimsoll_agent.util import yaml_lines
from plimsoll_agent.util.yaml_lines import DEEPEST, Document
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


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "~"])
def test_a_file_that_says_nothing_is_nothing(text: str) -> None:
    assert load(text).value is None


def test_a_key_that_stands_twice_is_refused_at_its_second_line() -> None:
    assert refused("a: 1\nb: 2\n\na: 3\n") == (4, "a is listed twice; remove one")
    assert refused("x:\n  - a: 1\n    'a': 2\n") == (3, "a is listed twice; remove one")


def test_the_same_key_in_two_places_is_no_key_twice() -> None:
    assert load("- a: 1\n- a: 1\n").value == [{"a": 1}, {"a": 1}]


def test_aliases_are_refused_at_their_line() -> None:
    assert refused("a: &x [1]\nb: 2\nc: *x\n") == (3, "aliases are not allowed here; write the value instead")
    assert refused("a: &x {b: 1}\nc:\n  <<: *x\n")[0] == 3


def test_a_document_that_would_grow_without_bounds_stays_as_small_as_its_text() -> None:
    layers = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30)]
    document = load("\n".join(["l0: &l0 [lol]", *layers]))
    assert len(document.faults) == 29 * 9
    assert document.value["l29"] == [None] * 9


@pytest.mark.parametrize("key", ["[b, c]", "~", "''", "{a: b}", '"a\\nb"', "!!str a", "*a"])
def test_a_key_that_is_no_word_is_refused_and_its_value_with_it(key: str) -> None:
    wrong = "? " if key == "~" else f"? {key}"
    document = load(f"a: 1\n{wrong}\n: [2, 0x2]\nb: 3\n")
    assert [(fault.line, fault.text) for fault in document.faults] == [(2, "a key must be a word")]
    assert document.value == {"a": 1, "b": 3}


def test_all_that_is_odd_is_told_at_once() -> None:
    text = "a: 0x10\nb: *z\nb: 1\n? [c]\n: d\ne: !!int 5\nf: [1, 010]\n---\ng\n"
    assert [line for line, _ in faults(text)] == [1, 2, 3, 4, 6, 7, 8]


def test_what_stands_in_for_an_odd_value_is_marked() -> None:
    document = load("a: 0x10\nb: [1, *z]\nc: 16\n")
    assert document.odd == {("a",), ("b", 1)}


def test_a_number_for_a_key_is_the_word_it_was_written_as() -> None:
    assert load("0250: x\n").value == {"0250": "x"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: [1\n", 3),
        ("a: 1\n  b: 2\n", 2),
        ("a: 1\n\tb: 2\n", 2),
        ("a: 1\n--- 2\n", 2),
        ("a: 1\nb: 2\t\n", 2),
        ("a: 1\nb: !!python/name:os.system\n", 2),
        ("a: 1\nb: !!int ''\n", 2),
        ("a: 1\nb: !!bool perhaps\n", 2),
        ("a: 1\nb: !!timestamp soon\n", 2),
        ("a: 1\nb: !!seq x\n", 2),
        ("a: 1\nb: 0x_\n", 2),
        ("a: 1\nb: \x07\n", 2),
        ("a: 1\nb: \ud800\n", 2),
        ("a: 1\nb: \ufeff2\n", 2),
        ('a: 1\nb: "\\UFFFFFFFF"\n', 2),
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


@pytest.mark.parametrize(("written", "read"), [("0250", 168), ("0x10", 16), ("1:30", 90), ("0b11", 3)])
def test_a_number_that_is_another_one_to_yaml_is_refused_saying_which(written: str, read: int) -> None:
    line, said = refused(f"a: 1\nb: {written}\n")
    assert line == 2
    assert written in said
    assert str(read) in said


@pytest.mark.parametrize("written", ["0", "-1", "+7", "104_857_600", "104857600"])
def test_a_plain_number_is_the_number_that_it_looks_like(written: str) -> None:
    assert load(f"a: {written}").value == {"a": int(written.replace("_", ""))}


def test_a_tag_makes_nothing_out_of_a_list() -> None:
    document = load("!!python/object/apply:os.system [id]")
    assert document.value == ["id"]
    assert document.faults


@pytest.mark.parametrize("written", ["2026-12-01", "2026-12-01T18:00:00", "2026-13-01 25:00:00Z"])
def test_a_time_is_the_text_that_it_was_written_as(written: str) -> None:
    assert load(f"a: {written}").value == {"a": written}


def test_lists_and_mappings_stand_in_one_another_up_to_a_depth() -> None:
    assert not faults("[" * DEEPEST + "]" * DEEPEST)
    assert "deep" in refused("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))[1]


def test_tabs_in_comments_and_a_byte_order_mark_harm_nothing() -> None:
    assert load("\ufeffa: 1 #\there\n#\t\nb: 2\n").value == {"a": 1, "b": 2}


def test_a_number_in_quotes_is_text() -> None:
    assert load("a: '0250'").value == {"a": "0250"}


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
