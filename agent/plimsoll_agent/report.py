"""Words: reasons, changes and passes as sentences. The only place that has them, so that nothing parses prose."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from plimsoll_agent import spans
from plimsoll_agent.catalogue import Catalogue
from plimsoll_agent.changes import BY_OTHERS, Change
from plimsoll_agent.decide import Answer, Silent, Situation, Step, Unmanaged, Wants
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import BASES, SCOPES, Limits
from plimsoll_agent.outcome import Braked, Edit, Kind, Outcome, Overlooked, PassReport
from plimsoll_agent.reason import Code, Reason, Unknown

UNLIMITED = "unlimited"
_SAY_THAT_THEY_WAIT = (Code.BRAKED, Code.CLUSTER_UNWELL, Code.CLUSTER_SILENT)
_MIB = 2**20

_SENTENCES: Mapping[Code, str | Callable[[Mapping[str, Any]], str]] = {
    Code.COMMAND_LINE: "given on the command line",
    Code.RULE: 'rule "{rule}"',
    Code.NODE_DEFAULT: "node default",
    Code.RELEASED: lambda facts: (
        "orphaned limits are released"
        + (f", as long as the volume type is {facts['type']}" if "type" in facts else "")
    ),
    Code.HOLD: lambda facts: (
        f"held{' in the whole region' if facts.get('region') else ''} until {_minute(facts['until'])}"
        f" by {facts['by']}: {facts['why']}" + (" (ignores the health gate)" if facts.get("ignore_health") else "")
    ),
    Code.HOLD_ENDED: "the hold has ended: back to what it had before",
    Code.WANTED_BEFORE: "as it was wanted before what waits for plimsoll approve {edition:.16}",
    Code.UNDONE: lambda facts: f"as it was before the changes since {_second(facts['since'])}",
    Code.QOS_SPEC: lambda facts: f"QoS spec {facts['spec']}{_per_gib(facts)}",
    Code.FLAVOR: "flavor {flavor}",
    Code.NO_VOLUME: "not asked: no volume",
    Code.NOBODY_ASKED: "not asked: [catalogue] source is none",
    Code.NO_VOLUME_TYPE: "the volume has no type",
    Code.NO_QOS_SPEC: "volume type {type} has no QoS spec",
    Code.SPEC_FOR_BACK_END: "volume type {type} → QoS spec {spec} is not for QEMU (consumer {consumer})",
    Code.SPEC_SAYS_NOTHING: "volume type {type} → QoS spec {spec} has no key that limits anything:"
    " see plimsoll qos lint",
    Code.NOT_FOR_VOLUMES: "not asked: its limits are not for volumes",
    Code.NOT_BY_NOVA: "not asked: the guest was not made by Nova",
    Code.NO_QUOTA: "flavor {flavor} has no quota:disk_*",
    Code.FLAVOR_NOT_TOLD: "the definition does not tell the flavor's extra specs, and Nova is not asked",
    Code.NO_CATALOGUE: "nobody knows yet what Cinder and Nova say",
    Code.CATALOGUE_UNREADABLE: "what Cinder and Nova said last cannot be read",
    Code.CATALOGUE_OUTDATED: "what Cinder and Nova said last is too old to count",
    Code.CATALOGUE_OLD: "what Cinder and Nova said last is old, and still counts",
    Code.NOT_SIGHTED: "the refresher of the catalogue is not told what is attached here",
    Code.VOLUME_NOT_ASKED: lambda facts: (
        f"Cinder has not told its volume type since {_minute(facts['since'])}, when it was first met as it is now"
    ),
    Code.VOLUME_MISSING: "Cinder knows no such volume, or does not show it to plimsoll",
    Code.TYPE_NOT_LISTED: "Cinder does not list the volume's type ({id})",
    Code.SPEC_HIDDEN: "Cinder hides the QoS spec of volume type {type}: policy"
    " volume_extension:access_types_qos_specs_id",
    Code.SPEC_NOT_LISTED: "Cinder does not list the QoS spec of volume type {type} ({id})",
    Code.SIZE_NOT_KNOWN: "QoS spec {spec} counts by GiB, and the disk's size is not known",
    Code.QUOTA_UNREADABLE: "the flavor's quota:disk_* cannot be used: {detail}",
    Code.QOS_SPEC_UNREADABLE: "QoS spec {spec} cannot be used: {detail}",
    Code.FLAVOR_NOT_ASKED: "the definition does not tell the flavor's extra specs, and Nova has not told them yet",
    Code.SERVER_MISSING: "Nova knows no such guest here, or does not show its flavor's extra specs",
    Code.RULE_DOES_NOT_MATCH: "does not match ({word})",
    Code.RULE_ENDED: lambda facts: f"ended {_minute(facts['until'])}",
    Code.RULE_BOUNDS_NOTHING: "changes nothing",
    Code.CLUSTER_NOT_KNOWN: lambda facts: (
        f"not exactly one of [ceph] conf_files names its monitors ({facts['monitors']})"
        if facts["monitors"]
        else "it names no monitors, and this node knows several clusters or none"
    ),
    Code.NO_DEFAULT: "none is configured",
    Code.RULE_UNMANAGES: 'rule "{rule}" says manage: false',
    Code.NO_LIMIT: "no source gives a limit",
    Code.ORPHANED: lambda facts: f"orphaned limits: they came from {_origin(facts)}",
    Code.FOREIGN_LIMIT: "attached with limits already, and no rule overrides them",
    Code.MIGRATING: "the guest is migrating out; the target sets its limits",
    Code.INCOMING: "the guest is migrating in and does not run yet",
    Code.UNANSWERED: "{detail}: not known; read again in the next pass",
    Code.NOT_SENT: "{detail}; tried again in the next pass",
    Code.REJECTED: "refused: {detail}",
    Code.VANISHED: "{detail}",
    Code.IMPOSSIBLE: "has limits that QEMU would not accept: {detail}",
    Code.UNREADABLE_XML: "its definition cannot be read: {detail}",
    Code.MARK_UNREADABLE: "plimsoll's mark in a guest's metadata cannot be read and is ignored",
    Code.HOLD_NOT_ADOPTED: "a hold did not follow its guest: the disk has other limits now, and the hold raises them",
    Code.NOT_LOOKED_AT: "could not be looked at: {detail}",
    Code.PAUSED: lambda facts: f"paused by {_whose_pause(facts)}{': ' + str(facts['why']) if facts['why'] else ''}",
    Code.BRAKED: "waits for plimsoll approve {edition:.16}: {disks} of {of} disks would change so much",
    Code.LARGE_CHANGE: lambda facts: (
        f"a removal needs plimsoll approve --remove {facts['digest'][:16]}"
        if facts["percent"] is None
        else f"a cut to {facts['percent']:g} % needs plimsoll approve {facts['digest'][:16]}"
    ),
    Code.GROUP_WITHHELD: lambda facts: (
        f"deferred with {facts['target']} in group {facts['group']} ({words(Reason.from_record(facts['because']))})"
    ),
    Code.GROUP_DISAGREES: "deferred: {target} in group {group} is to have other limits, and a group has one set",
    Code.GROUP_OF_OTHERS: "deferred: group {group} has a disk of the guest that is not on RBD (use another group)",
    Code.CLUSTER_UNWELL: "waits until Ceph is well again: {checks} on cluster {cluster}",
    Code.CLUSTER_SILENT: "waits until Ceph says that it is well: {detail} (cluster {cluster})",
    Code.CHANGED_MEANWHILE: "somebody else changed its limits just now; looked at again in the next pass",
    Code.NOT_AGREED: "it is not any more as it was shown and agreed to",
    Code.NOT_UNDONE: "not undone",
    Code.ANOTHERS_HAND: lambda facts: (
        f"somebody else keeps changing it; put back {_times(facts['rounds'])}, and left to them for a day"
    ),
    Code.ANOTHER_DISK: lambda facts: (
        f"{facts['target']} is another disk now ({facts['now']})"
        if facts.get("now")
        else f"{facts['target']} is gone"
    ),
    Code.NOT_HERE: "it is not on this node any more",
    Code.ATTACHED_ANEW: "attached anew, or its guest started anew, since then, as far as is remembered",
    Code.TOO_MANY_HUNG: "not tried: guests that do not answer in this pass: {hung}",
    Code.NO_RECORD: "no record can be written, and without one nothing is loosened",
    Code.NO_RESULTS: "the results are not in the record, the next pass finds them out",
    Code.NOT_REMEMBERED: "what was put in force is not remembered, and will look like limits of others",
    Code.NOT_SETTLED: "changes of an earlier pass stay unsettled",
    Code.MEMORY_SET_ASIDE: "the memory is damaged: it is set aside and made anew from the record, without the holds",
    Code.APPROVAL_SET_ASIDE: "the approval is damaged: it is set aside, and nothing is approved",
    Code.RECORD_SET_ASIDE: "the record is damaged: it is set aside and begun anew",
    Code.CLOCK_DOUBTED: "the clock of this node is not trusted: time goes on from the last pass, and no hold"
    " or rule ends early",
    Code.READ_BACK_DIFFERS: lambda facts: f"QEMU has {_listed(facts['in_force'])} in force after the write",
    Code.NEVER_LIMITED: "not limited by plimsoll yet",
    Code.BEHIND_LIBVIRT: "set behind libvirt's back",
    Code.WANTED_CHANGED: "what is wanted changed",
    Code.CHANGED_BY_ANOTHER: "changed by somebody else",
    Code.APPROVED: lambda facts: (
        f"{str(facts['edition'])[:16]} approved{': ' + str(facts['why']) if facts['why'] else ''}"
    ),
    Code.OPERATOR: "{why}",
}


def words(reason: Reason) -> str:
    """The sentence of a reason."""
    sentence = _SENTENCES[reason.code]
    facts = {name: printable(fact) if isinstance(fact, str) else fact for name, fact in reason.facts.items()}
    said = sentence(facts) if callable(sentence) else sentence.format_map(facts)
    if reason.code in (Code.RULE, Code.RULE_UNMANAGES) and facts.get("why"):
        said += f" ({facts['why']})"
    for word, does in (("floor", "raised"), ("ceiling", "capped")):
        if word in facts:
            said += f', {does} by rule "{facts[word]}"'
    return said


def _origin(facts: Mapping[str, Any]) -> str:
    if "type" in facts:
        return f"volume type {facts['type']}, which gives none now"
    if "rule" in facts:
        return f'rule "{facts["rule"]}", which gives none now'
    sources = {Code.NODE_DEFAULT.value: "the node default", Code.FLAVOR.value: "the flavor"}
    source = sources.get(str(facts.get("source")))
    return "a source that is gone" if source is None else f"{source}, which gives none now"


def _per_gib(facts: Mapping[str, Any]) -> str:
    rows = facts.get("arithmetic") or ()
    if not rows:
        return ""
    each = [f"{row['parameter']} {row['per_gb']}" if len(rows) > 1 else f"{row['per_gb']}" for row in rows]
    return f": {' and '.join(each)} per GiB × {facts['gib']} GiB"


def arithmetic_lines(reason: Reason) -> Iterator[str]:
    """``total_iops_sec = max(500, 30 × 100 GiB) = 3000, at most 20000``: how limits follow from a size."""
    rows: Any = reason.facts.get("arithmetic") or ()
    for row in rows:
        product = f"{row['per_gb']} × {row['gib']} GiB"
        least = product if row["minimum"] is None else f"max({row['minimum']}, {product})"
        most = "" if row["maximum"] is None else f", at most {row['maximum']}"
        yield f"{row['parameter']} = {least}{most} = {row['result']}"


def ago(earlier: datetime, now: datetime) -> str:
    """``3 min ago``; a clock that was set back makes no time to come of it."""
    return f"{spans.words(now - earlier)} ago"


def minute(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _minute(time: object) -> str:
    try:
        return minute(datetime.fromisoformat(str(time)))
    except (ValueError, OverflowError):  # out of a record that somebody wrote to
        return str(time)


def _second(time: object) -> str:
    try:
        return f"{datetime.fromisoformat(str(time)).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):  # as above
        return str(time)


def _whose_pause(facts: Mapping[str, Any]) -> str:
    if not facts.get("region"):
        return str(facts["file"])
    until = f" until {_minute(facts['until'])}" if facts.get("until") else ""
    return f"{facts['by']} in the whole region{until}"


def _times(number: object) -> str:
    return "once" if number == 1 else f"{number} times"


def waiting_words(reason: Reason) -> str:
    """That a change waits, and for what."""
    said = words(reason)
    return said if reason.code in _SAY_THAT_THEY_WAIT else f"waits: {said}"


def overlooked_words(overlooked: Overlooked) -> str:
    """A guest that could not be looked at, and why."""
    return f"{printable(overlooked.guest.name)}  {words(overlooked.reason)}"


def note_words(note: Reason) -> str:
    """What is wrong with the state, and what the system said."""
    return f"{words(note)} ({printable(str(note.facts['detail']))})"


def printable(text: str) -> str:
    """Text that somebody else chose, safe to show: control, format and line characters become question marks."""
    if text.isprintable():  # as nearly all is
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


def short_limits(limits: Limits) -> str:
    """``250 iops 100 MiB/s``; bursts and the rest follow only where they are set."""
    parts: list[str] = []
    for unit, show in (("iops", _iops), ("bytes", _rate)):
        for scope in SCOPES:
            base = f"{scope}_{unit}_sec"
            rate, peak, length = (getattr(limits, base + ending) for ending in ("", "_max", "_max_length"))
            if rate:
                whole = f"{'' if scope == 'total' else scope + ' '}{show(rate)}"
                burst = f" (burst {show(peak)}{f' for {length} s' if length > 1 else ''})" if peak else ""
                parts.append(whole + burst)
    if limits.size_iops_sec:
        parts.append(f"counted per {_size(limits.size_iops_sec)}")
    if limits.group_name:
        parts.append(f"shared as {printable(limits.group_name)}")
    return " ".join(parts) or UNLIMITED


def _iops(value: int) -> str:
    return f"{value} iops"


def _rate(value: int) -> str:
    return f"{_size(value)}/s"


def _size(value: int) -> str:
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (_MIB, "MiB"), (2**10, "KiB")):
        if value >= unit:
            return f"{value / unit:.4g} {name}"
    return f"{value} B"


def short_size(value: int | None) -> str:
    """``100 GiB``, or a question mark where it is not known."""
    return "?" if value is None else _size(value)


def change_words(change: Change) -> str:
    """``total_iops_sec 500 → 3000``: the parameters that differ, under libvirt's names."""
    return limits_change_words(change.before, change.after)


