"""The output of ``plimsoll catalogue``."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from plimsoll_agent.catalogue.model import Catalogue, VolumeType
from plimsoll_agent.catalogue.planner import Agenda, Answers
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.catalogue.region_brake import Effect, RegionJudgement, TypeEffects
from plimsoll_agent.catalogue.signed_file import Region
from plimsoll_agent.catalogue.stages import ConditionFinding, Stages
from plimsoll_agent.messages.limits import lowest_words
from plimsoll_agent.store.refresh_state import NovaFailures
from plimsoll_agent.util.text import minute, plural, printable

Entry = TypeVar("Entry")
_MOST_NAMED = 3
NOTHING_ATTACHED = (
    "No volume was asked about: no pass has listed the attached ones yet. plimsoll enforce --refresh does both."
)
"""After a refresh before the first pass."""
SHOWN = 16
"""Hex digits of a digest that are shown, and the fewest that are accepted."""


def asked_line(agenda: Agenda, answers: Answers, catalogue: Catalogue, calls: int) -> str:
    """The first line of a refresh: its calls, and what they returned."""
    parts: list[str] = []
    if answers.lists is not None:
        parts.append(plural(len(answers.lists.specs), "QoS spec"))
        parts.append(plural(len(answers.lists.types), "volume type"))
    if agenda.unknown:
        ids = [id for id in agenda.unknown if id in answers.volumes]
        missing = sorted(id for id in ids if answers.volumes[id].missing)
        number = plural(len(agenda.unknown) + agenda.left, "new volume")
        parts.append(f"{len(ids) - len(missing)} of {number} found{_not_there(missing)}")
    if agenda.again:
        parts.append(f"{plural(sum(id in answers.volumes for id in agenda.again), 'volume')} refreshed")
    if answers.servers is not None:
        parts.append(plural(len(answers.servers), "guest"))
    what = ", ".join(parts) or ("nothing due (--now fetches all)" if agenda.empty else "nothing fetched")
    return f"{plural(calls, 'call')}: {what}; generation {catalogue.generation}."


def nova_waits_line(nova: NovaFailures) -> str:
    """Of a refresh that did not ask Nova."""
    until = "" if nova.until is None else f" until {minute(nova.until)}"
    return (
        f"Nova not asked: waiting{until} after {plural(nova.failures, 'failure')}: {nova.trouble};"
        " to ask it now: plimsoll catalogue refresh --now"
    )


def _not_there(missing: Sequence[str]) -> str:
    """`` (not in Cinder: df0597f5-… and 3 more)``."""
    if not missing:
        return ""
    more = len(missing) - _MOST_NAMED
    names = ", ".join(map(printable, missing[:_MOST_NAMED]))
    return f" (not in Cinder: {names}{f' and {more} more' if more > 0 else ''})"


def undue_line(catalogue: Catalogue, until: datetime) -> str:
    """Of a refresh that did not look for a newer region file."""
    return (
        f"Region file not read before {minute(until)} (--now reads it now);"
        f" generation {catalogue.generation} of {minute(catalogue.issued)} stays."
    )


def taken_line(region: Region | None, catalogue: Catalogue) -> str:
    """The first line of a refresh from the region file; None for an unchanged one."""
    if region is None:
        return f"Region file unchanged since {minute(catalogue.issued)}; generation {catalogue.generation}."
    number = sum(not volume.missing for volume in catalogue.volumes.values())
    return (
        f"Region file of {minute(region.begun)}: {plural(len(region.specs), 'QoS spec')},"
        f" {plural(len(region.types), 'volume type')}, {plural(number, 'volume')} of this node;"
        f" generation {catalogue.generation}."
    )


def written_line(region: Region, digest: str, calls: int, seconds: float, where: object) -> str:
    """The last line after writing the region file; ``digest`` is that of its specs and types."""
    return (
        f"{plural(calls, 'call')} in {seconds:.1f} s: {plural(len(region.specs), 'QoS spec')},"
        f" {plural(len(region.types), 'volume type')}, {plural(len(region.volumes), 'volume')},"
        f" {plural(len(region.servers), 'guest')}; generation {region.generation},"
        f" specs and types {digest[:SHOWN]}, in {where}."
    )


def stop_lines(result: RegionJudgement, digest: str, *, compared: bool) -> tuple[str, ...]:
    """What the region's brake deferred, the edits behind it, and what to type; ``compared``: with the file before."""
    if not compared:
        return (
            "Brake: region file not published: the previous file is missing or unusable, and the QoS specs and types"
            " have changed since."
            f" Check them, then: plimsoll region approve {digest[:SHOWN]} --reason TEXT",
        )
    names = {row.type.id: printable(row.type.name) for row in result.rows}
    types = sorted(shlex.quote(names[id]) for id in result.removals)
    remove = f" --remove {' '.join(types)}" if types else ""
    brake = result.brake
    return (
        f"Brake: new QoS specs and types not published: they would change the limits of"
        f" {result.number} of {result.of} attached volumes (allowed: {brake.volumes} volumes or"
        f" {brake.percent} %, no removal, no cut to 1/{result.factor} or less, no raise to {result.factor} times as"
        f" much or more, no limit below {lowest_words(result.lowest)})",
        *(f"{edit_words(row)}: {_counts_words(row, result.factor)}" for row in result.rows),
        "The previous ones stay published. To publish the new ones:"
        f" plimsoll region approve {digest[:SHOWN]}{remove} --reason TEXT",
    )


