"""YAML as an operator means it, with a line for everything that is wrong."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.lined_yaml import Document, load
from tests.unit.values import examples


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        load(text, "r.yaml")
    return str(error.value)


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
    document = load(DOCUMENT, "r.yaml")
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
    document = load(DOCUMENT, "r.yaml")
    assert document.line_of(["rules", 0, "limits", "total_iops_sec"]) == 7
    assert document.line_of(["nothing"]) == 1
    assert document.line_of([]) == 1


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "~"])
def test_a_file_that_says_nothing_is_nothing(text: str) -> None:
    assert load(text, "r.yaml").value is None


def test_a_key_that_stands_twice_is_refused_at_its_second_line() -> None:
    assert refused("a: 1\nb: 2\n\na: 3\n") == "r.yaml:4: a stands here twice; remove one"
    assert refused("x:\n  - a: 1\n    'a': 2\n") == "r.yaml:3: a stands here twice; remove one"


def test_the_same_key_in_two_places_is_no_key_twice() -> None:
    assert load("- a: 1\n- a: 1\n", "r.yaml").value == [{"a": 1}, {"a": 1}]


def test_aliases_are_refused_at_their_line() -> None:
    assert refused("a: &x [1]\nb: 2\nc: *x\n") == "r.yaml:3: aliases are not read here"
    assert refused("a: &x {b: 1}\nc:\n  <<: *x\n").startswith("r.yaml:3:")


def test_a_document_that_would_grow_without_bounds_is_refused_at_once() -> None:
    layers = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert "aliases" in refused("\n".join(["l0: &l0 [lol]", *layers]))


def test_a_key_that_is_no_word_is_refused() -> None:
    assert refused("a: 1\n? [b, c]\n: 2\n") == "r.yaml:2: a key must be a word"


def test_a_number_for_a_key_is_the_word_it_was_written_as() -> None:
    assert load("0250: x\n", "r.yaml").value == {"0250": "x"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: [1\n", 3),
        ("a: 1\n  b: 2\n", 2),
        ("a: 1\n\tb: 2\n", 2),
        ("a: 1\n--- 2\n", 2),
        ("a: 1\nb: !!python/name:os.system\n", 2),
        ("a: 1\nb: 2026-13-01\n", 2),
        ("a: 1\nb: !!int ''\n", 2),
        ("a: 1\nb: !!bool perhaps\n", 2),
        ("a: 1\nb: !!timestamp soon\n", 2),
        ("a: 1\nb: !!seq x\n", 2),
        ("a: 1\nb: " + "9" * 5000, 2),
        ("a: \x07\n", 1),
        ("[" * 5000, 1),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text: str, line: int) -> None:
    said = refused(text)
    assert said.startswith(f"r.yaml:{line}: ")
    assert len(said.splitlines()) == 1
    assert len(said) < 200


@pytest.mark.parametrize(("written", "read"), [("0250", 168), ("0x10", 16), ("1:30", 90), ("0b11", 3)])
def test_a_number_that_is_another_one_to_yaml_is_refused_saying_which(written: str, read: int) -> None:
    said = refused(f"a: 1\nb: {written}\n")
    assert said.startswith("r.yaml:2: ")
    assert written in said
    assert str(read) in said


@pytest.mark.parametrize("written", ["0", "-1", "+7", "104_857_600", "104857600"])
def test_a_plain_number_is_the_number_that_it_looks_like(written: str) -> None:
    assert load(f"a: {written}", "r.yaml").value == {"a": int(written.replace("_", ""))}


def test_a_tag_makes_nothing_out_of_a_list() -> None:
    assert load("!!python/object/apply:os.system [id]", "r.yaml").value == ["id"]


def test_a_number_in_quotes_is_text() -> None:
    assert load("a: '0250'", "r.yaml").value == {"a": "0250"}


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


@given(st.text() | st.lists(_scraps | st.text(max_size=3)).map("".join))
@example("a: !!binary '\u20ac'")
@example("!!omap {a: b}")
@examples
def test_any_text_is_a_document_or_a_config_error_with_a_line(text: str) -> None:
    try:
        assert isinstance(load(text, "r.yaml"), Document)
    except ConfigError as error:
        place, line, _ = str(error).split(":", 2)
        assert place == "r.yaml"
        assert int(line) >= 1