def limits_change_words(old: Limits, new: Limits) -> str:
    before, after = old.in_effect(), new.in_effect()
    if not before:
        return f"{UNLIMITED} → {_listed(after)}"
    if not after:
        return f"{_listed(before)} → {UNLIMITED}"
    names = [*before, *(name for name in after if name not in before)]
    return ", ".join(
        f"{name} {before.get(name) or _absent(name)} → {after.get(name) or _absent(name)}"
        for name in names
        if before.get(name) != after.get(name)
    )


def _absent(name: str) -> str:
    return UNLIMITED if name in BASES else "none"


def _listed(in_effect: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in in_effect.items()) or "no limit"


def disk_name(disk: Disk) -> str:
    return f"{printable(disk.guest.name)} {printable(disk.target)}"


def outcome_line(outcome: Outcome) -> str | None:
    """The line of a disk in ``plan`` and ``enforce``; None for one that is right or left alone as ever."""
    name, result, change = disk_name(outcome.disk), outcome.result, outcome.change
    match result.kind:
        case Kind.PLANNED if change is not None:
            return f"{name}  {change_words(change)}   {_why(change)}"
        case Kind.CHANGED if change is not None:
            return f"{name}  {change_words(change)}   {_why(change)}; done in {result.seconds * 1000:.0f} ms"
        case Kind.FAILED | Kind.NOT_KNOWN if change is not None:
            return f"{name}  {change_words(change)}   {words(result.reason)}"
        case Kind.WAITS if change is not None and result.reason.code is not Code.BRAKED:
            # Why the node is paused stands below the disks, once.
            waits = "waits: paused" if result.reason.code is Code.PAUSED else waiting_words(result.reason)
            return f"{name}  {change_words(change)}   {waits}"
        case Kind.LEFT_ALONE if change is not None:
            return f"{name}  left alone: {words(result.reason)}"
        case Kind.FAILED | Kind.NOT_KNOWN:
            return f"{name}  {words(result.reason)}"
        case _:
            return None


