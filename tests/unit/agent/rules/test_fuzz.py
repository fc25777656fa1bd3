"""Any file of rules: a right value or a clear fault; never a crash, and never more than what was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model.limits import PARAMETERS, Limits
from plimsoll_agent.rules.loader import parse
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.util.frozen import names, replace
from tests.unit.values import examples, examples_of, possible_limits

_MATCH = names(Match)
_EFFECTS = ("limits", "ceiling", "floor", "manage", "override", "boot_volume_by_flavor")
_RULE = ("name", "match", *_EFFECTS, "until", "reason")
_SWITCHES = ("boot_volume_by_flavor",)
_KEYS = ("default", "rules", *_RULE, *_MATCH, "total_iops_sec", "size_iops_sec", "group_name")

# --- rules that are right


_ids = st.uuids().map(str)
_bare = st.uuids().map(lambda identifier: identifier.hex)
_words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
_bounds = (
    possible_limits()
    .map(lambda limits: replace(limits, group_name=None, size_iops_sec=0))
    .filter(lambda limits: not limits.unlimited)
)


def _some(values: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(values, max_size=3, unique=True).map(tuple)


_matches = st.builds(
    Match,
    project=_bare.map(lambda identifier: (identifier,)),  # so that names and images may stand beside it
    user=_some(_bare),
    flavor=_some(_words),
    image=_some(_ids),
    kind=_some(st.sampled_from(["volume", "ephemeral"])),
    pool=_some(_words),
    volume=_some(_ids),
    guest=_some(_ids | _words),
    cluster=_some(_ids),
)
_untils = st.datetimes(
    datetime(1970, 1, 2),
    timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
).map(lambda moment: moment.replace(microsecond=0))


@st.composite
def _rule(draw: st.DrawFn, name: str) -> Rule:
    common = {
        "name": name,
        "match": draw(_matches),
        "until": draw(st.none() | _untils.map(lambda moment: moment.astimezone(UTC))),
        "why": draw(st.none() | _words),
    }
    limits = draw(st.none() | possible_limits())
    if limits is not None and limits.group_name is not None:
        limits = replace(limits, group_name=name)  # a group has one set of limits in the whole file
    bound = {draw(st.sampled_from(["ceiling", "floor"])): draw(st.none() | _bounds)}
    switches: dict[str, Any] = {word: draw(st.booleans()) for word in _SWITCHES}
    if limits is None and not any(switches.values()) and not any(bound.values()):
        return Rule(**common, manage=False)
    override = limits is not None and draw(st.booleans())
    return Rule(**common, **bound, limits=limits, override=override, **switches)


@st.composite
def _files(draw: st.DrawFn) -> Rules:
    rules = [draw(_rule(f"rule {number}")) for number in range(draw(st.integers(1, 3)))]
    default = draw(st.none() | possible_limits().map(lambda limits: replace(limits, group_name=None)))
    return Rules(rules=tuple(rules), default=default)


def _limits_data(limits: Limits) -> object:
    return limits.in_effect() or "unlimited"


def _rule_data(rule: Rule) -> dict[str, Any]:
    """A rule as a person writes it: name and match first."""
    match = {word: list(getattr(rule.match, word)) for word in _MATCH if getattr(rule.match, word)}
    data: dict[str, Any] = {"name": rule.name, "match": match}
    data |= {"manage": False} if not rule.manage else {}
    data |= {
        word: _limits_data(value)
        for word in ("limits", "ceiling", "floor")
        if (value := getattr(rule, word)) is not None
    }
    data |= {word: True for word in ("override", *_SWITCHES) if getattr(rule, word)}
    data |= {} if rule.until is None else {"until": rule.until.isoformat()}
    return data | ({} if rule.why is None else {"reason": rule.why})


def _data(rules: Rules) -> dict[str, Any]:
    default = {} if rules.default is None else {"default": {"limits": _limits_data(rules.default)}}
    return default | {"rules": [_rule_data(rule) for rule in rules.rules]}


def _dumped(data: object, *, flow: bool = False) -> str:
    text: str = yaml.safe_dump(data, allow_unicode=True, sort_keys=False, default_flow_style=flow, width=10_000)
    return text


@given(_files(), st.booleans())
@examples
def test_rules_that_are_written_down_are_read_unchanged(rules: Rules, flow: bool) -> None:
    assert parse(_dumped(_data(rules), flow=flow), "r") == rules


# --- never more than what was written


def _keys(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every key."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield (*path, key)
            yield from _keys(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _keys(value, (*path, index))


def _without(data: Any, path: tuple[str | int, ...], renamed: str | None = None) -> Any:
    """The data without the key at the path, or with another name for it."""
    step, rest = path[0], path[1:]
    if isinstance(data, list):
        return [_without(item, rest, renamed) if index == step else item for index, item in enumerate(data)]
    if rest:
        return {key: _without(value, rest, renamed) if key == step else value for key, value in data.items()}
    return {
        (renamed if key == step and renamed else key): value
        for key, value in data.items()
        if key != step or renamed is not None
    }


_WORDS = {*_KEYS, *(parameter.name for parameter in PARAMETERS)}


@st.composite
def _typos(draw: st.DrawFn, word: str) -> str:
    at = draw(st.integers(0, len(word) - 1))
    letter = draw(st.sampled_from("aeinrst_-X"))
    return draw(
        st.sampled_from(
            [word[:at] + word[at + 1 :], word[:at] + letter + word[at + 1 :], word[:at] + letter + word[at:]]
        )
    )


@given(_files(), st.data())
@examples
def test_a_misspelled_key_is_always_a_fault_at_its_line(rules: Rules, data: st.DataObject) -> None:
    whole = _data(rules)
    path = data.draw(st.sampled_from(list(_keys(whole))))
    typo = data.draw(_typos(str(path[-1])))
    assume(typo not in _WORDS and typo)
    text = _dumped(_without(whole, path, typo))
    (line,) = {number for number, line in enumerate(text.splitlines(), 1) if re.match(rf"[ -]*'?{typo}'?:", line)}
    with pytest.raises(ConfigError) as refused:
        parse(text, "r")
    assert any(fault.startswith(f"r:{line}: ") and typo in fault for fault in str(refused.value).splitlines())


_OPTIONAL = (("override",), ("until",), ("reason",))


@given(_files(), st.data())
@examples
def test_a_dropped_key_is_a_fault_or_is_all_that_is_missing(rules: Rules, data: st.DataObject) -> None:
    whole = _data(rules)
    path = data.draw(st.sampled_from(list(_keys(whole))))
    try:
        left = parse(_dumped(_without(whole, path)), "r")
    except ConfigError:
        assert path[2:] not in _OPTIONAL
        assert path != ("default",)
        return
    if path[0] == "default":
        assert left.rules == rules.rules
    if len(path) < 3 or path[0] != "rules":
        return
    assert left.default == rules.default
    dropped = {"reason": "why"}.get(str(path[2]), path[2])
    for index, (got, had) in enumerate(zip(left.rules, rules.rules, strict=True)):
        differ = {name for name in names(Rule) if getattr(got, name) != getattr(had, name)}
        assert differ <= ({dropped} if index == path[1] else set())


@given(_files(), st.data())
@examples_of(400)
def test_a_file_that_was_cut_off_is_a_fault_or_says_no_more_than_what_is_left_of_it(
    rules: Rules, data: st.DataObject
) -> None:
    text = _dumped(_data(rules))
    ends = [rule.start() for rule in re.finditer("^- name: rule [1-9]", text, re.MULTILINE)] + [len(text)]
    end = data.draw(st.integers(0, len(text)) | st.sampled_from(ends))
    try:
        left = parse(text[:end], "r")
    except ConfigError:
        assert end not in ends
        return
    if end in ends:
        assert left == Rules(rules=rules.rules[: ends.index(end) + 1], default=rules.default)
    assert _limits_left(left.default, rules.default)
    count = len(left.rules)
    assert left.rules[: count - 1] == rules.rules[: max(count - 1, 0)]
    if count:
        _assert_left(left.rules[-1], rules.rules[count - 1])


def _assert_left(got: Rule, had: Rule) -> None:
    """All that a rule says was written: whole, or without its end."""
    assert got.name == had.name
    assert got.manage == had.manage
    # In this order a rule that lost a part of its match says nothing, which is a fault.
    assert got.match == had.match
    assert _limits_left(got.limits, had.limits)
    assert _limits_left(got.ceiling, had.ceiling)
    assert _limits_left(got.floor, had.floor)
    assert got.override <= had.override
    assert all(getattr(got, word) <= getattr(had, word) for word in _SWITCHES)
    assert got.until in (None, had.until)
    assert got.why is None or (had.why is not None and had.why.startswith(got.why))


def _limits_left(got: Limits | None, had: Limits | None) -> bool:
    """Every number is the one that was written, or the beginning of it: smaller, and never 0."""
    if got is None or had is None or got == had:
        return got is None or got == had
    numbers = got.in_effect()
    return bool(numbers) and all(str(had.in_effect().get(name, "")).startswith(str(n)) for name, n in numbers.items())


@given(st.text(st.sampled_from("0123456789_.+-exob: "), max_size=12) | st.text(max_size=6))
@example("1_000")
@example("0o17")
@example("1e3")
@example("250.0")
@example("2 500")
@example("1.5k/s")
@example("1G")
@examples
def test_a_number_is_the_decimal_number_that_stands_there_or_a_fault(written: str) -> None:
    try:
        rules = parse(f"default:\n  limits:\n    total_iops_sec: {written}\n", "r")
    except ConfigError:
        return
    assume("#" not in written and "\n" not in written)
    there = re.fullmatch(r"\+?([0-9_]+(?:\.[0-9]+)?) ?([kMG]?)(?:/s| ?IOPS| ?iops)?", written.strip())
    assert there
    factor = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[there[2]]
    assert rules.default == Limits(total_iops_sec=int(Fraction(there[1].replace("_", "")) * factor))
