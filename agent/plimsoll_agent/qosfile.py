"""QoS specs and volume types as a file: text in, ``Declared`` out, or every fault in it with its line; and back.

The file is YAML: ``qos_specs`` and ``volume_types``, each a mapping by name. Which keys of a spec make sense is not
asked here (``qoslint``): Cinder takes any.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from plimsoll_agent import files, lined_yaml
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.qosspec import Consumer, QosSpec
from plimsoll_agent.report import printable
from plimsoll_agent.ruleschema import Steps, short

LARGEST = 2**20
"""Bytes of a file."""
NO_SPEC = "none"
"""What a volume type without a QoS spec says."""
_MOST_FAULTS = 200
_LONGEST = 255
_FILE_KEYS = ("qos_specs", "volume_types")
_SPEC_KEYS = ("consumer", "keys")
_TYPE_KEYS = ("qos_spec", "description", "public", "extra_specs")
# cinder/db/sqlalchemy/api.py, _dict_with_children_specs and qos_specs_create: rows beside those of the keys.
_CINDERS_OWN = ("consumer", "updated_at", "QoS_Specs_Name")
_PLAIN_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spec:
    """A QoS spec as it is to be."""

    name: str
    consumer: str
    keys: Mapping[str, str | None]
    """As Cinder keeps them: text, or null."""

    @property
    def as_cinders(self) -> QosSpec:
        """To be linted and evaluated; one that was only declared has no id."""
        return QosSpec("", self.name, self.consumer, self.keys)


@dataclass(frozen=True, slots=True)
class Type:
    """A volume type as it is to be; what is None, but for ``qos_spec``, is left as it is."""

    name: str
    qos_spec: str | None
    """The name of its spec, None for a type without one."""
    description: str | None = None
    public: bool | None = None
    extra_specs: Mapping[str, str | None] | None = None
    """All of them: others are removed."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a file says, by name."""

    specs: Mapping[str, Spec] = field(default_factory=dict)
    types: Mapping[str, Type] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QosFile:
    """What was declared, and where it stands."""

    declared: Declared
    origin: str
    document: lined_yaml.Document

    def line_of(self, path: Steps) -> int:
        """The line of what stands at the path, or of the nearest thing around it."""
        return self.document.line_of(path)


def read(path: Path) -> QosFile:
    """Raises ``ConfigError``, a line for each fault."""
    try:
        written = files.read_whole(path, LARGEST + 1, follow=True)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return decoded(written, str(path))


def decoded(written: bytes, origin: str) -> QosFile:
    """Raises ``ConfigError``, a line for each fault."""
    if len(written) > LARGEST:
        raise ConfigError(f"{origin}:1: is larger than 1 MiB")
    try:
        text = written.decode("utf-8")
    except UnicodeDecodeError as error:
        line = written.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{origin}:{line}: cannot be read: {error}") from error
    return parse(text, origin)


def parse(text: str, origin: str) -> QosFile:
    """What the text declares. Raises ``ConfigError`` with ``origin:line: key: what is wrong``, one a fault."""
    document = lined_yaml.load(text)
    reading = _Reading(document)
    declared = reading.declared()
    if reading.faults:
        faults = sorted(dict.fromkeys(reading.faults), key=lambda fault: fault.line)
        lines = [_words(origin, fault) for fault in faults[:_MOST_FAULTS]]
        if len(faults) > _MOST_FAULTS:
            lines.append(f"{origin}:{faults[_MOST_FAULTS].line}: and {len(faults) - _MOST_FAULTS} more faults")
        raise ConfigError("\n".join(lines))
    return QosFile(declared, origin, document)


def text_of(declared: Declared) -> str:
    """The file that declares just this, always in the same order.

    Raises ``ConfigError`` for what no file can say: Cinder takes names that YAML's readers would refuse.
    """
    text: str = yaml.safe_dump(data_of(declared), sort_keys=False, allow_unicode=True, width=2**20)
    if parse(text, "export").declared != declared:
        raise ConfigError(
            "export: what Cinder has cannot be written to a file that says the same; nothing is written"
        )
    return text