def _why(change: Change) -> str:
    if change.cause in BY_OTHERS:
        return f"{words(change.reason)} ({words(Reason(change.cause))})"
    return words(change.reason)


def closing_lines(report: PassReport, *, planned: bool) -> Iterator[str]:
    """What stands below the disks: guests that were overlooked, disks left alone by reason, and the sum."""
    for guest in report.overlooked:
        yield overlooked_words(guest)
    if report.paused is not None:
        yield f"Nothing is written: {words(report.paused)}"
    yield from map(note_words, report.notes)
    yield from _orphaned_lines(report)
    alone: dict[str, int] = {}
    for outcome in report.outcomes:
        if outcome.result.reason.code is not Code.ORPHANED and (
            outcome.result.kind is Kind.LEFT_ALONE and outcome.change is None
        ):
            sentence = words(outcome.result.reason)
            alone[sentence] = alone.get(sentence, 0) + 1
    for sentence, number in alone.items():
        yield f"{number} {_disks(number)} left alone: {sentence}"
    if report.braked is not None:
        yield from _braked_lines(report.braked, report)
    yield plan_sum(report) if planned else pass_sum(report)


def _orphaned_lines(report: PassReport) -> Iterator[str]:
    """Disks whose limits are orphaned, by origin and volume type, and what releases them."""
    orphans: dict[tuple[str, str | None], list[Outcome]] = {}
    for outcome in report.outcomes:
        if outcome.result.reason.code is Code.ORPHANED:
            orphans.setdefault((words(outcome.result.reason), outcome.disk.volume_type), []).append(outcome)
    for (sentence, type), outcomes in orphans.items():
        number, digest = len(outcomes), str(outcomes[0].result.reason.facts["digest"])
        said = f"{number} {_disks(number)} with {sentence}; release: plimsoll approve --remove"
        if number == 1:
            yield f"{said} {digest:.16}"
        elif type is not None:
            yield f"{said} --type {shlex.quote(printable(type))}"
        else:
            yield f"{said} DIGEST, for each of them as plimsoll disk explain prints it"


