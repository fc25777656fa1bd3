"""The commands of ``plimsoll qos`` that query the region's Prometheus."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from plimsoll_agent.cli import qos
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError, Rejected, UsageError
from plimsoll_agent.model.impact import Impact
from plimsoll_agent.qos import balances, messages
from plimsoll_agent.qos.apply import How
from plimsoll_agent.qos.balances import BalanceResult
from plimsoll_agent.qos.effects import Cut, VolumeImpact
from plimsoll_monitoring.cli.base import PrometheusCommand
from plimsoll_monitoring.region import balances as known_balances
from plimsoll_monitoring.region import volume_use
from plimsoll_monitoring.region.answers import Ask

_MOST_NAMED = 20
_STEP, _MOST_WRITES = 5, 1000


class _WhoFeelsIt(PrometheusCommand):
    """What plan and apply share."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_source(parser)
        return parser

    def impacts(
        self, parsed_args: argparse.Namespace, settings: Settings, cuts: Sequence[Cut]
    ) -> tuple[VolumeImpact, ...]:
        """What the volumes did in the last week; unknown where Prometheus cannot be asked, which a warning says."""
        unknown = tuple(VolumeImpact(cut, None) for cut in cuts)
        if not cuts or not (settings.prometheus.url or parsed_args.prometheus):
            return unknown
        self.missing = "Prometheus has no averages of the {}"
        try:
            prometheus = self.connect(parsed_args, settings)
            limits = {cut.volume.id: (cut.before, cut.after) for cut in cuts}
            answers = volume_use.impacts(prometheus.query, limits, prometheus.renew)
        except PlimsollError as error:
            self.missing = "Prometheus was not asked about all of the {}"
            self.warn_of(f"{error}; what volumes used is unknown")
            return unknown
        prometheus.renew()
        servers = self._servers(prometheus.query, answers)
        for warning in prometheus.warnings:
            self.warn_of(warning)
        return tuple(VolumeImpact(cut, answers[cut.volume.id], servers.get(cut.volume.id)) for cut in cuts)

    def _servers(self, ask: Ask, answers: Mapping[str, Impact | None]) -> Mapping[str, str]:
        """Of the volumes that feel it most; without an answer their use is told all the same."""
        shares = {volume: impact.share for volume, impact in answers.items() if impact is not None}
        worst = sorted(shares, key=shares.__getitem__, reverse=True)[:_MOST_NAMED]
        try:
            return volume_use.guests_of(ask, worst)
        except PlimsollError as error:
            self.warn_of(f"{error}; servers of volumes are unknown")
            return {}


class QosPlan(_WhoFeelsIt, qos.QosPlan):
    __doc__ = qos.QosPlan.__doc__


class QosApply(_WhoFeelsIt, qos.QosApply):
    __doc__ = qos.QosApply.__doc__


class QosBalances(PrometheusCommand, qos.CloudCommand):
    """Show tenants what is saved of their volumes' bursts.

    It asks the region's Prometheus for what is saved of bursts and credits, and writes it into the metadata of
    attached volumes in Cinder, as plimsoll:burst_saved, with the time. Only what moved by a step is written, or came
    to 0 or 100 %, or is a day old. Where a volume has no burst any more it is removed. What is unknown is kept.

    It reads a thousand volumes in a call, and writes each in one.

    Exit status:
        0   every change was written
        3   some were not, or Prometheus' answer is incomplete
        1   error or nothing written
        64  usage

    Examples:
        plimsoll qos balances --dry-run
        plimsoll qos balances --step 10 --most 200
        plimsoll qos balances --cloud north
    """

    has_formats = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_source(parser)
        parser.add_argument("--dry-run", action="store_true", help="show what would be written; change nothing")
        parser.add_argument(
            "--step",
            type=int,
            metavar="PERCENT",
            default=_STEP,
            help=f"write what moved by so much of the burst; default: {_STEP}",
        )
        parser.add_argument(
            "--most",
            type=int,
            metavar="N",
            default=_MOST_WRITES,
            help=f"write so many, those that moved most; the next run has the others; default: {_MOST_WRITES}",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if not 1 <= parsed_args.step <= 100:
            raise UsageError("--step: must be 1 to 100")
        if parsed_args.most < 1:
            raise UsageError("--most: must be at least 1")
        settings = self.settings(parsed_args)
        prometheus = self.connect(parsed_args, settings)
        now = datetime.fromtimestamp(prometheus.now(), UTC)
        answers = {name: prometheus.query(question) for name, question in known_balances.questions().items()}
        current = known_balances.balances(answers, now, whole=not prometheus.warnings)
        for warning in prometheus.warnings:
            self.warn_of(f"{warning}; no balance is removed")
            self.status = 3
        if not current:
            raise Rejected(
                f"{self._name}: no disks that a pass observed in the last {known_balances.OLD.seconds // 60} minutes;"
                " nothing is written. plimsoll region status shows why"
            )
        api = self.cinder(parsed_args, settings)
        there = balances.shown(api)
        changes = balances.plan(there, current, now, parsed_args.step)
        rest = changes[parsed_args.most :]
        results: list[BalanceResult] = []
        if parsed_args.dry_run:
            for change in changes[: parsed_args.most]:
                self.say(messages.balance_line(change))
        else:
            for one in balances.write(changes[: parsed_args.most], api):
                results.append(one)
                if one.how not in (How.DONE, How.NOT_TRIED):
                    self.complain(messages.balance_fault(one))
        counts = messages.BalanceCounts(
            volumes=len(there),
            unknown=len(there.keys() - current.keys()),
            changes=len(changes),
            later=len(rest),
            calls=sum(api.calls.values()),
        )
        self.say(messages.balances_sum(counts, None if parsed_args.dry_run else results))
        faults = [one for one in results if one.how is not How.DONE]
        if not faults:
            return 0
        return 3 if len(faults) < len(results) else 1
