"""The rules file: text in, ``Rules`` out, or every fault in it with its line.

The file is YAML: ``default: {limits: …}`` and an ordered list ``rules``, each with a ``name``, a ``match`` and
what it says of the disks that match. The first rule that matches wins; its limits are taken whole.
"""

from __future__ import annotations

import difflib
import hashlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import voluptuous as vol

from plimsoll_agent import lined_yaml
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.limits import PARAMETERS, Limits, LimitsError
from plimsoll_agent.rules import UUID, Match, Rule, Rules


def read(path: Path, *, required: bool) -> str:
    """The text of the rules file; empty when there is none and none is ``required``. Raises ``ConfigError``."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    if required and not text.strip():
        raise ConfigError(f"{path}: is missing or empty; a file that says {{}} stands for no rules")
    return text


def parse(text: str, origin: str) -> Rules:
    """The rules in the text. Raises ``ConfigError`` with ``origin:line: key: what is wrong``, one a fault."""
    document = lined_yaml.load(text, origin)
    if document.value is None:
        return Rules(edition=edition_of(text))
    try:
        return replace(_FILE(document.value), edition=edition_of(text))  # type: ignore[no-any-return]
    except vol.MultipleInvalid as faults:
        located = sorted((document.line_of(fault.path), _words(fault)) for fault in faults.errors)
        raise ConfigError("\n".join(f"{origin}:{line}: {words}" for line, words in located)) from faults


def edition_of(text: str) -> str:
    """Six hexadecimal digits that stand for just this text."""
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _words(fault: vol.Invalid) -> str:
    path = [str(step) if isinstance(step, int) else str(getattr(step, "schema", step)) for step in fault.path]
    message = str(fault.error_message)
    if path and message.startswith(path[-1]):  # the message names the key already
        path = path[:-1]
    where = "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in path).lstrip(".")
    return f"{where}: {message}" if where else message


# --- the schema: every validator returns the value that the rest of plimsoll works with -----------------


def _mapping(known: Mapping[str, Any], required: tuple[str, ...] = ()) -> Any:
    """A mapping of known keys; a key that is none of them is answered with the nearest one."""

    def validate(given: object) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise vol.Invalid(f"must be a mapping with {', '.join(known)}")
        faults: list[vol.Invalid] = [
            vol.Invalid(f"{name} is missing", path=[name]) for name in required if name not in given
        ]
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                faults.append(vol.Invalid(f"{name} is no key here{_nearest(name, known)}", path=[name]))
                continue
            try:
                values[name] = vol.Schema(known[name])(value)
            except vol.MultipleInvalid as wrong:
                wrong.prepend([name])
                faults.extend(wrong.errors)
        if faults:
            raise vol.MultipleInvalid(faults)
        return values

    return validate


def _nearest(name: object, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(str(name), known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"


def _limits(given: object) -> Limits:
    if given == "unlimited":
        return Limits()
    values = _mapping({parameter.name: object for parameter in PARAMETERS} | {"group_name": object})(given)
    if not values:
        raise vol.Invalid("is empty; to say that there is no limit, write: limits: unlimited")
    try:
        return Limits.from_mapping(values)
    except LimitsError as error:
        raise vol.MultipleInvalid(
            [vol.Invalid(problem.text, path=[problem.names[0]]) for problem in error.problems]
        ) from error


def _text(given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise vol.Invalid(f"must be text, not {given!r}; put it in quotes")
    return given


def _boolean(given: object) -> bool:
    if not isinstance(given, bool):
        raise vol.Invalid(f"must be true or false, not {given!r}")
    return given


def _texts(given: object) -> tuple[str, ...]:
    values = given if isinstance(given, list) else [given]
    if not values:
        raise vol.Invalid("is an empty list, which nothing can match")
    return tuple(_text(value) for value in values)


def _uuids(given: object) -> tuple[str, ...]:
    values = _texts(given)
    for value in values:
        if not UUID.fullmatch(value):
            raise vol.Invalid(f"must be an id (uuid), not {value!r}: names are not unique, and can be changed")
    return values


def _projects(given: object) -> tuple[str, ...]:
    return tuple(value.replace("-", "").lower() for value in _uuids(given))


def _volumes(given: object) -> tuple[str, ...]:
    return tuple(_dashed(value) for value in _uuids(given))


def _guests(given: object) -> tuple[str, ...]:
    return tuple(_dashed(value) if UUID.fullmatch(value) else value for value in _texts(given))


def _dashed(identifier: str) -> str:
    """An id as Cinder and libvirt write it; people write it without dashes and in capitals too."""
    return str(uuid.UUID(identifier))


_MATCH = _mapping(
    {"project": _projects, "flavor": _texts, "pool": _texts, "volume": _volumes, "guest": _guests},
)


def _match(given: object) -> Match:
    match = Match(**_MATCH(given))
    if match == Match():
        raise vol.Invalid("is empty; limits for every disk belong under default")
    # Tenants choose the names of their guests: a name alone must not buy anybody another limit.
    if not match.project and not all(UUID.fullmatch(guest) for guest in match.guest):
        raise vol.Invalid("guest by name needs project too: tenants choose the names of their guests", path=["guest"])
    return match


_RULE = _mapping(
    {"name": _text, "match": _match, "limits": _limits, "manage": _boolean, "override": _boolean},
    required=("name", "match"),
)


def _rule(given: object) -> Rule:
    values = _RULE(given)
    manage = values.get("manage", True)
    if manage and "limits" not in values:
        raise vol.Invalid("says neither limits nor manage: false")
    if not manage and "limits" in values:
        raise vol.Invalid("manage: false and limits exclude each other; remove one", path=["manage"])
    if not manage and values.get("override"):
        raise vol.Invalid("override means nothing beside manage: false; remove it", path=["override"])
    return Rule(**values)


def _rule_list(given: object) -> tuple[Rule, ...]:
    if not isinstance(given, list):
        raise vol.Invalid("must be a list")
    rules: list[Rule] = []
    faults: list[vol.Invalid] = []
    for index, item in enumerate(given):
        try:
            rules.append(vol.Schema(_rule)(item))
        except vol.MultipleInvalid as wrong:
            wrong.prepend([index])
            faults.extend(wrong.errors)
    faults.extend(
        vol.Invalid(f"name {name!r} is taken by an earlier rule", path=[index, "name"])
        for index, name in _repeated(given)
    )
    if faults:
        raise vol.MultipleInvalid(faults)
    return tuple(rules)


def _repeated(given: list[object]) -> Iterator[tuple[int, str]]:
    seen: set[str] = set()
    for index, item in enumerate(given):
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str):
            if name in seen:
                yield index, name
            seen.add(name)


def _file(given: object) -> Rules:
    values = _mapping({"default": _mapping({"limits": _limits}, required=("limits",)), "rules": _rule_list})(given)
    rules = Rules(rules=values.get("rules", ()), default=values.get("default", {}).get("limits"))
    clashes = [vol.Invalid(text, path=path) for path, text in _clashing_groups(rules)]
    if clashes:
        raise vol.MultipleInvalid(clashes)
    return rules


def _clashing_groups(rules: Rules) -> Iterator[tuple[list[Any], str]]:
    """QEMU keeps one set of limits for a group: with two, each pass would undo the one before."""
    seen: dict[str, Limits] = {}
    everywhere: list[tuple[list[Any], Limits | None]] = [(["default", "limits", "group_name"], rules.default)]
    everywhere += [(["rules", n, "limits", "group_name"], rule.limits) for n, rule in enumerate(rules.rules)]
    for path, limits in everywhere:
        if limits is None or limits.group_name is None:
            continue
        if seen.setdefault(limits.group_name, limits) != limits:
            yield path, f"group_name {limits.group_name} stands with other limits elsewhere; a group has one set"


_FILE = vol.Schema(_file)