def _braked_lines(braked: Braked, report: PassReport) -> Iterator[str]:
    """What the brake stopped, and what it would have come to: the edits behind it, and the commonest changes
    first.
    """
    for edit in braked.edits[:5]:
        yield f"Edited: {edit_words(edit)}"
    if len(braked.edits) > 5:
        yield f"and {len(braked.edits) - 5} more edits"
    if not braked.many:
        number = len(braked.keys)
        yield (
            f"{number} {_disks(number)} deferred, see above. All at once, if it is meant:"
            f" plimsoll approve{' --remove' if braked.released else ''} {braked.edition:.16}"
        )
        return
    hows = [(braked.cut, "cut by more than half"), (braked.loosened, "loosened"), (braked.released, "released")]
    parts = [f"{number} of {braked.of} disks would be {how}" for number, how in hows if number]
    yield f"{', '.join(parts)}. None of them was changed."
    changes: dict[str, int] = {}
    for outcome in report.outcomes:
        if outcome.change is not None and outcome.result.reason.code is Code.BRAKED:
            line = f"{change_words(outcome.change)}   {words(outcome.change.reason)}"
            changes[line] = changes.get(line, 0) + 1
    commonest = sorted(changes.items(), key=lambda item: -item[1])
    for line, number in commonest[:5]:
        yield f"  {number} {_disks(number)}: {line}"
    if len(commonest) > 5:
        rest = sum(number for _, number in commonest[5:])
        yield f"  {rest} more {_disks(rest)}, in {len(commonest) - 5} other ways: see plimsoll disk list"
    whose = "these rules" if braked.catalogue is None else "these rules and this catalogue"
    remove = " --remove" if braked.released else ""
    yield f"If it is meant: plimsoll approve{remove} {braked.edition:.16} ({whose} only)"


