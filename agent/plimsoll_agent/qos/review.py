"""Finds faults in declared QoS specs, types without a spec, and specs without a type."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from plimsoll_agent.qos.file import Declared
from plimsoll_agent.qos.lint import Fault, Severity, lint
from plimsoll_agent.util.frozen import frozen


class LooseEnd(StrEnum):
    TYPE_WITHOUT_SPEC = "type-without-spec"
    SPEC_WITHOUT_TYPE = "spec-without-type"


@frozen
class Finding:
    """One error or warning; ``path`` is its place in the file."""

    path: tuple[str, ...]
    what: Fault | LooseEnd

    @property
    def severity(self) -> Severity:
        return self.what.severity if isinstance(self.what, Fault) else "warning"


def review(declared: Declared) -> Iterator[Finding]:
    for name, spec in declared.specs.items():
        for fault in lint(spec.as_cinders):
            inner = ("consumer",) if fault.key is None else ("keys", fault.key)
            yield Finding(("qos_specs", name, *inner), fault)
    for name, type in declared.types.items():
        if type.qos_spec is None:
            yield Finding(("volume_types", name, "qos_spec"), LooseEnd.TYPE_WITHOUT_SPEC)
    used = {type.qos_spec for type in declared.types.values()}
    for name in declared.specs:
        if name not in used:
            yield Finding(("qos_specs", name), LooseEnd.SPEC_WITHOUT_TYPE)
