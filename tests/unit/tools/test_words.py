"""Each kind of place where a word to avoid may stand is looked at, and an identifier is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import words
from tests.words import STYLES, WORDS, Word, found, in_output, in_python, in_text, judged


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.avoid)
def test_the_table_shows_what_is_found(word: Word) -> None:
    for phrase in word.avoid.partition(" (")[0].split(", "):
        assert [one.instead for one in in_text("", f"It is {phrase}.")] == [word.instead], phrase


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.avoid)
def test_no_word_to_use_is_one_to_avoid(word: Word) -> None:
    assert not list(in_text("", word.instead))


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.avoid)
def test_a_style_to_avoid_is_found_in_what_is_printed_and_the_one_to_use_is_not(style: Word) -> None:
    for phrase in style.avoid.removesuffix(" (a probe)").split(", "):
        phrase = phrase.upper() if "probe" in style.avoid else phrase
        assert list(in_output(f"web-1 has {phrase} of it")), phrase
    for phrase in style.instead.split(", "):
        assert not list(in_output(f"web-1 has {phrase} of it")), phrase


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("changed 14:02:11 by root\n", 1),
        ("changed 14:02:11 UTC by root\n", 0),
        ("vm1 14:02:11Z\n", 0),
        ("AT (UTC)  GUEST\n14:02:11  web\n", 0),
        ("NODE  GUEST  type  STATE\nn1  web  gold  ok\n", 1),
        ("OF  p50  p99  NOTE\n", 0),
        ('{"at": "14:02:11", "iops": 3}\n', 0),
        ("verdict: kept\niops: 3\n", 0),
        ("--set total_iops_sec=2k\n", 0),
        ("a duration such as 6h, 90m or 1d12h\n", 0),
        ("30 per GiB × 200 GiB; 0.5 × 200 IOPS\n", 0),
        ("ceph tell mds.b perf dump ended with 1\n", 0),
        ("\x1b[2Kdone\n", 0),
    ],
)
def test_clocks_have_zones_and_headings_are_headings(text: str, faults: int) -> None:
    assert len(list(in_output(text))) == faults


def test_a_phrase_is_found_across_lines_at_the_line_where_it_begins() -> None:
    (one,) = in_text("guide.rst", "A pass.\nNo disk is told\nof.")
    assert str(one) == "guide.rst:2: 'told of' (say: reported)"


def test_of_python_strings_and_docstrings_count_and_identifiers_do_not() -> None:
    source = '"""Made anew."""\nwanted = nobody = {"edition": 1}\nnote = f"by now {wanted} disks"\n'
    assert [(one.line, one.text) for one in in_python("m.py", source)] == [(1, "anew"), (3, "by now")]


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "CONTRIBUTING.md",
        "docs/guide/a.rst",
        "etc/plimsoll.conf.sample",
        "etc/prometheus/alerts.yaml",
        "etc/nagios/objects.cfg",
        "systemd/plimsoll.service",
        "ansible/roles/agent/tasks/main.yml",
        "ansible/roles/agent/templates/rules.yaml.j2",
        "ansible/README.md",
        "agent/plimsoll_agent/a.py",
        "probes/plimsoll_probes/a.py",
        "insight/plimsoll_insight/a.py",
        "ansible/plugins/filter/a.py",
    ],
)
def test_all_that_operators_read_is_looked_through(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text('"It is made anew."\n')
    assert [str(one) for one in found(tmp_path)] == [f"{path}:1: 'anew' (say: again, new)"]


def test_of_tests_their_names_are_read_as_text_and_what_is_in_them_is_not(tmp_path: Path) -> None:
    (tmp_path / "tests/unit").mkdir(parents=True)
    source = 'def nobody() -> None: ...\n\n\ndef test_it_is_made_anew() -> None:\n    assert "by now, nobody"\n'
    (tmp_path / "tests/unit/test_a.py").write_text(source)
    assert [str(one) for one in found(tmp_path)] == ["tests/unit/test_a.py:4: 'anew' (say: again, new)"]


def test_lists_of_what_may_be_only_become_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "EXEMPT", (("a.rst", "nobody", "a user"), ("b.rst", "nobody", "a user")))
    monkeypatch.setattr(words, "NOT_YET_CLEAN", ("c.rst", "d.rst"))
    all_found = [one for path in ("a.rst", "c.rst") for one in in_text(path, "nobody, Nobody")]
    assert list(judged(all_found)) == [
        "d.rst: clean, so take it off NOT_YET_CLEAN in tests/words.py",
        "b.rst: nothing there says 'nobody', so take it off EXEMPT in tests/words.py",
    ]
