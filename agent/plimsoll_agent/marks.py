"""What plimsoll writes into a guest's metadata, so that it follows a live migration: values, XML out and in. Pure."""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from plimsoll_agent.limits import PARAMETERS, Limits

NAMESPACE = "urn:plimsoll:marks"
PREFIX = "plimsoll"
VERSION = "1"

# Whoever reads a mark may be handed anything: libvirt keeps up to 4 MiB.
_MOST_DISKS = 1024
_MOST_CHARACTERS = 512
_NUMBER = re.compile(r"[1-9][0-9]{0,19}", re.ASCII)
_NUMBERS = frozenset(parameter.name for parameter in PARAMETERS)


class UnreadableMark(ValueError):
    """The element is no mark that this version of plimsoll writes."""


@dataclass(frozen=True, slots=True)
class MarkedHold:
    """An operator's hold, as it follows its disk; ``limits`` None leaves the disk as it is."""

    limits: Limits | None
    since: datetime
    until: datetime
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Mark:
    """What plimsoll knows of one disk; the fields are those of ``Remembered``."""

    wanted: Limits | None
    since: datetime
    put: Limits | None
    kept: bool = False
    by_type: str | None = None
    by_rules: tuple[str, ...] = ()
    revision: str | None = None
    returns: Limits | None = None
    theirs: bool = False
    hold: MarkedHold | None = None
    released: str | None = None

    @property
    def digest(self) -> str:
        """Tells one mark from another."""
        text = ET.tostring(_disk("", self))
        return hashlib.sha256(text).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a guest's disks, by ``Disk.within_guest``."""

    by_disk: Mapping[str, Mark] = field(default_factory=dict)

    @property
    def xml(self) -> str:
        """The element as virDomainSetMetadata takes it: libvirt puts it into the namespace itself."""
        marks = ET.Element("marks", version=VERSION)
        marks.extend(_disk(name, mark) for name, mark in sorted(self.by_disk.items()) if _fits(name))
        return ET.tostring(marks, encoding="unicode")


# --- out ------------------------------------------------------------------------------------------------


def _disk(name: str, mark: Mark) -> ET.Element:
    disk = ET.Element("disk", name=name, since=_written(mark.since))
    for word, said in (("kept", mark.kept), ("theirs", mark.theirs)):
        if said:
            disk.set(word, "yes")
    for word, text in (("type", mark.by_type), ("revision", mark.revision)):
        if text is not None and _fits(text):
            disk.set(word, text)
    if mark.released is not None and (mark.released == "" or _fits(mark.released)):
        disk.set("released", "yes")
        if mark.released:
            disk.set("released-type", mark.released)
    for rule in mark.by_rules:
        if _fits(rule):
            disk.append(ET.Element("rule", name=rule))
    for word, limits in (("wanted", mark.wanted), ("put", mark.put), ("returns", mark.returns)):
        if limits is not None:
            disk.append(_limits(word, limits))
    if mark.hold is not None:
        disk.append(_hold(mark.hold))
    return disk


def _hold(held: MarkedHold) -> ET.Element:
    said = {"since": _written(held.since), "until": _written(held.until)}
    hold = ET.Element("hold", said | {"by": _clean(held.by), "why": _clean(held.why)})
    if held.limits is not None:
        hold.append(_limits("limits", held.limits))
    return hold


def _limits(word: str, limits: Limits) -> ET.Element:
    return ET.Element(word, {name: str(value) for name, value in limits.in_effect().items()})


