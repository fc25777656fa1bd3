"""QoS specs and volume types as a file: reads text into a ``Declaration``, or lists all faults with lines; writes.

The file is YAML: ``qos_specs`` and ``volume_types``, each a mapping by name. The keys of a spec are not checked here,
but in ``lint``: Cinder accepts any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from plimsoll_agent.catalogue.qosspec import Consumer, QosSpec
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.qos.lint import PARAMETER_OF
from plimsoll_agent.util import quantities, schema, yaml_lines
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.schema import Invalid, Keys, Steps, boolean, one_of, short, shown
from plimsoll_agent.util.text import nearest

NO_SPEC = "none"
"""In place of the QoS spec of a volume type without one."""
_LONGEST = 255
# cinder/db/sqlalchemy/api.py, _dict_with_children_specs and qos_specs_create: Cinder stores these beside the keys.
_CINDERS_OWN = ("consumer", "updated_at", "QoS_Specs_Name")
_PLAIN_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)


@frozen
class Spec:
    """A declared QoS spec."""

    name: str
    consumer: str
    keys: Mapping[str, str | None]
    """As Cinder stores them: text, or null."""

    @property
    def as_cinders(self) -> QosSpec:
        """The same for linting and evaluating, without an id."""
        return QosSpec(id="", name=self.name, consumer=self.consumer, keys=self.keys)


@frozen(kw_only=True)
class DeclaredType:
    """A declared volume type; except for ``qos_spec``, None keeps what Cinder has."""

    name: str
    qos_spec: str | None
    """The name of its spec; None for a type without one."""
    description: str | None = None
    public: bool | None = None
    extra_specs: Mapping[str, str | None] | None = None
    """All of them: others are removed."""


@frozen
class Declaration:
    """The specs and types of a file, by name."""

    specs: Mapping[str, Spec] = field(default_factory=dict)
    types: Mapping[str, DeclaredType] = field(default_factory=dict)


@frozen
class QosFile:
    """What a file declares, and on which lines."""

    declared: Declaration
    origin: str
    document: yaml_lines.Document

    def line_of(self, path: Steps) -> int:
        """The line of the path, or of the nearest entry around it."""
        return self.document.line_of(path)


def read(path: Path) -> QosFile:
    """Raises ``ConfigError``, a line for each fault."""
    text = schema.read(path)
    if text is None:
        raise ConfigError(f"{path}: no such file")
    return parse(text, str(path))


def parse(text: str, origin: str) -> QosFile:
    """What the text declares. Raises ``ConfigError`` with ``origin:line: key: what is wrong``, one a fault."""
    result = schema.check(text, _declaration)
    return QosFile(result.good(origin), origin, result.document)


def text_of(declaration: Declaration) -> str:
    """The text of a file that declares exactly this, always in the same order; but a limit that has a unit in Cinder,
    where it has no effect, is read from it as the number.

    Raises ``ConfigError`` for what a file cannot hold: Cinder accepts names that YAML's readers would refuse.
    """
    text: str = yaml.safe_dump(data_of(declaration), sort_keys=False, allow_unicode=True, width=2**20)
    read = {
        name: replace(spec, keys={key: _digits(key, value) for key, value in spec.keys.items()})
        for name, spec in declaration.specs.items()
    }
    if parse(text, "export").declared != replace(declaration, specs=read):
        raise ConfigError("export: a name or value in Cinder cannot be written as YAML; nothing is written")
    return text


def data_of(declaration: Declaration) -> dict[str, object]:
    """The same as plain values."""
    return {
        "qos_specs": {name: _spec_data(spec) for name, spec in sorted(declaration.specs.items())},
        "volume_types": {name: _type_data(type) for name, type in sorted(declaration.types.items())},
    }


def _declaration(raw: object) -> Declaration:
    if raw is None:
        raise Invalid("is empty; plimsoll qos export writes what Cinder has")
    specs = raw.get("qos_specs") if isinstance(raw, dict) else None
    type = partial(_type, specs=tuple(specs) if isinstance(specs, dict) else ())
    sections = {"qos_specs": _by_name(_spec, _spec_name), "volume_types": _by_name(type, _type_name)}
    keys = Keys(raw, {name: partial(section, name) for name, section in sections.items()})
    for name in sections:
        keys.need(name, f"; write {name}: {{}} for none")
    values = keys.done()
    return Declaration(values["qos_specs"], values["volume_types"])


def _by_name(
    one: Callable[[str, Any], Any], fault: Callable[[str], str | None]
) -> Callable[[str, object], dict[str, Any]]:
    """The validator of a section, a mapping by name; ``fault`` checks a name."""

    def validate(section: str, raw: object) -> dict[str, Any]:
        validators = {name: partial(one, name) for name in raw} if isinstance(raw, dict) else {}
        keys = Keys(raw, validators, f"must be a mapping by name; write {section}: {{}} for none")
        for name in validators:
            if words := fault(name):
                keys.fault(words, name)
        return keys.done()

    return validate


def _type_name(name: str) -> str | None:
    if len(name) > _LONGEST:
        return f"a name must be at most {_LONGEST} characters, and is {len(name)}"
    return None if name.strip() else "a name must not begin or end with a blank"


def _spec_name(name: str) -> str | None:
    # Cinder strips the names of specs, but not those of types (qos_specs_manage.py, create).
    if name != name.strip():
        return "a name must not begin or end with a blank"
    return f"{NO_SPEC} stands for no QoS spec; choose another name" if name == NO_SPEC else _type_name(name)


def _spec(name: str, raw: object) -> Spec:
    keys = Keys(raw, {"consumer": one_of([*Consumer]), "keys": _keys})
    keys.need("consumer", "; write front-end for limits in QEMU")
    keys.need("keys", "; write keys: {} for none")
    for key in keys.values.get("keys", ()):
        if key in _CINDERS_OWN:
            where = "write it beside keys" if key == "consumer" else "Cinder reserves this name"
            keys.fault(f"{key} is not a key of a spec; {where}", "keys", key)
    return Spec(name, **keys.done())


def _keys(raw: object) -> dict[str, str | None]:
    return {key: _digits(key, value) for key, value in _texts("keys", raw).items()}


def _digits(key: str, value: str | None) -> str | None:
    """A limit with its unit as Cinder needs it, in plain digits; all else as it is written."""
    parameter = PARAMETER_OF.get(key)
    if parameter is None or value is None or not quantities.has_unit(value, parameter.quantity):
        return value
    return str(parameter.read(value))


def _type(name: str, raw: object, specs: tuple[str, ...]) -> DeclaredType:
    keys = Keys(
        raw,
        {
            "qos_spec": partial(_spec_of, specs),
            "description": _description,
            "public": boolean,
            "extra_specs": partial(_texts, "extra_specs"),
        },
    )
    keys.need("qos_spec", f"; write qos_spec: {NO_SPEC} for a type without one")
    return DeclaredType(name=name, **keys.done())


def _spec_of(specs: tuple[str, ...], raw: object) -> str | None:
    if raw == NO_SPEC:
        return None
    if not isinstance(raw, str) or not raw:
        raise Invalid(f"must be the name of a QoS spec, or {NO_SPEC} for a type without one, not {shown(raw)}")
    if raw not in specs:
        near = nearest(raw, [*specs, NO_SPEC])
        remedy = f"did you mean {short(near, 60)}?" if near else "add it there"
        raise Invalid(f"{shown(raw)} is not among the qos_specs of this file; {remedy}")
    return raw


def _description(raw: object) -> str:
    if not isinstance(raw, str) or len(raw) > _LONGEST:
        raise Invalid(f"must be text of at most {_LONGEST} characters, in quotes if it looks like a number")
    return raw


def _texts(word: str, raw: object) -> dict[str, str | None]:
    validators = dict.fromkeys(raw, _text) if isinstance(raw, dict) else {}
    keys = Keys(raw, validators, f"must be a mapping; write {word}: {{}} for none")
    for key in validators:
        if len(key) > _LONGEST:
            keys.fault(f"a key must be at most {_LONGEST} characters", key)
    return keys.done()


def _text(raw: object) -> str | None:
    if raw is None:
        return None
    if isinstance(raw, bool) or not isinstance(raw, str | int):
        raise Invalid(f"must be a whole number, or text in quotes, not {shown(raw)}")
    if len(str(raw)) > _LONGEST:
        raise Invalid(f"must be at most {_LONGEST} characters, and is {len(str(raw))}")
    return str(raw)


def _spec_data(spec: Spec) -> dict[str, object]:
    keys = {key: _plain(value) for key, value in sorted(spec.keys.items())}
    return {"consumer": spec.consumer, "keys": keys}


def _type_data(type: DeclaredType) -> dict[str, object]:
    data: dict[str, object] = {"qos_spec": NO_SPEC if type.qos_spec is None else type.qos_spec}
    if type.description is not None:
        data["description"] = type.description
    if type.public is not None:
        data["public"] = type.public
    if type.extra_specs is not None:
        data["extra_specs"] = {key: _plain(value) for key, value in sorted(type.extra_specs.items())}
    return data


def _plain(value: str | None) -> str | int | None:
    """A number where it reads back as the same text."""
    return int(value) if value is not None and _PLAIN_NUMBER.fullmatch(value) else value
