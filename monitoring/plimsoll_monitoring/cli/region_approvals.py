"""``plimsoll region approve``, ``approvals`` and ``withdraw``: approval for a whole region, at once or in stages."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from plimsoll_agent.app.context import who
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, Withdrawal
from plimsoll_agent.catalogue.orders_file import LastReading
from plimsoll_agent.catalogue.stages import ALL, ALWAYS, StageCheck, Stages
from plimsoll_agent.errors import UsageError
from plimsoll_agent.messages.catalogue import SHOWN, stage_lines
from plimsoll_agent.terminal.base import given_duration, given_reason
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import minute, printable
from plimsoll_monitoring.cli.region_orders import DECISION_COLUMNS, NEXT, RegionOrder, decision_cells

_APPROVAL_COLUMNS = (
    Column("of"),
    Column("digest"),
    Column("stage"),
    Column("remove", wraps=True),
    Column("disks", right=True),
    Column("percent", right=True),
    *DECISION_COLUMNS,
)
_DIGEST = re.compile(r"[0-9a-f]{16,64}", re.ASCII)
_WHOLE = 64
_PERCENT = re.compile(r"([0-9]{1,3}(?:[.][0-9]{1,2})?)%?", re.ASCII)
_MOST_STAGES = 20
DEFAULT_STAGES = "1%,10%,100%"
_WITHDRAWN_FOR = timedelta(days=30)
"""So long nodes that are down now learn that an approval was withdrawn."""
_MOST_APPROVALS = 50
"""Each node gets all of them, and the size of its catalogue is bounded."""


class RegionApprove(RegionOrder):
    """Approve a braked change for the whole region.

    An approval is for a time.

    DIGEST is that of a set of QoS specs and types, as the region's brake prints it: exactly these are then published,
    and allowed by the brakes of all nodes. --rules approves a revision of the nodes' rules, as their brakes print it.
    Limits may be removed only for the volume types that --remove names. --disks and --percent raise the bounds of
    [brake] on all nodes for any change; removals and cuts to a tenth still need approval.

    An approval also applies to nodes that come back later, until it ends.

    With --stages it counts first on a share of the nodes, and on more of them with each stage. A stage lasts --wait
    at least; then plimsoll catalogue refresh --region-file asks the Prometheus of the settings about the nodes that
    have it. The next stage begins if touched disks are not longer at their limits than before, probes ended and kept
    their promises, no limit was reverted or failed to be set, and Ceph is healthy. What is unknown stops it too.
    plimsoll region withdraw takes it back and restores the limits of before.

    Exit status:
        0   approved
        1   not approved
        64  usage, or QoS specs and types have changed since

    Examples:
        plimsoll region approve 0123456789abcdef --reason CHG-412
        plimsoll region approve 0123456789abcdef --stages 1%,100% --reason CHG-412
        plimsoll region approve 0123456789abcdef --remove gold --reason CHG-412
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "digest", metavar="DIGEST", nargs="?", help="digest of the QoS specs and types, at least 16 hex digits"
        )
        parser.add_argument(
            "--remove",
            metavar="TYPE",
            nargs="+",
            action="extend",
            default=[],
            help="volume types (names or IDs) whose volumes may lose their limits",
        )
        parser.add_argument("--rules", metavar="DIGEST", help="digest of a revision of the rules, all 64 hex digits")
        parser.add_argument("--disks", metavar="NUMBER", type=int, help="raise [brake] disks to this number")
        parser.add_argument("--percent", metavar="NUMBER", type=int, help="raise [brake] percent to this number")
        parser.add_argument("--for", dest="span", metavar="DURATION", default="7d", help="how long; default: 7d")
        parser.add_argument("--reason", metavar="TEXT", required=True, help="why; part of the signed file")
        stages = parser.add_argument_group("stages")
        stages.add_argument(
            "--stages", metavar="PERCENT,…", help="shares of nodes, as 1%%,10%%,100%%; the last is 100%%"
        )
        stages.add_argument("--wait", metavar="DURATION", help="how long a stage lasts at least; default: 30m")
        stages.add_argument(
            "--at-limit",
            metavar="POINTS",
            type=float,
            help="how many per cent more of the time touched disks may be at their limits than before; default: 5",
        )
        stages.add_argument(
            "--without",
            metavar="CONDITION",
            action="append",
            choices=[one.value for one in StageCheck if one not in ALWAYS],
            help="do not judge this condition: at-limit, verdicts, reverts, writes or health; repeatable",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        why, span = given_reason(parsed_args.reason), given_duration("--for", parsed_args.span)
        state, now, by = self.state(parsed_args), datetime.now(UTC), who()
        last = state.last()
        base = RegionApproval(
            of=Of.SPECS,
            digest="",
            since=now,
            until=now + span,
            by=by,
            why=why,
            remove=_types(parsed_args.remove, last),
        )
        approvals = _approvals(parsed_args, base, last)
        stages = _stages(parsed_args, span)
        with self.changing(state, now) as orders:
            if stages is not None:
                state.save_orders(_in_stages(approvals, stages, orders, last))
                self.say(
                    f"Approved until {minute(base.until)}: {_approval_words(approvals[0], last)}, in stages:"
                    f" {', '.join(f'{share:g} %' for share in stages.percent)} of the nodes, each for"
                    f" {durations.words(stages.wait)} at least."
                )
                self.say(NEXT)
                return 0
            if len(orders.approvals) + len(approvals) > _MOST_APPROVALS:
                raise UsageError(
                    f"there are {_MOST_APPROVALS} approvals already; wait until one ends, or end one with"
                    " plimsoll region withdraw"
                )
            # What is approved for all nodes at once is in no stage any more, and not withdrawn.
            others = tuple(one for one in orders.staged if not any(each.is_of(one) for each in approvals))
            returns = tuple(one for one in orders.withdrawals if not any(each.is_of(one) for each in approvals))
            every = (*orders.approvals, *approvals)
            state.save_orders(replace(orders, approvals=every, staged=others, withdrawals=returns))
        for one in approvals:
            self.say(f"Approved until {minute(one.until)}: {_approval_words(one, last)}.")
        self.say(NEXT)
        return 0


class RegionApprovals(RegionOrder, Listing):
    """List the present approvals of the region.

    Exit status:
        0   done
        1   they are unknown

    Examples:
        plimsoll region approvals
        plimsoll region approvals -f json
        plimsoll region approvals --region-file /srv/www/region.json
    """

    empty = "No approvals in the region; to approve: plimsoll region approve DIGEST --reason TEXT"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        now, state = datetime.now(UTC), self.state(parsed_args)
        orders, last = self.present(state, now), state.last()
        last_orders = last.orders if last is not None else Orders()
        approvals = [*orders.approvals, *(_published(one, last_orders) for one in orders.staged)]
        types = last.types if last is not None else {}
        self.closing = tuple(self._lines(orders, last))
        self.empty = "\n".join((self.empty, *self.closing))
        return _APPROVAL_COLUMNS, [
            (
                one.of.value,
                Shown(one.digest, one.digest[:SHOWN] or "-"),
                _stage(one),
                _names(one, types),
                *(number or None for number in (one.disks, one.percent)),
                *decision_cells(one, now),
            )
            for one in sorted(approvals, key=lambda one: (one.until, one.of, one.digest))
        ]

    @staticmethod
    def _lines(orders: Orders, last: LastReading | None) -> Iterator[str]:
        """What stops the next stage, and what was withdrawn."""
        if orders.staged and last is not None:
            yield from stage_lines(last.stops)
        for each in orders.withdrawals:
            yield (
                f"Withdrawn at {minute(each.since)} by {printable(each.by)}: {each.of.value} {each.digest[:SHOWN]};"
                " nodes that had it restore the limits of before."
            )


class RegionWithdraw(RegionOrder):
    """End approvals of the region early.

    An approval with stages is taken back: the QoS specs and types of before are published again, or nodes take back
    what the approval let through of their rules. The nodes that had it restore the limits of before; they raise and
    remove limits while Ceph is healthy only. Correct the specs in Cinder, or the rules, before the next approval.

    Of other approvals, specs and types that were published stay published, and changed limits stay changed.

    Exit status:
        0   withdrawn
        1   not withdrawn
        64  no such approval, or usage

    Examples:
        plimsoll region withdraw 0123456789abcdef
        plimsoll region withdraw 0123456789abcdef fedcba9876543210
        plimsoll region withdraw 0123456789abcdef --region-file /srv/www/region.json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "approvals",
            metavar="DIGEST",
            nargs="+",
            help="digest (at least 16 hex digits) as listed by plimsoll region approvals, or bounds",
        )
        parser.add_argument("--reason", metavar="TEXT", default="", help="why; part of the signed file")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        state, now = self.state(parsed_args), datetime.now(UTC)
        why = given_reason(parsed_args.reason) if parsed_args.reason else ""
        with self.changing(state, now) as orders:
            matches: list[RegionApproval] = []
            for word in dict.fromkeys(parsed_args.approvals):
                these = [one for one in (*orders.approvals, *orders.staged) if _is_meant(one, word.lower())]
                if not these:
                    raise UsageError(
                        f"{printable(word)}: no such approval of the region; see: plimsoll region approvals"
                    )
                matches += these
            returns = [_withdrawal(one, one.stages, now, why) for one in matches if one.stages is not None]
            others = [
                one for one in orders.withdrawals if (one.of, one.digest) not in {(r.of, r.digest) for r in returns}
            ]
            state.save_orders(
                replace(
                    orders,
                    approvals=tuple(one for one in orders.approvals if one not in matches),
                    staged=tuple(one for one in orders.staged if one not in matches),
                    withdrawals=(*others, *returns),
                )
            )
            last = state.last()
        for one in dict.fromkeys(matches):
            rest = "; nodes that had it restore the limits of before" if one.stages is not None else ""
            self.say(f"Withdrawn: {_approval_words(one, last)}{rest}.")
        self.say(NEXT)
        return 0


def _approvals(
    parsed_args: argparse.Namespace, base: RegionApproval, last: LastReading | None
) -> list[RegionApproval]:
    """What the options approve. Raises ``UsageError``."""
    approvals: list[RegionApproval] = []
    if parsed_args.digest is not None:
        approvals.append(_of_specs(base, parsed_args.digest, last))
    if parsed_args.rules is not None:
        approvals.append(replace(base, of=Of.RULES, digest=_whole(parsed_args.rules)))
    if parsed_args.disks is not None or parsed_args.percent is not None:
        disks, percent = parsed_args.disks or 0, parsed_args.percent or 0
        if not (0 <= disks <= 10**6 and 0 <= percent <= 100 and disks + percent):
            raise UsageError("--disks and --percent: a number from 1 on, and percent up to 100")
        approvals.append(replace(base, of=Of.BOUNDS, disks=disks, percent=percent, remove=frozenset()))
    if not approvals:
        raise UsageError("nothing to approve: give DIGEST, --rules, or --disks and --percent")
    if base.remove and not any(one.remove for one in approvals):
        raise UsageError("--remove needs DIGEST or --rules: bounds do not allow removals")
    return approvals


def _stages(parsed_args: argparse.Namespace, span: timedelta) -> Stages | None:
    """The stages that the options ask for; None without. Raises ``UsageError``."""
    if parsed_args.stages is None:
        for name in ("wait", "at_limit", "without"):
            if getattr(parsed_args, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} needs --stages")
        return None
    wait = given_duration("--wait", parsed_args.wait or "30m")
    points = 5.0 if parsed_args.at_limit is None else parsed_args.at_limit
    if not 0 <= points <= ALL:
        raise UsageError("--at-limit: from 0 to 100 points of per cent")
    without = frozenset(map(StageCheck, parsed_args.without or ()))
    stages = replace(percents(parsed_args.stages), wait=wait, at_limit=points, without=without)
    least = wait * (len(stages.percent) - 1)
    if span <= least:
        raise UsageError(
            f"--for: the approval would end before its last stage, {durations.words(least)} from now at the earliest"
        )
    return stages


def percents(text: str) -> Stages:
    """Stages with these shares of nodes. Raises ``UsageError``."""
    matches = [_PERCENT.fullmatch(word.strip()) for word in text.split(",")]
    shares = tuple(float(match[1]) for match in matches if match)
    try:
        if len(shares) != len(matches) or len(shares) > _MOST_STAGES:
            raise ValueError("no per cent")
        return Stages(percent=shares, wait=timedelta())
    except ValueError as error:
        raise UsageError(
            f"--stages: {printable(text)}: write shares of nodes that grow, the last of them 100%, as in"
            f" {DEFAULT_STAGES}"
        ) from error


def _begun(
    stages: Stages, approval: RegionApproval, earlier: RegionApproval | None, last: LastReading | None
) -> Stages:
    """The stages with what nodes that they have not reached use, and when they began. Raises ``UsageError``."""
    if earlier is not None and earlier.stages is not None:
        # Some nodes have it since then, also if a withdrawal was not published.
        return replace(stages, before=earlier.stages.before, types=earlier.stages.types, began=earlier.began)
    if approval.of is not Of.SPECS or last is None:
        return stages
    if last.read == last.published:
        raise UsageError(f"{approval.digest[:SHOWN]} is published on all nodes already: it cannot come in stages")
    types = tuple(sorted(last.types.get(id, id) for id in last.touched))
    return replace(stages, before=last.published, types=types)


def _in_stages(
    approvals: Sequence[RegionApproval], stages: Stages, orders: Orders, last: LastReading | None
) -> Orders:
    """The orders with that approval in stages, the only one that has not reached all nodes. Raises ``UsageError``."""
    if len(approvals) != 1 or approvals[0].of is Of.BOUNDS:
        raise UsageError("--stages is for one change: give DIGEST or --rules, without --disks and --percent")
    (one,) = approvals
    again = next((each for each in orders.staged if each.is_of(one)), None)
    last_orders = last.orders if last is not None else Orders()
    going = [each for each in orders.staged if each is not again and not _published(each, last_orders).complete]
    if going:
        raise UsageError(
            f"{_approval_words(going[0], last)} has not reached all nodes yet; withdraw it first, so that what is"
            " judged has one cause: plimsoll region withdraw " + going[0].digest[:SHOWN]
        )
    earlier = again or next((each for each in last_orders.staged if each.is_of(one)), None)
    stages = _begun(stages, one, earlier, last)
    # One that has reached all nodes is as any other from now on.
    others = (*orders.approvals, *(replace(each, stages=None) for each in orders.staged))
    return replace(
        orders,
        approvals=tuple(each for each in others if not each.is_of(one)),
        staged=(replace(one, stages=stages),),
        withdrawals=tuple(each for each in orders.withdrawals if not one.is_of(each)),
    )


def _published(one: RegionApproval, last: Orders) -> RegionApproval:
    """With the progress of its stages."""
    return next((each for each in last.staged if each.is_of(one) and each.since == one.since), one)


def _withdrawal(one: RegionApproval, stages: Stages, now: datetime, why: str) -> Withdrawal:
    return Withdrawal(
        of=one.of,
        digest=one.digest,
        before=stages.before,
        began=one.began,
        since=now,
        until=now + _WITHDRAWN_FOR,
        by=who(),
        why=why or one.why,
    )


def _stage(one: RegionApproval) -> Shown:
    stages = one.stages
    if stages is None:
        return Shown(None, "-")
    data = {
        "percent": list(stages.percent),
        "reached": stages.reached + 1,
        "entered": None if stages.entered is None else stages.entered.isoformat(timespec="seconds"),
    }
    if stages.entered is None:
        return Shown(data, "not published yet")
    return Shown(data, f"{stages.reached + 1} of {len(stages.percent)} ({stages.share:g} %)")


def _is_meant(one: RegionApproval, word: str) -> bool:
    if one.of is Of.BOUNDS:
        return word == Of.BOUNDS
    return _DIGEST.fullmatch(word) is not None and one.digest.startswith(word)


def _names(one: RegionApproval, types: Mapping[str, str]) -> Shown:
    """The names of the volume types whose limits may be removed."""
    names = sorted(types.get(id, id) for id in one.remove)
    return Shown(names, ", ".join(map(printable, names)) or "-")


def _of_specs(base: RegionApproval, word: str, last: LastReading | None) -> RegionApproval:
    """Raises ``UsageError``."""
    if last is None:
        raise UsageError(f"{printable(word)}: no QoS specs read yet; run plimsoll catalogue refresh --region-file")
    digest = word.lower()
    if not _DIGEST.fullmatch(digest):
        raise UsageError(f"{printable(word)}: give at least {SHOWN} hex digits of the printed digest")
    digests = [whole for whole in dict.fromkeys((last.read, last.published)) if whole.startswith(digest)]
    if len(digests) != 1:
        raise UsageError(
            f"{digest[:SHOWN]} is not the digest of the QoS specs and types that were read last"
            f" ({last.read[:SHOWN]}, {minute(last.at)}); run plimsoll catalogue refresh --region-file"
        )
    if digests[0] == last.read and (rest := last.removals - base.remove):
        names = ", ".join(sorted(printable(last.types.get(id, id)) for id in rest))
        raise UsageError(
            f"{digest[:SHOWN]} would remove the limits of volumes of type {names}; to allow that, add --remove"
        )
    return replace(base, digest=digests[0])


def _whole(word: str) -> str:
    digest = word.lower()
    if not (_DIGEST.fullmatch(digest) and len(digest) == _WHOLE):
        raise UsageError(
            f"--rules: {printable(word)}: give all {_WHOLE} hex digits (braked.revision of plimsoll plan -f json):"
            " this machine does not have the nodes' rules"
        )
    return digest


def _types(names: Sequence[str], last: LastReading | None) -> frozenset[str]:
    """The ids of volume types. Raises ``UsageError``."""
    types = last.types if last is not None else {}
    selection: set[str] = set()
    for name in names:
        ids = [id for id, one in types.items() if name in (id, one)]
        if not ids:
            raise UsageError(f"--remove: {printable(name)}: no such volume type; see: openstack volume type list")
        selection.update(ids)
    return frozenset(selection)


def _approval_words(one: RegionApproval, last: LastReading | None) -> str:
    match one.of:
        case Of.SPECS:
            text = f"QoS specs and types {one.digest[:SHOWN]}"
        case Of.RULES:
            text = f"rules {one.digest[:SHOWN]}"
        case Of.BOUNDS:
            text = f"bounds of the nodes' brakes: {one.disks} disks, {one.percent} %"
    types = last.types if last is not None else {}
    names = ", ".join(sorted(printable(types.get(id, id)) for id in one.remove))
    return f"{text}, removals of {names}" if names else text