def stage_lines(stops: Iterable[ConditionFinding]) -> Iterator[str]:
    """What stops the next stage of an approval: a line for conditions with the same cause."""
    causes: dict[str, list[str]] = {}
    for one in stops:
        doubt = "" if one.holds is not None else "unknown: "
        causes.setdefault(doubt + printable(one.detail), []).append(one.condition.value)
    for cause, names in causes.items():
        yield f"The next stage does not begin: {', '.join(names)}: {cause}"
    if causes:
        yield "To restore the limits of before: plimsoll region withdraw DIGEST (plimsoll region approvals lists it)"


def stages_words(stages: Stages) -> str:
    """``stage 1 of 3 (1 % of nodes) since 2026-11-21 12:00 UTC``."""
    since = "" if stages.entered is None else f" since {minute(stages.entered)}"
    return f"stage {stages.reached + 1} of {len(stages.percent)} ({stages.share:g} % of nodes){since}"


def edit_words(row: TypeEffects) -> str:
    """``gold-iops total_iops_sec 3000 → 30``."""
    of, parts = "", []
    for edit in row.edits:
        name = "" if edit.of == of else f"{printable(edit.of)} "
        of = edit.of
        values = ("not set" if value is None else printable(value) for value in (edit.before, edit.after))
        parts.append(f"{name}{printable(edit.key)} {' → '.join(values)}")
    return ", ".join(parts)


def _counts_words(row: TypeEffects, factor: int) -> str:
    words = {
        Effect.REMOVED: "limits removed",
        Effect.TENFOLD: f"cut to 1/{factor} or less",
        Effect.LOW: "below the lowest limit",
        Effect.MANIFOLD: f"raised to {factor} times as much or more",
        Effect.ADDED: "limited by one limit more",
        Effect.CUT: "cut to less than half",
        Effect.RAISED: "raised",
        Effect.NOT_COMPARABLE: "limited (the previous spec was invalid)",
    }
    several = len(row.counts) > 1
    parts = [
        f"{f'{row.counts[effect]} ' if several else ''}{words[effect]}" for effect in Effect if effect in row.counts
    ]
    volumes = f"{row.number} {'volume' if row.number == 1 else 'volumes'}"
    return f"{volumes} of type {printable(row.type.name)}, {', '.join(parts)}"


def hidden_words(catalogue: Catalogue) -> str | None:
    """A warning if Cinder's policy hides QoS specs of volume types; None if not."""
    number = sum(type.hidden for type in catalogue.types.values())
    if not number:
        return None
    return (
        f"QoS specs of {plural(number, 'volume type')} hidden from this user by Cinder's policy"
        " volume_extension:access_types_qos_specs_id; their volumes keep their limits"
    )


