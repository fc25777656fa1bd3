"""What plimsoll writes into a guest's metadata, to follow a live migration: values, to and from XML. Pure."""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from functools import lru_cache

from plimsoll_agent.model.later import Later
from plimsoll_agent.model.limits import PARAMETERS, Limits
from plimsoll_agent.util.frozen import frozen

NAMESPACE = "urn:plimsoll:marks"
PREFIX = "plimsoll"
VERSION = "1"

# Metadata that is read may hold anything: libvirt keeps up to 4 MiB.
_MOST_DISKS = 1024
_MOST_CHARACTERS = 512
_NUMBER = re.compile(r"[1-9][0-9]{0,19}", re.ASCII)
_LIMITS = ("desired", "applied", "restore_to")
_NUMBERS = frozenset(parameter.name for parameter in PARAMETERS)


class UnreadableMark(ValueError):
    """The element is not a mark that this version of plimsoll writes."""


@frozen(kw_only=True)
class MarkedHold:
    """An operator's hold, as it follows its disk; ``limits`` None leaves the disk unchanged."""

    limits: Limits | None
    since: datetime
    until: datetime
    by: str
    why: str


@frozen(kw_only=True)
class Mark:
    """What plimsoll knows of one disk; the fields are those of ``Remembered``."""

    desired: Limits | None
    since: datetime
    applied: Limits | None
    enforced: bool = False
    by_type: str | None = None
    by_rules: tuple[str, ...] = ()
    revision: str | None = None
    later: tuple[Later, ...] | None = ()
    restore_to: Limits | None = None
    foreign: bool = False
    hold: MarkedHold | None = None
    released: str | None = None
    reduced: bool = False
    """Its limits are lower than ``applied``, or ``desired``, since its cluster is congested."""

    @property
    def digest(self) -> str:
        return _digest(self)


@frozen
class Marks:
    """The marks of a guest's disks; ``by_disk`` is by ``Disk.within_guest``."""

    by_disk: Mapping[str, Mark] = field(default_factory=dict)

    @property
    def xml(self) -> str:
        """The element for virDomainSetMetadata, without a namespace: libvirt adds it."""
        marks = ET.Element("marks", version=VERSION)
        marks.extend(_disk(name, mark) for name, mark in sorted(self.by_disk.items()) if _fits(name))
        return ET.tostring(marks, encoding="unicode")


@lru_cache(4096)
def _digest(mark: Mark) -> str:  # cached, since a pass needs each twice
    return hashlib.sha256(ET.tostring(_disk("", mark))).hexdigest()[:16]


# --- out ------------------------------------------------------------------------------------------------


def _disk(name: str, mark: Mark) -> ET.Element:
    disk = ET.Element("disk", name=name, since=_written(mark.since))
    for word, is_set in (("enforced", mark.enforced), ("foreign", mark.foreign), ("reduced", mark.reduced)):
        if is_set:
            disk.set(word, "yes")
    for word, text in (("type", mark.by_type), ("revision", mark.revision)):
        if text is not None and _fits(text):
            disk.set(word, text)
    if mark.released is not None and (mark.released == "" or _fits(mark.released)):
        disk.set("released", "yes")
        if mark.released:
            disk.set("released-type", mark.released)
    if mark.later is None:
        disk.set("later", "unknown")
    for rule in mark.by_rules:
        if _fits(rule):
            disk.append(ET.Element("rule", name=rule))
    for each in mark.later or ():
        disk.append(_later(each))
    for word in _LIMITS:
        limits: Limits | None = getattr(mark, word)
        if limits is not None:
            disk.append(_limits(word, limits))
    if mark.hold is not None:
        disk.append(_hold(mark.hold))
    return disk


def _later(later: Later) -> ET.Element:
    element = ET.Element("later", at=_written(later.at))
    if later.by_type is not None and _fits(later.by_type):
        element.set("type", later.by_type)
    if later.limits is not None:
        element.append(_limits("limits", later.limits))
    return element


def _hold(mark: MarkedHold) -> ET.Element:
    times = {"since": _written(mark.since), "until": _written(mark.until)}
    hold = ET.Element("hold", times | {"by": _clean(mark.by), "why": _clean(mark.why)})
    if mark.limits is not None:
        hold.append(_limits("limits", mark.limits))
    return hold


def _limits(word: str, limits: Limits) -> ET.Element:
    return ET.Element(word, {name: str(value) for name, value in limits.in_effect().items()})


