"""What the brake defers, in words: how many disks, the edits behind them, and the commands that approve it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence

from plimsoll_agent.messages.disk_lines import Manner, change_words, names_of, percent_of, severity_of, sign_of
from plimsoll_agent.messages.facts import large_words
from plimsoll_agent.messages.impacts import with_impacts
from plimsoll_agent.messages.limits import (
    exact_edit,
    short_edit,
)
from plimsoll_agent.messages.lines import REMEDY, CommandLine, DiskLine, Line, Severity, TextLine, alike
from plimsoll_agent.messages.sentences import (
    approve_words,
    deferred_words,
    words,
)
from plimsoll_agent.model.direction import Direction, share_left
from plimsoll_agent.model.limits import BASES
from plimsoll_agent.model.reason import Code, Reason
from plimsoll_agent.policy.diff import EXTERNAL
from plimsoll_agent.reconcile.brake import MANAGE
from plimsoll_agent.reconcile.outcome import Braked, Edit, Outcome, PassReport
from plimsoll_agent.util.text import minute, plural, printable

_BRAKE = "BRAKE"
_MOST_EDITS = 5
_MOST_BRAKED = 5
"""So many kinds of changes that the brake defers are listed."""


def is_braked(outcome: Outcome, report: PassReport) -> bool:
    return report.braked is not None and outcome.result.reason.code in (Code.BRAKED, Code.LARGE_CHANGE)


def brake_lines(report: PassReport, manner: Manner) -> Iterator[Line]:
    brake = report.braked
    if brake is None:
        return
    hows, raises = _hows(brake), sum(_is_raised(outcome, report) for outcome in report.outcomes)
    if raises:
        hows += f"; {raises} of these {'is a raise' if raises == 1 else 'are raises'} now, after an external change"
    waiting, others = _fates(brake, report)
    if others:
        yield TextLine(f"{_number(brake)}: {', '.join([*waiting, others])}", Severity.CUT, head=_BRAKE)
        yield TextLine(" " * (len(_BRAKE) + 2) + hows)
    else:
        yield TextLine(f"{_number(brake)} deferred: {hows}", Severity.CUT, head=_BRAKE)
    edits = list(edits_words(brake.edits, exact=manner.exact))
    if len(edits) > _MOST_EDITS:
        edits[_MOST_EDITS - 1 :] = [f"and {len(edits) - _MOST_EDITS + 1} more edits"]
    yield from (TextLine(" " * (len(_BRAKE) + 2) + line) for line in (*edits, *_earlier_lines(brake)))
    lines = ((o.disk.key, _brake_line(o, report, manner)) for o in report.outcomes)
    groups = list(alike(with_impacts(lines, manner.impacts)))
    first = groups if manner.every else groups[:_MOST_BRAKED]
    yield from first
    rest = sum(len(group.lines) for group in groups[len(first) :])
    if rest:
        others = plural(len(groups) - len(first), "other change")
        yield TextLine(f"  … {plural(rest, 'more disk')} with {others} ({REMEDY})")
    yield from (TextLine(line) for line in _unseen_lines(brake, report))
    yield from _approvals(brake, report, manner)


def _fates(brake: Braked, report: PassReport) -> tuple[list[str], str]:
    """How many of the disks are deferred now, and ``braked_otherwise``."""
    befores = [outcome for outcome in report.outcomes if outcome.result.reason.code is Code.DESIRED_BEFORE]
    number = sum(is_braked(outcome, report) for outcome in report.outcomes)
    if not report.scope.everything:  # guests that are not in this pass
        number += len(brake.keys - {outcome.disk.key for outcome in report.outcomes})
    causes = {words(Reason(o.change.cause)) for o in befores if o.change is not None and o.change.cause in EXTERNAL}
    others = braked_otherwise(
        len(brake.keys) - number, len(befores), f" ({causes.pop()})" if len(causes) == 1 else ""
    )
    return [f"{number} deferred"] if number else [], others


def braked_otherwise(number: int, befores: int, cause: str = "") -> str:
    """``1 gets its previous limit (external change), 1 held or unreachable``: the disks of the brake that are not
    deferred now.
    """
    limit = "gets its previous limit" if befores == 1 else "get their previous limits"
    parts = [f"{befores} {limit}{cause}"] if befores else []
    parts += [f"{number - befores} held or unreachable"] if number > befores else []
    return ", ".join(parts)


def _is_raised(outcome: Outcome, report: PassReport) -> bool:
    """Whether the change counts as a cut of what was desired last, and raises what an external change has left."""
    change, last = outcome.change, report.situation.memory.get(outcome.disk.key)
    if change is None or last is None or last.desired is None or not is_braked(outcome, report):
        return False
    is_cut = share_left(last.desired, change.after) < 0.5
    return is_cut and not change.before.unlimited and share_left(change.before, change.after) == 1.0


def _earlier_lines(brake: Braked) -> Iterator[str]:
    """``Counted too: 2 disks at 12:05 UTC (gold)``: what makes them too many."""
    if brake.many and brake.earlier:
        each = (f"{plural(e.disks, 'disk')} at {minute(e.at)}{_by(e.source)}" for e in brake.earlier)
        yield f"of the last hour count too: {', '.join(each)}"


def _by(source: str | None) -> str:
    return "" if source is None else f" ({printable(source)})"


def _brake_line(outcome: Outcome, report: PassReport, manner: Manner) -> DiskLine | None:
    """A deferred change as it would be made, with its source; one that is deferred for itself with its digest."""
    change, reason = outcome.change, outcome.result.reason
    if change is None or not is_braked(outcome, report):
        return None
    why = words(change.reason)
    last = report.situation.memory.get(outcome.disk.key)
    if last is not None and last.desired is not None and _is_raised(outcome, report):
        why += f"; desired before: {manner.limits(last.desired)}"
    if reason.code is Code.LARGE_CHANGE:
        if reason.facts.keys() & {"below", "times"}:
            why += f"; {large_words(reason.facts)}"
        why += f"; alone: {_approval(str(reason.facts['digest']), reason.facts['percent'] is None, manner)}"
    what = change_words(change.before, change.after, manner)
    return DiskLine(
        sign=sign_of(change),
        names=names_of(outcome.disk),
        what=what,
        why=why,
        severity=severity_of(change.before, change.after),
    )


def _unseen_lines(brake: Braked, report: PassReport) -> Iterator[str]:
    """Deferred disks without a change to show: unreachable, or of guests that are not in this pass."""
    if brake.many:  # they need no approval of their own, and those of this pass have their lines, or are counted
        rest = 0 if report.scope.everything else len(brake.keys - {outcome.disk.key for outcome in report.outcomes})
        if rest:
            yield f"  … {plural(rest, 'more disk')} of guests that are not in this pass"
        return
    keys = {outcome.disk.key for outcome in report.outcomes if outcome.change is not None}
    for key, reason in brake.alone.items():
        if key not in keys:
            disk = brake.named.get(key)
            name = key if disk is None else f"{disk.guest_name} {disk.target}"
            yield f"! {printable(name)}  {deferred_words(reason)}"


def brake_words(brake: Braked, whose: str = "") -> str:
    """``30 of 100 disks: 30 cut by more than half (to 1 %)``; ``whose`` comes before the colon."""
    return f"{_number(brake)}{whose}: {_hows(brake)}"


def _number(brake: Braked) -> str:
    return f"{len(brake.keys)} of {plural(brake.of, 'disk')}"


def _hows(brake: Braked) -> str:
    """``1 removed, 10 cut by more than half (to 1 % or more), 3 raised``."""
    shares = dict.fromkeys(map(percent_of, brake.left))
    share = f" (to {next(iter(shares))} %{' or more' * (len(shares) > 1)})" if shares else ""
    hows = (
        (brake.removed, "removed"),
        (brake.lowered, f"cut by more than half{share}"),
        (brake.low, "below the lowest limit"),
        (brake.added, "with a limit added"),
        (brake.raised, "raised"),
        (brake.managed, "managed again"),
        (brake.unmanaged, "no longer managed"),
    )
    return ", ".join(f"{number} {how}" for number, how in hows if number)


def _approvals(brake: Braked, report: PassReport, manner: Manner) -> Iterator[CommandLine]:
    """What approves all of it, on this node and, where it belongs to a region, on all nodes."""
    here = _approval(brake.revision, bool(brake.removed), manner)
    if not manner.region or manner.by_hand:
        yield CommandLine("If it is meant", here)
        return
    yield CommandLine("If it is meant, on this node", here)
    losses = (o.disk.volume_type for o in report.outcomes if o.disk.key in brake.keys and _removes(o))
    types = {printable(type) for type in losses if type is not None}
    of_specs = brake.catalogue is not None and all(edit.origin == Code.QOS_SPEC for edit in brake.edits)
    what = f"{brake.catalogue:.16}" if of_specs else f"--rules {brake.revision}"
    remove = " ".join(["--remove", *map(shlex.quote, sorted(types))]) if types else ""
    yield CommandLine(
        "On all nodes", " ".join(filter(None, ("plimsoll region approve", what, remove, "--reason TEXT")))
    )


def _approval(digest: str, remove: bool, manner: Manner) -> str:
    """The command that approves it on this node."""
    if manner.by_hand:
        return f"{manner.by_hand} --approve {digest:.16}{' --remove' * remove}"
    return approve_words(digest, remove)


def _removes(outcome: Outcome) -> bool:
    return outcome.change is not None and outcome.change.direction is Direction.REMOVE


def edits_words(edits: Iterable[Edit], *, exact: bool = False) -> Iterator[str]:
    """``QoS spec gold-iops: 3000 → 30 IOPS (12 disks)``; a range where it depends on the disk's size."""
    groups: dict[tuple[str, str, str], list[Edit]] = {}
    for edit in edits:
        groups.setdefault((edit.origin, edit.source, edit.parameter), []).append(edit)
    # Rates first: bursts and lengths follow from them. Of these what is cut most.
    for (origin, source, parameter), each in sorted(groups.items(), key=_edit_order):
        number = plural(sum(edit.disks for edit in each), "disk")
        if parameter == MANAGE:
            yield f"{_source(origin, source)}: manage: false ({number})"
            continue
        before, after = ([getattr(edit, side) for edit in each] for side in ("before", "after"))
        change = (exact_edit if exact else short_edit)(parameter, before, after)
        yield f"{_source(origin, source)}: {change} ({number})"


def _edit_order(item: tuple[tuple[str, str, str], Sequence[Edit]]) -> tuple[bool, float]:
    (_, _, parameter), edits = item
    return parameter not in BASES, min(_edit_share(edit) for edit in edits)


def _edit_share(edit: Edit) -> float:
    """What is left of the limit; 0 is unlimited."""
    if not isinstance(edit.before, int) or not isinstance(edit.after, int):
        return math.inf
    before, after = edit.before or math.inf, edit.after or math.inf
    return 0 if after == math.inf else after / before


def _source(origin: str, name: str) -> str:
    rule = 'rule "{}"'
    kinds = {Code.QOS_SPEC: "QoS spec {}", Code.RULE: rule, Code.RULE_UNMANAGES: rule, Code.FLAVOR: "flavor {}"}
    kind = kinds.get(Code(origin) if origin else Code.NODE_DEFAULT, "{}")
    return kind.format(printable(name))
