"""Plans of QoS specs and volume types for people: a line a step, and effects on attached volumes; not laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plimsoll_agent.messages.disk_lines import Manner, change_words, severity_of
from plimsoll_agent.messages.impacts import impact_lines, impact_words
from plimsoll_agent.messages.lines import Severity, TextLine
from plimsoll_agent.messages.sentences import words
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.qos.apply import How, StepResult
from plimsoll_agent.qos.balances import BalanceChange, BalanceResult
from plimsoll_agent.qos.cinder import Live
from plimsoll_agent.qos.effects import Given, TypeEffect, VolumeChange, VolumeImpact
from plimsoll_agent.qos.fault_messages import fault_words
from plimsoll_agent.qos.file import NO_SPEC, Declaration
from plimsoll_agent.qos.lint import SpecFault
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
    Texts,
    kept_by_prune,
    undeclared,
)
from plimsoll_agent.qos.review import Exact, LooseEnd, QosFinding
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import plural, printable

NO_EXTRA_SPECS = (
    "Written without extra_specs, and plimsoll qos apply leaves them: Cinder shows only those that everyone sees, if"
    " any. To have others in the file, export as an administrator"
    " (policy volume_extension:types_extra_specs:read_sensitive)."
)


def step_line(step: Step) -> TextLine:
    """A step to be done."""
    match step:
        case CreateSpec() | CreateType():
            return TextLine(step_words(step), Severity.SET)
        case DeleteSpec() | DeleteType():
            return TextLine(step_words(step), Severity.CUT)
        case Disassociate():
            return TextLine(step_words(step), Severity.LOWERED)
        case _:
            return TextLine(step_words(step))


def step_words(step: Step) -> str:
    """``~ QoS spec gold  total_iops_sec 3000 → 30``: + creates, ~ changes, - deletes."""
    match step:
        case CreateSpec(spec):
            return f"+ {_spec(spec.name)}  {spec.consumer}: {_keys_words(spec.keys) or 'no keys'}"
        case ChangeSpec(before, after):
            parts = [f"consumer {before.consumer} → {after.consumer}"] if before.consumer != after.consumer else []
            parts += _changes(before.keys, step.put, step.unset)
            return f"~ {_spec(after.name)}  {', '.join(parts)}"
        case CreateType(type):
            parts = ["private" if type.public is False else "public"]
            if type.description:
                parts.append(_quote(type.description))
            if type.extra_specs:
                parts.append(_keys_words(type.extra_specs))
            return f"+ {_type(type.name)}  {', '.join(parts)}"
        case ChangeType(there, description, public):
            parts = []
            if description is not None:
                parts.append(f"description {_quote(there.description)} → {_quote(description)}")
            if public is not None:
                parts.append("private → public" if public else "public → private")
            return f"~ {_type(there.name)}  {', '.join(parts)}"
        case ChangeExtraSpecs(type_name, had):
            return f"~ {_type(type_name)}  {', '.join(_changes(had, step.put, step.unset))}"
        case Associate(type_name, spec_name, instead_of):
            return f"~ {_type(type_name)}  QoS spec {printable(instead_of or NO_SPEC)} → {printable(spec_name)}"
        case Disassociate(type_name, spec_name):
            return f"~ {_type(type_name)}  QoS spec {printable(spec_name)} → {NO_SPEC}"
        case DeleteType(type_name):
            return f"- {_type(type_name)}"
        case DeleteSpec(spec_name, force):
            return f"- {_spec(spec_name)}{'  even though a volume type has it' if force else ''}"


def taken_line(result: StepResult) -> TextLine:
    """The step, and its result."""
    line = step_words(result.step)
    match result.how:
        case How.DONE:
            return TextLine(f"{line}   done", step_line(result.step).severity)
        case How.REFUSED:
            return TextLine(f"{line}   not done: {result.detail}", Severity.CUT)
        case How.TIMED_OUT:
            return TextLine(f"{line}   {result.detail}: result unknown", Severity.UNKNOWN)
        case How.NOT_TRIED:
            return TextLine(f"{line}   not tried: {result.detail}", Severity.LOWERED)


def plan_sum(steps: Sequence[Step]) -> str:
    if not steps:
        return "Nothing to do: Cinder matches the file."
    signs = [step_words(step)[0] for step in steps]
    return f"Plan: {signs.count('+')} to create, {signs.count('~')} to change, {signs.count('-')} to delete."


def undeclared_lines(declaration: Declaration, live: Live, *, prune: bool) -> Iterator[str]:
    """What Cinder has but the file does not declare, and is kept."""
    (types, specs), (kept_types, kept_specs) = undeclared(declaration, live), kept_by_prune(declaration, live)
    if not prune:
        types = tuple(name for name in types if name not in kept_types)
        specs = tuple(name for name in specs if name not in kept_specs)
        yield from _kept(types, specs, "not in the file; --prune deletes them")
    yield from _kept(kept_types, kept_specs, "default types and their QoS specs are never deleted")


def _kept(types: Sequence[str], specs: Sequence[str], why: str) -> Iterator[str]:
    parts = [
        f"{plural(len(names), what)} ({', '.join(map(printable, names[:5]))}{' …' if len(names) > 5 else ''})"
        for what, names in (("volume type", types), ("QoS spec", specs))
        if names
    ]
    if parts:
        yield f"Kept: {' and '.join(parts)}; {why}."


def effect_lines(effects: Sequence[TypeEffect], manner: Manner) -> Iterator[TextLine]:
    """A line for each type with attached volumes, the worst first."""
    present = [effect for effect in effects if effect.changed or effect.unchanged]
    lines = [TextLine(_effect_words(effect, manner), _effect_severity(effect)) for effect in present]
    yield from sorted(lines, key=lambda line: _WORST.index(line.severity))
    if effects and not present:
        yield TextLine("No attached volume changes: none is of these types.")


_MOST_NAMED = 5


def volume_impact_lines(impacts: Sequence[VolumeImpact], manner: Manner, missing: str) -> Iterator[TextLine]:
    """Those that feel it most, each on a line, and how many do; ``missing`` is why nothing is known of any."""
    hits = sorted(
        (each for each in impacts if each.impact is not None and each.impact.felt), key=_share, reverse=True
    )
    for each in hits[:_MOST_NAMED]:
        cut, server = each.cut, f" of {printable(each.server)}" if each.server else ""
        what = change_words(cut.before, cut.after, manner)
        text = f"  volume {printable(cut.volume.id)}{server}  {what}   {impact_words(each.impact)}"
        yield TextLine(text, severity_of(cut.before, cut.after))
    if len(hits) > _MOST_NAMED:
        yield TextLine(f"  … {plural(len(hits) - _MOST_NAMED, 'more volume')} (-f json has all)")
    yield from impact_lines(
        {each.cut.volume.id: each.impact for each in impacts},
        "volume",
        "averages in Prometheus",
        missing,
    )


def _share(volume: VolumeImpact) -> float:
    return 0.0 if volume.impact is None else volume.impact.share


_WORST = (Severity.CUT, Severity.LOWERED, Severity.PLAIN, Severity.SET)


def _effect_severity(effect: TypeEffect) -> Severity:
    match effect.median:
        case VolumeChange(before=Limits() as before, after=Limits() as after):
            return severity_of(before, after)
        case VolumeChange(before=Limits()):
            return Severity.LOWERED  # no longer limited by Cinder, or invalid
        case _:
            return Severity.PLAIN


def _effect_words(effect: TypeEffect, manner: Manner) -> str:
    """``gold: 812 attached volumes change, 12 do not; one of 100 GiB: 3000 → 30 IOPS (to 1 %)``."""
    name, median = printable(effect.type), effect.median
    if median is None:
        return f"{name}: {plural(effect.unchanged, 'attached volume')}, and none changes"
    line = f"{name}: {plural(effect.changed, 'attached volume')} {_do('change', effect.changed)}"
    if effect.unchanged:
        line += f", {effect.unchanged} {_do('do', effect.unchanged)} not"
    line += f"; one of {median.gib} GiB: {_change(median, manner)}"
    if effect.refused:
        keep, its = _do("keep", effect.refused), "its" if effect.refused == 1 else "their"
        line += f"; {effect.refused} of them {keep} {its} limits: the new ones are invalid"
    return line


def result_line(results: Sequence[StepResult], of: int, rest: Sequence[Step] | None) -> str:
    """The result; ``rest`` is the plan after it, None if unknown."""
    line = f"{sum(one.how is How.DONE for one in results)} of {of} {'step' if of == 1 else 'steps'} done"
    if rest is None:
        return f"{line}."
    if rest:
        return f"{line}; {len(rest)} left: see plimsoll qos plan."
    return f"{line}; Cinder matches the file."


def _spec(name: str) -> str:
    return f"QoS spec {printable(name)}"


def _type(name: str) -> str:
    return f"volume type {printable(name)}"


def _quote(text: str) -> str:
    return f'"{printable(text)}"'


def _keys_words(keys: Texts) -> str:
    return ", ".join(f"{printable(key)} {_value(value)}" for key, value in keys.items())


def weight_words(steps: Sequence[Step], effects: Sequence[TypeEffect] | None) -> str:
    """What an operator must confirm; empty if nothing."""
    parts: list[str] = []
    if effects is None:
        parts.append("how many attached volumes get other limits is unknown")
    elif volumes := sum(effect.changed for effect in effects):
        parts.append(f"{plural(volumes, 'attached volume')} {_do('get', volumes)} other limits")
    losing = sum(isinstance(step, Disassociate) for step in steps)
    if losing:
        parts.append(
            f"{plural(losing, 'volume type')} {_do('lose', losing)} {'its' if losing == 1 else 'their'} QoS spec"
        )
    if extras := sum(len(step.unset) for step in steps if isinstance(step, ChangeExtraSpecs)):
        parts.append(f"{plural(extras, 'extra spec')} {'is' if extras == 1 else 'are'} removed")
    for kind, noun in ((DeleteType, "volume type"), (DeleteSpec, "QoS spec")):
        if number := sum(isinstance(step, kind) for step in steps):
            parts.append(f"{plural(number, noun)} {'is' if number == 1 else 'are'} deleted")
    return "; ".join(parts)


def question(steps: Sequence[Step], weight: str) -> str:
    return f"{weight[:1].upper()}{weight[1:]}. Apply {plural(len(steps), 'step')}? [y/N] "


def refusal_line(impossible: Sequence[Unknown], errors: Sequence[SpecFault]) -> str | None:
    """Why a plan is not applied; None if it is."""
    if impossible:
        return f"Nothing applied: {plural(len(impossible), 'invalid QoS spec')}; volumes could not be attached."
    if errors:
        return f"Nothing applied: {_errors(errors)}. {_force(errors)}."
    return None


def will_refuse_line(errors: Sequence[SpecFault]) -> str:
    return f"plimsoll qos apply refuses this: {_errors(errors)}. {_force(errors)}."


def _errors(errors: Sequence[SpecFault]) -> str:
    """``2 errors (unknown key, total and part)``."""
    codes = dict.fromkeys(fault.code.value.replace("-", " ") for fault in errors)
    return f"{plural(len(errors), 'error')} ({', '.join(codes)})"


def _force(errors: Sequence[SpecFault]) -> str:
    return f"--force applies {'it' if len(errors) == 1 else 'them'} anyway"


def impossible_line(why: Unknown) -> str:
    """Why a plan is not applied."""
    return f"No volume could be attached: {words(why.reason)}"


def finding_words(finding: QosFinding) -> str:
    """One line, without its severity."""
    name = printable(finding.path[1])
    match finding.what:
        case LooseEnd.TYPE_WITHOUT_SPEC:
            return f'volume type "{name}": has no QoS spec, so Cinder limits none of its volumes'
        case LooseEnd.SPEC_WITHOUT_TYPE:
            return f'QoS spec "{name}": no volume type has it, so it limits nothing'
        case Exact(written, number):
            return f'QoS spec "{name}", {printable(finding.path[-1])}: {printable(written)} is {number}'
        case fault:
            return fault_words(fault)


def review_sum(declaration: Declaration, findings: Sequence[QosFinding]) -> str:
    """``3 QoS specs and 4 volume types, no error, 1 warning``."""
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = sum(finding.severity == "warning" for finding in findings)
    faults = f"{plural(errors or 'no', 'error')}, {plural(warnings or 'no', 'warning')}"
    return f"{holdings(declaration)}, {faults}"


def holdings(declaration: Declaration) -> str:
    specs, types = len(declaration.specs) or "no", len(declaration.types) or "no"
    return f"{plural(specs, 'QoS spec')} and {plural(types, 'volume type')}"


def _changes(before: Texts, put: Texts, unset: Sequence[str]) -> list[str]:
    parts = [
        f"{printable(key)} {_value(before[key])} → {_value(value)}"
        if key in before
        else f"{printable(key)} {_value(value)} added"
        for key, value in put.items()
    ]
    return parts + [f"{printable(key)} {_value(before[key])} removed" for key in unset]


def _value(value: str | None) -> str:
    return "null" if value is None else printable(value) if value else '""'


def _change(change: VolumeChange, manner: Manner) -> str:
    if isinstance(change.before, Limits) and isinstance(change.after, Limits):
        return change_words(change.before, change.after, manner)
    return f"{_limits_words(change.before, manner)} → {_limits_words(change.after, manner)}"


def _limits_words(value: Given, manner: Manner) -> str:
    if value is None:
        return "no QoS spec for Nova"
    return words(value.reason) if isinstance(value, Unknown) else manner.limits(value)


def _do(verb: str, number: int) -> str:
    return verb if number != 1 else "does" if verb == "do" else f"{verb}s"


# --- balances


@frozen(kw_only=True)
class BalanceCounts:
    """Of one run; ``later`` are changes that the next run makes."""

    volumes: int
    unknown: int
    changes: int
    later: int
    calls: int


def balance_line(change: BalanceChange) -> str:
    """``volume 6be6efe8-…  87 % at … → 73 % at …``."""
    before = "none" if change.before is None else printable(change.before)
    return f"volume {printable(change.volume)}  {before} → {change.after or 'none'}"


def balance_fault(result: BalanceResult) -> str:
    return f"volume {printable(result.change.volume)}: not written: {result.detail}"


def balances_sum(counts: BalanceCounts, results: Sequence[BalanceResult] | None) -> str:
    """``12 attached volumes: 3 written, 1 removed, 7 unchanged, 1 unknown; 5 calls to Cinder``; None: a dry run."""
    parts = [f"{counts.volumes - counts.unknown - counts.changes} unchanged", f"{counts.unknown} unknown"]
    if results is None:
        parts = [f"{counts.changes - counts.later} to write", *parts]
    else:
        changes = [one.change for one in results if one.how is How.DONE and not one.gone]
        removals, losses = sum(change.after is None for change in changes), sum(one.gone for one in results)
        parts = [f"{len(changes) - removals} written", f"{removals} removed", *parts]
        faults = len(results) - len(changes) - losses
        parts += [f"{number} {what}" for number, what in ((losses, "gone"), (faults, "not written")) if number]
    if counts.later:
        parts.append(f"{counts.later} left to the next run (--most)")
    text = (
        f"{plural(counts.volumes, 'attached volume')}: {', '.join(parts)}; {plural(counts.calls, 'call')} to Cinder"
    )
    return f"{text}.{' Dry run: nothing is written.' if results is None else ''}"