def edit_words(edit: Edit) -> str:
    """``gold-iops total_iops_sec 3000 → 30 (12 disks)``."""
    old, new = (_edited(edit.parameter, value) for value in (edit.before, edit.after))
    return f"{printable(edit.source)} {edit.parameter} {old} → {new} ({edit.disks} {_disks(edit.disks)})"


def _edited(parameter: str, value: object) -> str:
    return printable(str(value)) if value else _absent(parameter)


def plan_sum(report: PassReport) -> str:
    changes = [o.change for o in report.outcomes if o.change is not None and o.result.kind is not Kind.WAITS]
    release = sum(change.after.unlimited for change in changes)
    parts = [
        f"{len(changes) - release} {_disks(len(changes) - release)} to limit",
        f"{release} to release",
        f"{report.count(Kind.LEFT_ALONE)} left alone",
        f"{report.count(Kind.RIGHT)} already right",
    ]
    if report.count(Kind.WAITS):
        parts.append(f"{report.count(Kind.WAITS)} waiting")
    if report.failures:
        parts.append(f"{report.failures} not known")
    return f"Plan: {', '.join(parts)}."


def pass_sum(report: PassReport) -> str:
    waiting = f" {report.count(Kind.WAITS)} waiting," if report.count(Kind.WAITS) else ""
    return (
        f"{report.count(Kind.CHANGED)} changed, {report.count(Kind.RIGHT)} already right,"
        f" {report.count(Kind.LEFT_ALONE)} left alone,{waiting} {report.failures} failed, in {report.seconds:.1f} s"
    )