def hidden_flavor_words(answers: Answers) -> str | None:
    """The same for flavors."""
    number = sum(extra_specs is None for extra_specs in (answers.servers or {}).values())
    if not number:
        return None
    return (
        f"Flavor extra specs of {plural(number, 'guest')} hidden from this user by Nova's policy"
        " os_compute_api:servers:show:flavor-extra-specs; their own disks keep their limits"
    )


# --- differences between two catalogues -----------------------------------------------------------------------


def diff_lines(before: Catalogue, after: Catalogue) -> Iterator[str]:
    """The differences: specs key by key, types, volumes, flavors of guests."""
    yield from _diff("QoS spec", before.specs, after.specs, lambda spec: printable(spec.name), _spec_parts)

    yield from _diff(
        "volume type",
        before.types,
        after.types,
        lambda type: printable(type.name),
        lambda type: {"name": printable(type.name), "QoS spec": spec_name(type, before)},
        lambda type: {"name": printable(type.name), "QoS spec": spec_name(type, after)},
    )
    yield from _diff(
        "volume",
        before.volumes,
        after.volumes,
        None,
        lambda volume: {"type": type_name(volume.type, volume.missing, before)},
        lambda volume: {"type": type_name(volume.type, volume.missing, after)},
    )
    yield from _diff(
        "guest",
        before.servers,
        after.servers,
        None,
        lambda server: {"flavor": "unknown"} if server.missing else _shown(server.extra_specs),
    )


def _diff(
    kind: str,
    before: Mapping[str, Entry],
    after: Mapping[str, Entry],
    name: Callable[[Entry], str] | None,
    parts: Callable[[Entry], Mapping[str, str]],
    parts_after: Callable[[Entry], Mapping[str, str]] | None = None,
) -> Iterator[str]:
    def named(id: str, entry: Entry) -> str:
        return f"{kind} {printable(id) if name is None else name(entry)}"

    parts_after = parts_after or parts
    entries = {**before, **after}
    for id in sorted(entries, key=lambda id: (named(id, entries[id]), id)):
        if id not in after:
            yield f"- {named(id, before[id])}"
        elif id not in before:
            text = " ".join(f"{key}={value}" for key, value in parts_after(after[id]).items() if key != "name")
            yield f"+ {named(id, after[id])}{f': {text}' if text else ''}"
        else:
            old, new = parts(before[id]), parts_after(after[id])
            for key in sorted(old.keys() | new.keys()):
                if old.get(key) != new.get(key):
                    yield f"~ {named(id, before[id])}: {key} {old.get(key, 'not set')} → {new.get(key, 'not set')}"


def _spec_parts(spec: QosSpec) -> Mapping[str, str]:
    return {"name": printable(spec.name), "consumer": printable(spec.consumer), **_shown(spec.keys)}


def _shown(keys: Mapping[str, str | None]) -> dict[str, str]:
    return {printable(key): "null" if value is None else printable(value) for key, value in sorted(keys.items())}


def spec_name(type: VolumeType, catalogue: Catalogue) -> str:
    """The QoS spec of a type, for people."""
    if type.hidden:
        return "hidden by policy"
    if type.qos_spec is None:
        return "none"
    spec = catalogue.specs.get(type.qos_spec)
    return printable(spec.name if spec is not None else f"{type.qos_spec} (not listed)")


def type_name(type: str | None, missing: bool, catalogue: Catalogue) -> str:
    """The type of a volume, for people."""
    if missing:
        return "no such volume"
    if type is None:
        return "none"
    entry = catalogue.types.get(type)
    return printable(entry.name if entry is not None else f"{type} (not listed)")


def keys_words(keys: Mapping[str, str | None]) -> str:
    """``total_iops_sec=500 …``; a dash for none."""
    return " ".join(f"{key}={value}" for key, value in _shown(keys).items()) or "-"


def volumes_by_type(catalogue: Catalogue) -> Counter[str | None]:
    """How many of this node's volumes are of each type."""
    return Counter(volume.type for volume in catalogue.volumes.values() if not volume.missing)
