"""``plimsoll disk hold``: an operator's exception for one disk, until a given time."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime

from plimsoll_agent.app.context import PATIENCE, pass_context, run, who
from plimsoll_agent.app.guest_pass import guests_locked
from plimsoll_agent.app.node import now_of, pause_actual, state_of
from plimsoll_agent.cli.disk import OneOrMany
from plimsoll_agent.cli.many import agree
from plimsoll_agent.cli.operator_entries import (
    OR_A_RULE,
    OperatorEntryList,
    add_choice,
    all_chosen,
    columns_with,
    name_of,
    save,
    server_of,
    tell_notes,
)
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.messages import sentences, serialize
from plimsoll_agent.messages.disk_lines import Manner, held_line, outcome_line
from plimsoll_agent.messages.facts import minute_words
from plimsoll_agent.messages.limits import set_options
from plimsoll_agent.messages.plan import closing_lines, told_at_once
from plimsoll_agent.model.direction import dropped
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import Happening
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.policy.decide import Desired, Unmanaged
from plimsoll_agent.reconcile.outcome import Kind, Mode, Outcome, PassReport, Scope
from plimsoll_agent.store.node_store import NodeStore, hold_event
from plimsoll_agent.store.state import Memory
from plimsoll_agent.terminal.base import (
    LocalCommand,
    add_verbose,
    given_duration,
    given_reason,
    limits_from,
    limits_with,
    values_from,
)
from plimsoll_agent.terminal.changes import laid_out
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.locks import ByteLocks
from plimsoll_agent.util.text import minute, printable

_IGNORES = " (ignores the health gate)"


class HoldAdd(OneOrMany):
    """Hold a disk, or many, at its limits, or at others, for a time.

    Many: all disks of a project, type, pool or server.

    A hold comes before all rules and sources, except a rule with manage: false. In mode enforce a pass over the guest
    follows at once. No limit is raised or removed while the Ceph cluster is unhealthy, unless --ignore-health is
    given. When the hold ends, the disk gets the limits that rules and sources set, or, if they set none, the limits
    from before the hold. A second hold on a disk replaces the first.

    Of many disks it asks for their number; those that cannot be held are listed, and left out of it. The disks are
    those of now: one that is attached later is not held.

    A hold outlasts restarts of the guest and of the node, and follows a live migration. It does not follow a cold
    migration, a resize or an evacuation: add it again on the new node.

    Exit status:
        0   held, and its limits applied (not in mode observe)
        3   held, but its limits deferred, failed or unknown
        1   not held
        64  usage

    Examples:
        plimsoll disk hold add instance-00000412 vda --for 2h --reason "backup"
        plimsoll disk hold add instance-00000412 vda --for 2h --set total_iops_sec=200 --reason noisy
        plimsoll disk hold add instance-00000412 vda --for 1d --limits unlimited --reason move --dry-run
    """

    writes = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--for", dest="span", metavar="DURATION", required=True, help="how long: 2h, 90m, 1d12h")
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--set",
            dest="values",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="change this limit and keep the others (--set total_iops_sec=2k); 0 removes it; may be repeated",
        )
        which.add_argument(
            "--limits",
            metavar="NAME=VALUE[,...]",
            help="the full set (total_iops_sec=2k,total_bytes_sec=100MiB; the rest is unlimited), or unlimited;"
            " default: the disk's present limits",
        )
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; shown with the disk")
        parser.add_argument("--dry-run", action="store_true", help="show what would be held; change nothing")
        parser.add_argument(
            "--ignore-health",
            action="store_true",
            help="raise or remove limits for this hold even while the Ceph cluster is unhealthy; the call may hang",
        )
        add_verbose(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        span, why = given_duration("--for", parsed_args.span, OR_A_RULE), given_reason(parsed_args.reason)
        full_set, values = limits_from(parsed_args.limits), values_from(parsed_args.values)
        manner = Manner(exact=self.wants_exact(parsed_args))
        settings = self.settings(parsed_args)
        state = state_of(settings)
        if not parsed_args.dry_run:
            state.prepare()
        pairs = self._meant(parsed_args, full_set, values, manner)
        self.status = 0  # from here on the status of the hold

        def holds_from(now: datetime) -> list[tuple[Disk, Hold]]:
            return [
                (
                    disk,
                    Hold(
                        disk=disk.named,
                        limits=limits,
                        since=now,
                        until=now + span,
                        by=who(),
                        why=why,
                        ignore_health=parsed_args.ignore_health,
                    ),
                )
                for disk, limits in pairs
            ]

        if parsed_args.dry_run:
            return self._show(holds_from(now_of(state)), manner)
        if parsed_args.guest is None:
            agree(self, "holds", [disk for disk, _ in pairs], parsed_args.disks)
        with guests_locked(state, {disk.guest.uuid for disk, _ in pairs}, patience=PATIENCE) as locks:
            now, node_store = now_of(state), NodeStore(state, who())
            holds = holds_from(now)
            with node_store.changing(now) as memory:
                tell_notes(node_store, self)
                earlier = [memory.holds[disk.key] for disk, _ in holds if disk.key in memory.holds]
                events = [hold_event(each, Happening.HOLD_ENDED, now, who()) for each in earlier]
                events += [hold_event(hold, Happening.HOLD_ADDED, now, who()) for _, hold in holds]
                save(
                    state, replace(memory, holds={**memory.holds, **{disk.key: hold for disk, hold in holds}}), events
                )
            lines = [
                f"{name_of(hold)}  held until {minute(hold.until)}: {_held_at(hold.limits, manner)}"
                for _, hold in holds
            ]
            status = self._apply(settings, holds, locks, lines, manner)
        # Without the lock, which a pager or a stopped terminal would hold.
        self.app.stdout.writelines(f"{line}\n" for line in lines)
        return status

    def _meant(
        self, parsed_args: argparse.Namespace, full_set: Limits | None, values: Mapping[str, int], manner: Manner
    ) -> list[tuple[Disk, Limits | None]]:
        """The disks with the limits to hold. Raises ``UsageError`` for the one disk that cannot be held."""
        pairs = []
        for outcome in self.find_all(parsed_args):
            try:
                desired = outcome.decision.desired
                if isinstance(desired, Unmanaged) and desired.reason.code is Code.RULE_UNMANAGES:
                    name, why = sentences.disk_name(outcome.disk), sentences.words(desired.reason)
                    raise UsageError(f"{name}: {why}; a hold cannot override that")
                of = "" if parsed_args.guest is not None else f"{sentences.disk_name(outcome.disk)}: "
                pairs.append((outcome.disk, self._limits(outcome, values, manner, of) if values else full_set))
            except UsageError as error:
                if parsed_args.guest is not None:
                    raise
                self.warn_of(f"left out: {error}")
                continue
            if full_set is not None:
                self._warn(outcome, full_set, of)
        return pairs

    def _limits(self, outcome: Outcome, values: Mapping[str, int], manner: Manner, of: str) -> Limits:
        """The disk's limits with the ones of ``--set``; says which limits these are where it has two sets.

        ``of`` precedes that: the disk, where it is one of many.
        """
        name, decision, actual = sentences.disk_name(outcome.disk), outcome.decision, outcome.disk.actual
        desired = _desired(outcome)
        present = desired or actual
        if not isinstance(present, Limits):
            why = "" if present is None else f": {sentences.words(present.reason)}"
            raise UsageError(f"{name}: its limits are unknown{why}; give the full set with --limits")
        if present.group_name is not None:
            group = printable(present.group_name)
            raise UsageError(
                f"{name} shares its limits with others, as group {group}; a hold ends that for this disk, so give the"
                " full set with --limits"
            )
        which = manner.limits(present)
        if desired is None and present != Limits():
            unknown = isinstance(decision.aside or decision.desired, Unknown)
            why = "desired ones are unknown" if unknown else "no source desires others"
            self.app.stdout.write(f"{of}--set changes the actual limits ({which}): {why}.\n")
        elif desired is not None and actual != desired:
            now = sentences.actual_words(actual, exact=manner.exact)
            self.app.stdout.write(f"{of}--set changes the desired limits ({which}); the actual ones are {now}.\n")
        return limits_with(present, values)

    def _warn(self, outcome: Outcome, limits: Limits, of: str) -> None:
        """Which limits of the disk are not in ``--limits``, and how they stay."""
        present = _desired(outcome) or outcome.disk.actual
        losses = dropped(present, limits) if isinstance(present, Limits) else ()
        if losses and not limits.unlimited and isinstance(present, Limits):
            self.warn_of(
                f"{of}--limits is the full set, and removes {' and '.join(losses)};"
                f" to keep that: {set_options(present, limits)}"
            )

    def _show(self, holds: Sequence[tuple[Disk, Hold]], manner: Manner) -> int:
        for line in laid_out([held_line(disk, hold, manner) for disk, hold in holds], self.terminal, every=True):
            self.app.stdout.write(f"{line}\n")
        self.app.stdout.write("Dry run: nothing is written.\n")
        return 0

    def _apply(
        self,
        settings: Settings,
        holds: Sequence[tuple[Disk, Hold]],
        locks: ByteLocks,
        lines: list[str],
        manner: Manner,
    ) -> int:
        """Returns the exit status; lines for standard output go to ``lines``."""
        if Mode(settings.mode) is Mode.OBSERVE:
            lines.append("Mode is observe: the hold is saved, no limit is written.")
            return 0
        try:
            report = self._pass(settings, {disk.guest.uuid for disk, _ in holds}, locks, lines, manner)
        except PlimsollError as error:
            self.warn_of(f"{error}\nHeld, but not applied; the next pass tries again.")
            return 3
        status, outcomes = 0, {outcome.disk.key: outcome for outcome in report.outcomes}
        for disk, hold in holds:
            outcome = outcomes.get(disk.key)
            if outcome is None:
                if not report.unreachable:
                    lines.append(f"{sentences.disk_name(disk)}  is no longer attached")
                status = 3
            elif hold.limits is not None:
                success = outcome.result.kind in (Kind.IN_SYNC, Kind.CHANGED) and outcome.after.actual == hold.limits
                status = status if success else 3
        return status

    def _pass(
        self, settings: Settings, guests: Set[str], locks: ByteLocks, lines: list[str], manner: Manner
    ) -> PassReport:
        """A pass over the guests; its lines go to ``lines``."""
        context = pass_context(settings, read_only=False, locks=locks)
        if context.complaint and self._sound:  # else it was printed when the disk was looked up
            self.warn_of(context.complaint)
        with self.libvirt(settings) as hypervisor:
            report = run(settings, hypervisor, context, scope=Scope(frozenset(guests)), mode=Mode.ENFORCE)
        outcome_lines = [
            line for o in filter(told_at_once, report.outcomes) if (line := outcome_line(o, manner)) is not None
        ]
        *below, _sum = closing_lines(report, manner)
        lines += laid_out([*outcome_lines, *below], self.terminal, every=True)
        return report


class HoldEnd(LocalCommand):
    """End a hold early, or many.

    Many: all of a project, type, pool or server; it asks for their number.

    The next pass in mode enforce applies the desired limits.

    Exit status:
        0   ended
        1   not ended
        64  no such hold, or usage

    Examples:
        plimsoll disk hold end instance-00000412 vda
        plimsoll disk hold end instance-00000412 vda --reason "backup is done"
        plimsoll disk hold end instance-00000412
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_choice(parser, "held")
        parser.add_argument("--reason", metavar="TEXT", help="why; kept in the record")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = self.settings(parsed_args)
        state = state_of(settings)
        state.prepare()
        now, node_store = now_of(state), NodeStore(state, who())
        none = "no hold on {}; see: plimsoll disk hold list"
        memory = node_store.recall(now, read_only=False)
        tell_notes(node_store, self)
        server = server_of(parsed_args, memory.holds.values(), state)
        matches = all_chosen(parsed_args, memory.holds.values(), now, none, state)
        if server is not None:
            server.confirm(self, sure=parsed_args.yes)
        if parsed_args.guest is None:
            agree(self, "ends the holds of", [hold.disk for hold in matches], parsed_args.disks)
        keys, guests = {hold.disk.key for hold in matches}, {hold.disk.guest_uuid for hold in matches}
        # A pass over the guest may be writing the hold into its metadata.
        with guests_locked(state, guests, patience=PATIENCE), node_store.changing(now) as memory:
            matches = all_chosen(parsed_args, memory.holds.values(), now, none, state)
            matches = [hold for hold in matches if hold.disk.key in keys]
            events = [hold_event(hold, Happening.HOLD_ENDED, now, who()) for hold in matches]
            if parsed_args.reason:
                early = printable(parsed_args.reason)
                events = [
                    replace(event, reason=replace(hold.reason, facts={**hold.reason.facts, "ended": early}))
                    for event, hold in zip(events, matches, strict=True)
                ]
            others = {key: each for key, each in memory.holds.items() if each not in matches}
            save(state, replace(memory, holds=others), events)
        then = next_words(settings, "applies the desired limits")
        self.app.stdout.writelines(f"{name_of(hold)}  no longer held; {then}\n" for hold in matches)
        return 0


