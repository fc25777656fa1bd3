"""The rules file, which operators write."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import yaml

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.loader import check, parse
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.util.schema import decoded
from tests.fuzz.refusals import assert_each_has_a_line
from tests.unit.values import NINETEEN, NOON, a_disk

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def rules_or_faults(written: bytes) -> Rules | None:
    """The rules; None once it was seen that every fault is told in a line that names file and line."""
    try:
        text = decoded(written, "rules.yaml")
        rules = parse(text, "rules.yaml")
    except ConfigError as error:
        assert_each_has_a_line(error, "rules.yaml")
        for line in str(error).splitlines():
            assert int(line.split(":")[1]) <= len(written.splitlines()) + 1
        return None
    assert check(text, NOON).rules == rules
    for rule in rules.rules:
        rule.match.misfit(a_disk())
    return rules


_POWERS = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _meant(name: str, text: str) -> int | None:
    """The number with its unit, by docs/reference/limits.rst; None where it has another form."""
    if name.endswith("_length"):
        parts = re.findall("([0-9]+)([smhd]?)", text)
        return sum(int(number) * _SECONDS[unit] for number, unit in parts)
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGTP]?)(i?)B?(?: ?(?:iops|IOPS))?(?:/s)?", text)
    if found is None:
        return None
    number = Fraction(found[1]) * (1024 if found[3] else 1000) ** _POWERS[found[2].replace("K", "k")]
    return int(number) if number.denominator == 1 else None


def _stated(limits: Limits | None, written: Any) -> None:
    """The limits are those that stand there: none is missing, none is another number."""
    if limits is None or written == "unlimited":
        assert limits is None or limits.unlimited
        assert (limits is None) == (written is None)
        return
    assert not limits.unlimited
    for name in NINETEEN:
        value, text = getattr(limits, name), written.get(name, "0")
        if re.fullmatch(r"[-+]?[0-9][0-9_]*", text):
            no_burst = name.endswith("_length") and value <= 1
            assert value == int(text.replace("_", "")) or no_burst, (name, text, value)
        else:  # with a unit
            assert value == _meant(name, text), (name, text, value)
    assert limits.group_name == written.get("group_name")


def target(data: bytes) -> None:
    rules = rules_or_faults(data)
    if rules is None:
        return
    # Another reader, for which all scalars are text.
    document = yaml.load(data.decode().removeprefix("\ufeff"), _LOADER)
    if not isinstance(document, dict):  # nothing, or null
        document = {}
    _stated(rules.default, (document.get("default") or {}).get("limits"))
    listed = document.get("rules") or []
    assert [rule.name for rule in rules.rules] == [one["name"] for one in listed]
    for rule, one in zip(rules.rules, listed, strict=True):
        _stated(rule.limits, one.get("limits"))
        for bound in ("ceiling", "floor"):
            _stated(getattr(rule, bound), one.get(bound))
