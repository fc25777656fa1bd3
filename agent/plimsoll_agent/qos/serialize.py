"""Plans of QoS specs and volume types as plain data, for ``-f json``. Keys are stable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll_agent.messages.serialize import impact_data
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.qos.apply import StepResult
from plimsoll_agent.qos.effects import Given, TypeEffect, VolumeImpact
from plimsoll_agent.qos.lint import SpecFault
from plimsoll_agent.qos.messages import finding_words
from plimsoll_agent.qos.plan import (
    Associate,
    ChangeExtraSpecs,
    ChangeSpec,
    ChangeType,
    CreateSpec,
    CreateType,
    DeleteSpec,
    DeleteType,
    Disassociate,
    Step,
)
from plimsoll_agent.qos.review import Exact, LooseEnd, QosFinding

FORMAT_VERSION = 1


def plan_data(
    steps: Sequence[Step],
    effects: Sequence[TypeEffect] | None,
    extras: tuple[Sequence[str], Sequence[str]],
    impacts: Sequence[VolumeImpact],
) -> dict[str, object]:
    """``effects`` is None where they are unknown, and so is which volumes feel them."""
    types, specs = extras
    return {
        "version": FORMAT_VERSION,
        "steps": [step_data(step) for step in steps],
        "effects": None if effects is None else [_effect_data(effect) for effect in effects],
        "impacts": None if effects is None else [_impact_data(each) for each in impacts],
        "undeclared": {"volume_types": list(types), "qos_specs": list(specs)},
    }


def step_data(step: Step) -> dict[str, object]:
    """``do``, ``name`` and the details of the step."""
    fields: dict[str, object]
    match step:
        case CreateSpec(spec):
            fields = {"name": spec.name, "consumer": spec.consumer, "set": dict(spec.keys)}
        case ChangeSpec(before, after):
            fields = {"name": before.name, "consumer": after.consumer, "set": step.put, "unset": list(step.unset)}
        case CreateType(new):
            extra = None if new.extra_specs is None else dict(new.extra_specs)
            fields = {"name": new.name, "description": new.description, "public": new.public, "set": extra}
        case ChangeType(there, description, public):
            fields = {"name": there.name, "description": description, "public": public}
        case ChangeExtraSpecs(name):
            fields = {"name": name, "set": step.put, "unset": list(step.unset)}
        case Associate(name, spec_name, instead_of):
            fields = {"name": name, "qos_spec": spec_name, "instead_of": instead_of}
        case Disassociate(name, spec_name):
            fields = {"name": name, "qos_spec": None, "instead_of": spec_name}
        case DeleteType(name):
            fields = {"name": name}
        case DeleteSpec(name, force):
            fields = {"name": name, "force": force}
    return {"do": _NAMES[type(step)], **fields}


def taken_data(result: StepResult) -> dict[str, object]:
    return step_data(result.step) | {"how": result.how.value, "detail": result.detail or None}


def finding_data(finding: QosFinding, origin: str | None, line: int | None) -> dict[str, object]:
    """``file`` and ``line`` are None for specs read from Cinder."""
    what = finding.what
    of_spec = finding.path[0] == "qos_specs"
    return {
        "file": origin,
        "line": line,
        "qos_spec": finding.path[1] if of_spec else None,
        "volume_type": finding.path[1] if finding.path[0] == "volume_types" else None,
        "key": what.key if isinstance(what, SpecFault) else finding.path[-1] if isinstance(what, Exact) else None,
        "code": what if isinstance(what, LooseEnd) else what.code,
        "text": finding_words(finding),
        "severity": finding.severity,
    }


def _effect_data(effect: TypeEffect) -> dict[str, object]:
    median = effect.median
    return {
        "type": effect.type,
        "changed": effect.changed,
        "unchanged": effect.unchanged,
        "refused": effect.refused,
        "median": None
        if median is None
        else {"gib": median.gib, "before": _given_data(median.before), "after": _given_data(median.after)},
    }


def _impact_data(volume: VolumeImpact) -> dict[str, object]:
    cut = volume.cut
    return {
        "volume": cut.volume.id,
        "volume_type": cut.volume.type,
        "server": volume.server,
        "before": cut.before.in_effect(),
        "after": cut.after.in_effect(),
        "impact": impact_data(volume.impact),
    }


def _given_data(value: Given) -> dict[str, object]:
    """``limits`` is None where Nova gets no spec, or where no volume can be attached with it (``reason``)."""
    return {
        "limits": value.in_effect() if isinstance(value, Limits) else None,
        "reason": value.reason.as_record() if isinstance(value, Unknown) else None,
    }


_NAMES: Mapping[type[Step], str] = {
    CreateSpec: "create-spec",
    ChangeSpec: "change-spec",
    CreateType: "create-type",
    ChangeType: "change-type",
    ChangeExtraSpecs: "change-extra-specs",
    Associate: "associate",
    Disassociate: "disassociate",
    DeleteType: "delete-type",
    DeleteSpec: "delete-spec",
}