def data_of(declared: Declared) -> dict[str, object]:
    """The same as plain values."""
    return {
        "qos_specs": {name: _spec_data(spec) for name, spec in sorted(declared.specs.items())},
        "volume_types": {name: _type_data(type) for name, type in sorted(declared.types.items())},
    }


class _Reading:
    """A document while it is judged: all that is wrong is collected, and what is right goes on."""

    def __init__(self, document: lined_yaml.Document) -> None:
        self._document = document
        self.faults = list(document.faults)

    def declared(self) -> Declared:
        value = self._document.value
        if value is None:
            if not self.faults:
                self._fault((), "is empty; plimsoll qos export writes what Cinder has")
            return Declared()
        top = self._mapping((), value, _FILE_KEYS)
        for section in _FILE_KEYS:
            self._lacks((), value, section, f"write {section}: {{}} for none")
        specs = {name: self._spec(name, given) for name, given in self._named("qos_specs", top).items()}
        types = {name: self._type(name, given, specs) for name, given in self._named("volume_types", top).items()}
        return Declared(specs, types)

    def _fault(self, path: Steps, text: str) -> None:
        if path not in self._document.odd:
            self.faults.append(lined_yaml.Fault(self._document.line_of(path), path, text))

    def _mapping(self, path: Steps, given: object, known: Iterable[str]) -> dict[str, Any]:
        if not isinstance(given, dict):
            self._fault(path, f"must be a mapping with {', '.join(known)}")
            return {}
        for key in given:
            if key not in known:
                self._fault((*path, key), f"{short(key, 40)} is no key here; {_nearest(key, known)}")
        return given

    def _lacks(self, path: Steps, given: object, word: str, remedy: str) -> None:
        """The word has to stand in the mapping; a slip of it is told already."""
        if isinstance(given, dict) and not any(
            key == word or difflib.get_close_matches(key[:40].lower(), [word], n=1) for key in given
        ):
            self._fault((*path, word), f"{word} is missing; {remedy}")

    def _named(self, section: str, top: Mapping[str, Any]) -> dict[str, Any]:
        given = top.get(section, {})
        if isinstance(given, dict):
            for name in given:
                self._name((section, name), name)
            return given
        if section in top:
            self._fault((section,), f"must be a mapping by name; write {section}: {{}} for none")
        return {}

    def _name(self, path: Steps, name: str) -> None:
        if len(name) > _LONGEST:
            self._fault(path, f"a name must be at most {_LONGEST} characters, and is {len(name)}")
        # Cinder strips the names of specs, and keeps those of types as they are (qos_specs_manage.py, create).
        if name != name.strip() and (path[0] == "qos_specs" or not name.strip()):
            self._fault(path, "a name must not begin or end with a blank")
        if name == NO_SPEC and path[0] == "qos_specs":
            self._fault(path, f"{NO_SPEC} stands for no QoS spec; choose another name")

    def _spec(self, name: str, given: object) -> Spec:
        path = ("qos_specs", name)
        words = self._mapping(path, given, _SPEC_KEYS)
        self._lacks(path, given, "consumer", "write front-end for limits that QEMU is to keep")
        self._lacks(path, given, "keys", "write keys: {} for none")
        consumer = words.get("consumer")
        if "consumer" in words and consumer not in tuple(Consumer):
            near = difflib.get_close_matches(str(consumer)[:40].lower(), Consumer, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            told = f"must be {', '.join(Consumer)}, not {_shown(consumer)}{meant}"
            self._fault((*path, "consumer"), told)
        keys = self._texts((*path, "keys"), words["keys"]) if "keys" in words else {}
        for key in keys:
            if key in _CINDERS_OWN:
                where = "; it belongs beside keys" if key == "consumer" else ", and Cinder keeps it for itself"
                self._fault((*path, "keys", key), f"{key} is no key of a spec{where}")
        return Spec(name, str(consumer), keys)

    def _type(self, name: str, given: object, specs: Mapping[str, Spec]) -> Type:
        path = ("volume_types", name)
        words = self._mapping(path, given, _TYPE_KEYS)
        self._lacks(path, given, "qos_spec", f"write qos_spec: {NO_SPEC} for a type without one")
        public, description, extra = words.get("public"), words.get("description"), words.get("extra_specs")
        if "public" in words and not isinstance(public, bool):
            self._fault((*path, "public"), f"must be true or false, not {_shown(public)}")
        if "description" in words and not (isinstance(description, str) and len(description) <= _LONGEST):
            told = f"must be text of at most {_LONGEST} characters, in quotes if need be"
            self._fault((*path, "description"), told)
        if "extra_specs" in words:
            extra = self._texts((*path, "extra_specs"), extra)
        spec = self._spec_of((*path, "qos_spec"), words["qos_spec"], specs) if "qos_spec" in words else None
        return Type(name, spec, description, public, extra)

    def _spec_of(self, path: Steps, given: object, specs: Mapping[str, Spec]) -> str | None:
        if given == NO_SPEC:
            return None
        if not isinstance(given, str) or not given:
            told = f"must be the name of a QoS spec, or {NO_SPEC} for a type without one, not {_shown(given)}"
            self._fault(path, told)
        elif given not in specs:
            near = difflib.get_close_matches(given[:_LONGEST], [*specs, NO_SPEC], n=1)
            meant = f"did you mean {short(near[0], 60)}?" if near else "add it there"
            self._fault(path, f"{_shown(given)} is not among the qos_specs of this file; {meant}")
        return str(given)

    def _texts(self, path: Steps, given: object) -> dict[str, str | None]:
        if not isinstance(given, dict):
            self._fault(path, f"must be a mapping; write {path[-1]}: {{}} for none")
            return {}
        return {key: self._text((*path, key), value) for key, value in given.items()}

    def _text(self, path: Steps, given: object) -> str | None:
        if len(str(path[-1])) > _LONGEST:
            self._fault(path, f"a key must be at most {_LONGEST} characters")
        if given is None or path in self._document.odd:
            return None
        if isinstance(given, bool) or not isinstance(given, str | int):
            self._fault(path, f"must be a whole number, or text in quotes, not {_shown(given)}")
        if len(str(given)) > _LONGEST:
            self._fault(path, f"must be at most {_LONGEST} characters, and is {len(str(given))}")
        return str(given)


def _spec_data(spec: Spec) -> dict[str, object]:
    keys = {key: _plain(value) for key, value in sorted(spec.keys.items())}
    return {"consumer": spec.consumer, "keys": keys}


def _type_data(type: Type) -> dict[str, object]:
    data: dict[str, object] = {"qos_spec": NO_SPEC if type.qos_spec is None else type.qos_spec}
    if type.description is not None:
        data["description"] = type.description
    if type.public is not None:
        data["public"] = type.public
    if type.extra_specs is not None:
        data["extra_specs"] = {key: _plain(value) for key, value in sorted(type.extra_specs.items())}
    return data


def _plain(value: str | None) -> str | int | None:
    """A number without quotes where it is read back as the same text."""
    return int(value) if value is not None and _PLAIN_NUMBER.fullmatch(value) else value


def _nearest(key: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(key[:40].lower(), list(known), n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def _shown(given: object) -> str:
    return "nothing" if given is None else short(repr(given), 60)


def _words(origin: str, fault: lined_yaml.Fault) -> str:
    path, text = [str(step) for step in fault.path], short(str(fault.text), 400)
    if path and text.startswith(path[-1]):
        path.pop()
    key = ".".join(short(printable(step), 40) for step in path)
    return f"{origin}:{fault.line}: {key}: {text}" if key else f"{origin}:{fault.line}: {text}"