def _disks(number: int) -> str:
    return "disk" if number == 1 else "disks"


def state_words(outcome: Outcome) -> str:
    """The STATE of a disk in lists."""
    disk, result, change = outcome.disk, outcome.result, outcome.change
    if result.kind is Kind.RIGHT:
        held = f", {words(result.reason)}" if result.reason.code is Code.HOLD else ""
        return f"ok, but libvirt's definition says otherwise{held}" if disk.drifted else f"ok{held}"
    if result.kind is Kind.WAITS:
        return waiting_words(result.reason)
    if result.kind is Kind.PLANNED and change is not None:
        how = words(Reason(change.cause))
        if change.before.unlimited:
            return f"{UNLIMITED}: {how}"
        return how if change.cause in BY_OTHERS else f"behind: {how}"
    if result.kind is Kind.LEFT_ALONE:
        drift = "; set behind libvirt's back" if disk.drifted else ""
        if result.reason.code is Code.ORPHANED:
            return f"{words(result.reason)}{drift}"
        if result.reason.code is Code.NO_LIMIT and disk.in_force == Limits():
            return f"no-limit{drift}"
        return f"left alone: {words(result.reason)}{drift}"
    return words(result.reason)


def step_lines(step: Step, situation: Situation) -> Iterator[tuple[str, str]]:
    """Who was asked, and what the answer was: a line, or some more where the answer was reckoned."""
    asked, answer = printable(step.asked), step.answer
    bounded = {"floor", "ceiling"} & answer.reason.facts.keys()  # what a rule makes of it is no reckoning of Cinder's
    if not isinstance(answer, Wants) or answer.reason.code is not Code.QOS_SPEC or bounded:
        yield asked, answer_words(answer)
        return
    facts, known = answer.reason.facts, situation.catalogue
    read = f", read {ago(known.issued, situation.now)}" if isinstance(known, Catalogue) else ""
    yield asked, printable(f"volume type {facts['type']} → QoS spec {facts['spec']} ({facts['consumer']}){read}")
    for line in arithmetic_lines(answer.reason):
        yield "", line
    yield "", answer_words(answer)


def answer_words(answer: Answer) -> str:
    """What a source answered, for ``disk explain``."""
    match answer:
        case Wants():
            return UNLIMITED if answer.limits.unlimited else _listed(answer.limits.in_effect())
        case Unmanaged():
            return f"leave it alone: {words(answer.reason)}"
        case Unknown():
            return f"unknown: {words(answer.reason)}"
        case Silent():
            return "no limits" if answer.reason.code is Code.NO_LIMIT else words(answer.reason)


def wanted_words(wanted: Wants | Unmanaged | Unknown) -> str:
    if isinstance(wanted, Wants):
        return short_limits(wanted.limits)
    return "-" if isinstance(wanted, Unmanaged) else "unknown"


def in_force_words(in_force: Limits | Unknown | None) -> str:
    return short_limits(in_force) if isinstance(in_force, Limits) else "unknown"
