"""Why a disk has its limits: the answers of all sources, for ``disk explain`` and ``top``."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.catalogue.orders import Orders, RegionApproval
from plimsoll_agent.catalogue.stages import Stages
from plimsoll_agent.credits.ledger import Account, bursts
from plimsoll_agent.messages import ceilings, congestion, sentences, serialize
from plimsoll_agent.messages.catalogue import SHOWN, stages_words
from plimsoll_agent.messages.record import entry_data, reason_words
from plimsoll_agent.messages.savings import saved_data, saved_words
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import RecordedChange
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.policy.decide import Answer, Desired, NoOpinion, Situation, Unmanaged
from plimsoll_agent.policy.reduced import reduced
from plimsoll_agent.reconcile.outcome import Kind, Outcome
from plimsoll_agent.reconcile.savings import account_of
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import StateError
from plimsoll_agent.util.text import minute, printable


def head(disk: Disk) -> str:
    """The disk in a line."""
    guest = disk.guest
    project = guest.project_name or guest.project
    parts: tuple[str, ...] = (
        f"volume {disk.volume_id}" if disk.volume_id else f"own disk {disk.image}",
        *(() if disk.size is None else (sentences.short_size(disk.size),)),
        f"pool {disk.pool}",
        f"guest {guest.name}" + (f" ({guest.display_name})" if guest.display_name else ""),
        f"project {project}" if project else "not created by Nova",
    )
    if disk.shareable:
        parts += ("multi-attached: each attachment is limited separately",)
    return printable(", ".join(parts))


def _has_burst(disk: Disk, account: tuple[Limits, Account | None]) -> bool:
    """Whether a burst is actual or known, not only desired."""
    return account[1] is not None or not isinstance(disk.actual, Limits) or bool(bursts(disk.actual))


def rows(outcome: Outcome, situation: Situation, record: Record, *, exact: bool = False) -> list[tuple[str, str]]:
    """Each source with its answer, in the order in which they are asked; then desired, actual and its history."""
    disk, desired = outcome.disk, outcome.decision.desired
    lines = [line for step in outcome.decision.trail for line in sentences.step_lines(step, situation, exact=exact)]
    lines.append(("desired", f"{sentences.desired_words(desired, exact=exact)}, {sentences.words(desired.reason)}"))
    if (words := congestion.words(reduced(disk, outcome.decision, situation))) is not None:
        lines.append(("congestion", words))
    lines += [("ceiling", words) for words in ceilings.lines(ceilings.ceilings_of(outcome, situation), disk)]
    lines.append(("actual", sentences.actual_words(disk.in_force, exact=exact) + _history(disk, record)))
    if (account := account_of(outcome, situation.accounts)) is not None and _has_burst(disk, account):
        lines.append(("saved", saved_words(*account)))
    if disk.drifted:
        lines.append(("defined", f"{sentences.actual_words(disk.defined, exact=exact)} (libvirt's definition)"))
    if outcome.acknowledged is not None:
        lines.append(("state", f"unknown, {sentences.words(outcome.acknowledged)}"))
    if outcome.result.kind is Kind.DEFERRED:
        lines.append(("state", sentences.state_words(outcome)))
    if outcome.result.kind is Kind.PLANNED:
        past = _past(outcome, record)
        state, why = sentences.state_word(outcome, past), sentences.state_reason(outcome, past)
        lines.append(("state", f"{state} {why}" if why.startswith("since ") else f"{state}: {why}"))
    lines += [("stage", text) for text in _stage_lines(situation.orders)]
    if outcome.result.reason.code is Code.ORPHANED:
        lines.append(("to remove", sentences.approve_words(str(outcome.result.reason.facts["digest"]), remove=True)))
    return lines


def _stage_lines(orders: Orders) -> Iterator[str]:
    """The stage of this node in each approval of the region that has some."""
    for one, stages, stage in _stages(orders):
        here = "reached" if stage <= stages.reached else f"not yet: {stages_words(stages)}"
        yield (
            f"{stage + 1} of {len(stages.percent)} ({stages.percent[stage]:g} % of nodes) of approval"
            f" {one.digest[:SHOWN]} of {one.of.value}: {here}"
        )


def _stages(orders: Orders) -> list[tuple[RegionApproval, Stages, int]]:
    position = orders.position
    if position is None:
        return []
    return [(one, one.stages, one.stages.of(position)) for one in orders.staged if one.stages is not None]


def data(outcome: Outcome, situation: Situation, past: RecordedChange | None, record: Record) -> dict[str, object]:
    """The same as plain data; answers are ``limits``, ``no-opinion``, ``unmanaged`` or ``unknown``.

    ``past`` is the change ``behind`` a planned one.
    """
    disk = outcome.disk
    try:
        last = record.last_actual(disk.key)
    except StateError:
        last = None
    account = account_of(outcome, situation.accounts)
    return serialize.disk_data(disk) | {
        "sources": [{"source": step.asked} | _answer_data(step.answer) for step in outcome.decision.trail],
        "desired": _answer_data(outcome.decision.desired),
        "congestion": congestion.data(reduced(disk, outcome.decision, situation)),
        "ceilings": ceilings.data(ceilings.ceilings_of(outcome, situation)),
        "actual": serialize.limits_data(disk.in_force),
        "defined": serialize.limits_data(disk.found.defined),
        "saved": {} if account is None else saved_data(*account),
        "last_change": None if last is None else entry_data(last),
        "state": outcome.result.kind.value,
        "reason": serialize.state_reason_data(outcome, past),
        "stages": [
            {
                "approval": one.digest,
                "of": one.of.value,
                "stage": stage + 1,
                "stages": len(stages.percent),
                "percent": stages.percent[stage],
                "reached": stage <= stages.reached,
            }
            for one, stages, stage in _stages(situation.orders)
        ],
    }


def _past(outcome: Outcome, record: Record) -> RecordedChange | None:
    try:
        return sentences.behind(outcome, record.last_change(outcome.disk.key))
    except StateError:  # ``actual`` says so
        return None


def _answer_data(answer: Answer) -> dict[str, object]:
    match answer:
        case Desired():
            kind = "limits"
        case Unmanaged():
            kind = "unmanaged"
        case Unknown():
            kind = "unknown"
        case NoOpinion():
            kind = "no-opinion"
    limits = serialize.limits_data(answer.limits) if isinstance(answer, Desired) else None
    return {"answer": kind, "limits": limits, "reason": answer.reason.as_record()}


def _history(disk: Disk, record: Record) -> str:
    if not isinstance(disk.actual, Limits):
        return f", {sentences.words(disk.actual.reason)}" if disk.actual else ""
    try:
        last = record.last_actual(disk.key)
    except StateError as error:
        return f", since when is unknown ({error})"
    if last is None or disk.actual != last.after:
        if disk.mark is not None and disk.mark.applied == disk.actual:
            return ", set by plimsoll (not in this node's record)"
        return "" if disk.actual.unlimited else ", not set by plimsoll"
    by = printable(last.by)
    return f", since {minute(last.at)} (by plimsoll: {reason_words(last.reason)}; run by {by})"
