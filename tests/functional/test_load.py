"""``plimsoll load`` on libvirt's test driver, whose counters are random: its form, its sums, and errors."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.functional.conftest import Ran

SHORT = ("--for", "1s", "--interval", "500ms")


def test_shares_add_up_and_names_are_there(plimsoll: Callable[..., Ran], test_node: str) -> None:
    ran = plimsoll("load", "--uri", test_node, *SHORT, "-f", "json")
    assert (ran.status, ran.err) == (0, "")
    rows = json.loads(ran.out)
    assert rows
    for direction in ("read", "write"):
        parts = [row[f"{direction}_share"] for row in rows if row[f"{direction}_share"] is not None]
        assert not parts or sum(parts) == pytest.approx(1, abs=0.01)


def test_a_person_is_told_who_makes_a_quarter(plimsoll: Callable[..., Ran], test_node: str) -> None:
    ran = plimsoll("load", "--uri", test_node, *SHORT, "--by", "guest")
    assert ran.status == 0
    assert " of writes come from " in ran.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--for", "soon"), "--for"),
        (
            ("--for", "1s", "--interval", "2s"),
            "--interval must be 0.5 seconds or more, and --for from there to an hour",
        ),
        (("--guest", "nobody"), "nobody"),
    ],
)
def test_a_wrong_word_is_one_line_and_status_64(
    plimsoll: Callable[..., Ran], test_node: str, words: tuple[str, ...], sentence: str
) -> None:
    ran = plimsoll("load", "--uri", test_node, *words)
    assert (ran.status, ran.out) == (64, "")
    assert sentence in ran.err