def _written(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()


def _fits(name: str) -> bool:
    """Whether a name can be written and read unchanged; XML cannot hold control characters."""
    return name.isprintable() and 0 < len(name) <= _MOST_CHARACTERS


def _clean(words: str) -> str:
    """An operator's text, with replacements for what XML cannot hold, and cut if it is too long."""
    return "".join(character if character.isprintable() else "?" for character in words)[:_MOST_CHARACTERS]


# --- in -------------------------------------------------------------------------------------------------


def read(marks: ET.Element) -> Marks:
    """The reverse of ``Marks.xml``. Raises ``UnreadableMark`` for what plimsoll would not have written."""
    if marks.get("version") != VERSION:
        raise UnreadableMark(f"version {str(marks.get('version'))[:40]!r}, this plimsoll reads {VERSION}")
    _attributes(marks, {"version"})
    if len(marks) > _MOST_DISKS:
        raise UnreadableMark(f"marks of {len(marks)} disks")
    disks: dict[str, Mark] = {}
    for element in marks:
        if _word(element) != "disk":
            raise UnreadableMark(f"<{element.tag[:40]}> in it")
        others = {"enforced", "foreign", "reduced", "type", "revision", "released", "released-type", "later"}
        name = _attributes(element, {"name", "since"}, others)["name"]
        if name in disks:
            raise UnreadableMark(f"disk {name[:80]!r} is listed twice")
        disks[name] = _read_disk(element)
    return Marks(disks)


def _read_disk(element: ET.Element) -> Mark:
    rules = [child for child in element if _word(child) == "rule"]
    later = [child for child in element if _word(child) == "later"]
    parts = _children(element, {*_LIMITS, "hold"}, beside=[*rules, *later])
    hold = parts.get("hold")
    return Mark(
        desired=_read_limits(parts.get("desired")),
        since=_read_time(element.get("since", "")),
        applied=_read_limits(parts.get("applied")),
        enforced=_read_yes(element, "enforced"),
        by_type=element.get("type"),
        by_rules=tuple(_read_rule(rule) for rule in rules),
        revision=element.get("revision"),
        later=None if element.get("later") is not None else tuple(map(_read_later, later)),
        restore_to=_read_limits(parts.get("restore_to")),
        foreign=_read_yes(element, "foreign"),
        hold=None if hold is None else _read_hold(hold),
        released=element.get("released-type", "") if _read_yes(element, "released") else None,
        reduced=_read_yes(element, "reduced"),
    )


def _read_rule(element: ET.Element) -> str:
    _children(element, set())
    return _attributes(element, {"name"})["name"]


def _read_later(element: ET.Element) -> Later:
    values = _attributes(element, {"at"}, {"type"})
    limits = _children(element, {"limits"}).get("limits")
    return Later(at=_read_time(values["at"]), limits=_read_limits(limits), by_type=values.get("type"))


def _read_hold(element: ET.Element) -> MarkedHold:
    values = _attributes(element, {"since", "until", "by", "why"})
    limits = _children(element, {"limits"}).get("limits")
    since, until = _read_time(values["since"]), _read_time(values["until"])
    return MarkedHold(limits=_read_limits(limits), since=since, until=until, by=values["by"], why=values["why"])


def _read_limits(element: ET.Element | None) -> Limits | None:
    if element is None:
        return None
    values = _attributes(element, set(), _NUMBERS | {"group_name"})
    _children(element, set())
    group = values.pop("group_name", None)
    try:
        return Limits.from_mapping({name: _read_number(name, text) for name, text in values.items()} | _group(group))
    except ValueError as error:  # LimitsError too
        raise UnreadableMark(str(error)[:_MOST_CHARACTERS]) from error


def _group(name: str | None) -> dict[str, object]:
    return {} if name is None else {"group_name": name}


def _read_number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise UnreadableMark(f"{name} is not a number: {text[:40]!r}")
    return int(text)


def _read_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError("it has no time zone")
        return time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UnreadableMark(f"{text[:40]!r} is not a time: {error}"[:_MOST_CHARACTERS]) from error


def _read_yes(element: ET.Element, name: str) -> bool:
    if element.get(name) not in (None, "yes"):
        raise UnreadableMark(f"{name} is not yes")
    return name in element.attrib


def _attributes(
    element: ET.Element, essentials: set[str] | frozenset[str], others: set[str] | frozenset[str] = frozenset()
) -> dict[str, str]:
    values = dict(element.attrib)
    if not essentials <= values.keys() <= essentials | others:
        raise UnreadableMark(f"<{element.tag[:40]}> has attributes that plimsoll does not write")
    if not all(map(_fits, values.values())):
        raise UnreadableMark(f"<{element.tag[:40]}> has an attribute that is empty, too long or not printable")
    return values


def _word(element: ET.Element) -> str:
    # libvirt (9.0) puts the children of a metadata element into its namespace, too.
    return element.tag.removeprefix(f"{{{NAMESPACE}}}")


def _children(element: ET.Element, tags: set[str], beside: Sequence[ET.Element] = ()) -> dict[str, ET.Element]:
    """The children by name, each at most once; those in ``beside`` are left out."""
    others = [child for child in element if child not in beside]
    children = {_word(child): child for child in others}
    if len(children) < len(others) or not children.keys() <= tags:
        raise UnreadableMark(f"<{element.tag[:40]}> has elements that plimsoll does not write")
    return children