def _written(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()


def _fits(name: str) -> bool:
    """Whether a name comes back as it was; XML has no place for control characters."""
    return name.isprintable() and 0 < len(name) <= _MOST_CHARACTERS


def _clean(words: str) -> str:
    """A person's words: some of them are better than none."""
    return "".join(character if character.isprintable() else "?" for character in words)[:_MOST_CHARACTERS]


# --- in -------------------------------------------------------------------------------------------------


def read(marks: ET.Element) -> Marks:
    """The reverse of ``Marks.xml``. Raises ``UnreadableMark`` for whatever plimsoll would not have written."""
    if marks.get("version") != VERSION:
        raise UnreadableMark(f"version {str(marks.get('version'))[:40]!r}, this plimsoll reads {VERSION}")
    _attributes(marks, {"version"})
    if len(marks) > _MOST_DISKS:
        raise UnreadableMark(f"marks of {len(marks)} disks")
    found: dict[str, Mark] = {}
    for element in marks:
        if _word(element) != "disk":
            raise UnreadableMark(f"<{element.tag[:40]}> in it")
        others = {"kept", "theirs", "type", "revision", "released", "released-type"}
        name = _attributes(element, {"name", "since"}, others)["name"]
        if name in found:
            raise UnreadableMark(f"disk {name[:80]!r} stands there twice")
        found[name] = _read_disk(element)
    return Marks(found)


def _read_disk(element: ET.Element) -> Mark:
    rules = [child for child in element if _word(child) == "rule"]
    parts = _children(element, {"wanted", "put", "returns", "hold"}, beside=rules)
    hold = parts.get("hold")
    return Mark(
        wanted=_read_limits(parts.get("wanted")),
        since=_read_time(element.get("since", "")),
        put=_read_limits(parts.get("put")),
        kept=_read_yes(element, "kept"),
        by_type=element.get("type"),
        by_rules=tuple(_read_rule(rule) for rule in rules),
        revision=element.get("revision"),
        returns=_read_limits(parts.get("returns")),
        theirs=_read_yes(element, "theirs"),
        hold=None if hold is None else _read_hold(hold),
        released=element.get("released-type", "") if _read_yes(element, "released") else None,
    )


def _read_rule(element: ET.Element) -> str:
    _children(element, set())
    return _attributes(element, {"name"})["name"]


def _read_hold(element: ET.Element) -> MarkedHold:
    said = _attributes(element, {"since", "until", "by", "why"})
    limits = _children(element, {"limits"}).get("limits")
    since, until = _read_time(said["since"]), _read_time(said["until"])
    return MarkedHold(_read_limits(limits), since, until, said["by"], said["why"])


def _read_limits(element: ET.Element | None) -> Limits | None:
    if element is None:
        return None
    said = _attributes(element, set(), _NUMBERS | {"group_name"})
    _children(element, set())
    group = said.pop("group_name", None)
    try:
        return Limits.from_mapping({name: _read_number(name, text) for name, text in said.items()} | _group(group))
    except ValueError as error:  # LimitsError too
        raise UnreadableMark(str(error)[:_MOST_CHARACTERS]) from error


def _group(name: str | None) -> dict[str, object]:
    return {} if name is None else {"group_name": name}


def _read_number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise UnreadableMark(f"{name} is no number: {text[:40]!r}")
    return int(text)


def _read_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError("it has no time zone")
        return time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UnreadableMark(f"{text[:40]!r} is no time: {error}"[:_MOST_CHARACTERS]) from error


def _read_yes(element: ET.Element, name: str) -> bool:
    if element.get(name) not in (None, "yes"):
        raise UnreadableMark(f"{name} is not yes")
    return name in element.attrib


def _attributes(
    element: ET.Element, needed: set[str] | frozenset[str], others: set[str] | frozenset[str] = frozenset()
) -> dict[str, str]:
    said = dict(element.attrib)
    if not needed <= said.keys() <= needed | others:
        raise UnreadableMark(f"<{element.tag[:40]}> with other attributes than plimsoll writes")
    if not all(map(_fits, said.values())):
        raise UnreadableMark(f"<{element.tag[:40]}> with an attribute that is empty, too long or not printable")
    return said


def _word(element: ET.Element) -> str:
    # libvirt (9.0) puts what is below an element of metadata into its namespace, too.
    return element.tag.removeprefix(f"{{{NAMESPACE}}}")


def _children(element: ET.Element, known: set[str], beside: Sequence[ET.Element] = ()) -> dict[str, ET.Element]:
    """Each of these once at most; ``beside`` are others, which were seen to."""
    others = [child for child in element if child not in beside]
    children = {_word(child): child for child in others}
    if len(children) < len(others) or not children.keys() <= known:
        raise UnreadableMark(f"<{element.tag[:40]}> with other elements than plimsoll writes")
    return children