class HoldList(OperatorEntryList):
    """List the holds on this node.

    Exit status:
        0   done
        1   the holds are unknown (memory file damaged or unreadable)

    Examples:
        plimsoll disk hold list
        plimsoll disk hold list --sort-column until
        plimsoll disk hold list -f json
    """

    none = "No holds on this node; to add one: plimsoll disk hold add"
    columns = columns_with(Column("limits", wraps=True))

    def entries(self, memory: Memory) -> Iterable[Hold]:
        return memory.holds.values()

    def own_cells(self, entry: Hold) -> tuple[object, ...]:
        return (Shown(serialize.limits_data(entry.limits), _held_at(entry.limits)),)

    def why(self, entry: Hold) -> object:
        return Shown(entry.why, entry.why + (_IGNORES if entry.ignore_health else ""))


def next_words(settings: Settings, does: str) -> str:
    """What the next pass ``does`` after a decision of an operator, if it writes."""
    pause = pause_actual(settings, now_of(state_of(settings)))
    if pause is not None:
        command = "plimsoll region resume" if pause.facts.get("region") else "plimsoll resume"
        end = f"{minute_words(pause.facts['until'])} or " if pause.facts.get("until") else ""
        return f"the node is paused: nothing will be written until {end}{command}"
    if Mode(settings.mode) is Mode.OBSERVE:
        return "mode is observe: nothing will be written"
    return f"the next pass {does}"


def _held_at(limits: Limits | None, manner: Manner = Manner()) -> str:  # noqa: B008  # it is frozen
    return "present limits" if limits is None else manner.limits(limits)


def _desired(outcome: Outcome) -> Limits | None:
    """Its desired limits; those of a hold that is not in force yet do not count."""
    for answer in (outcome.decision.desired, outcome.decision.aside):
        if isinstance(answer, Desired):
            waits = answer.reason.code is Code.HOLD and answer.limits != outcome.disk.actual
            if not waits:
                return answer.limits
    return None
