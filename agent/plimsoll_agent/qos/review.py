"""Finds faults in declared QoS specs, types without a spec, and specs without a type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Literal

from plimsoll_agent.model.direction import LOWEST
from plimsoll_agent.model.limits import Unit
from plimsoll_agent.qos.file import Declaration, QosFile
from plimsoll_agent.qos.lint import Severity, SpecFault, lint
from plimsoll_agent.util.frozen import frozen


class LooseEnd(StrEnum):
    TYPE_WITHOUT_SPEC = "type-without-spec"
    SPEC_WITHOUT_TYPE = "spec-without-type"


class NoteCode(StrEnum):
    EXACT_NUMBER = "exact-number"


@frozen
class Exact:
    """A number with a unit, and what it is read as."""

    written: str
    number: str
    code: NoteCode = NoteCode.EXACT_NUMBER


@frozen
class QosFinding:
    """One error, warning or note; ``path`` is its place in the file."""

    path: tuple[str, ...]
    what: SpecFault | LooseEnd | Exact

    @property
    def severity(self) -> Severity | Literal["note"]:
        if isinstance(self.what, Exact):
            return "note"
        return self.what.severity if isinstance(self.what, SpecFault) else "warning"


def numbers(file: QosFile) -> Iterator[QosFinding]:
    """What each number with a unit is read as."""
    for name, spec in file.declared.specs.items():
        keys = file.document.value["qos_specs"][name].get("keys") or {}
        for key, number in spec.keys.items():
            if number is not None and isinstance(keys[key], str) and keys[key] != number:
                yield QosFinding(("qos_specs", name, "keys", key), Exact(keys[key], number))


def review(declaration: Declaration, lowest: Mapping[Unit, int] = LOWEST) -> Iterator[QosFinding]:
    """Limits below ``lowest`` are faults."""
    for name, spec in declaration.specs.items():
        for fault in lint(spec.as_cinders, lowest):
            inner = ("consumer",) if fault.key is None else ("keys", fault.key)
            yield QosFinding(("qos_specs", name, *inner), fault)
    for name, type in declaration.types.items():
        if type.qos_spec is None:
            yield QosFinding(("volume_types", name, "qos_spec"), LooseEnd.TYPE_WITHOUT_SPEC)
    names = {type.qos_spec for type in declaration.types.values()}
    for name in declaration.specs:
        if name not in names:
            yield QosFinding(("qos_specs", name), LooseEnd.SPEC_WITHOUT_TYPE)
