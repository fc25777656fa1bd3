"""``plimsoll gate``: whether a rollout may continue after this node."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import timedelta

from plimsoll_agent.adapters import container, units
from plimsoll_agent.errors import UsageError
from plimsoll_agent.monitor.thresholds import MEASURE, Level
from plimsoll_agent.terminal.moments import moment_of, seconds_of
from plimsoll_agent.terminal.page import Page
from plimsoll_agent.terminal.problems import Line
from plimsoll_agent.util.distribution import version
from plimsoll_agent.util.text import ago, printable
from plimsoll_monitoring.cli.status import look
from plimsoll_monitoring.node import gate, status_words
from plimsoll_monitoring.node.status import NodeStatus
from plimsoll_monitoring.node.until_healthy import GateDependencies, GateResult, after_passes
from plimsoll_probes.cli.base import HistoryCommand, now


class GateCommand(HistoryCommand, Page):
    """Judge this node for a rollout.

    A node is healthy when this version of plimsoll made the last pass, no figure of plimsoll status is critical or
    unknown, and none is a warning, except for what --tolerate and --tolerate-warnings name. In mode observe the
    figures behind and unlimited are ignored. With --pass, systemd makes a pass first (the daemon, where it runs,
    and in its container).

    Exit status:
        0   healthy
        3   not healthy
        1   systemd does not answer
        64  usage

    Examples:
        plimsoll gate
        plimsoll gate --pass --wait 5m
        plimsoll gate --by-version 1.0.0 --tolerate paused
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--pass", dest="makes_pass", action="store_true", help="make a pass first; as root")
        parser.add_argument(
            "--wait",
            metavar="DURATION",
            help="with --pass: make another pass every ten seconds while the node is not healthy, for so long;"
            " an approval or the end of a pause is not waited for",
        )
        parser.add_argument(
            "--since",
            metavar="TIME",
            help="the last pass must have started at this time or later, as of undo --since",
        )
        parser.add_argument(
            "--by-version", metavar="VERSION", help="the version that must have made the last pass; default: this one"
        )
        parser.add_argument(
            "--tolerate",
            metavar="FIGURE",
            action="append",
            choices=sorted(MEASURE),
            default=[],
            help="this figure may be a warning or unknown; may be repeated. check_plimsoll(1) lists all figures",
        )
        parser.add_argument(
            "--tolerate-warnings",
            action="store_true",
            help=f"any figure may be a warning, except {', '.join(sorted(gate.BY_NAME))}",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[object]]:
        if parsed_args.wait is not None and not parsed_args.makes_pass:
            raise UsageError("--wait: only with --pass")
        if parsed_args.since is not None and parsed_args.makes_pass:
            raise UsageError("--since: not with --pass, which judges the pass that it makes")
        settings, options = self.settings(parsed_args), self.app.settings_options
        requirements = gate.Requirements(
            parsed_args.by_version or version(),
            None if parsed_args.since is None else moment_of("--since", parsed_args.since, now()),
            gate.Tolerance(frozenset(parsed_args.tolerate), parsed_args.tolerate_warnings),
        )

        def look_here() -> NodeStatus:
            return look(settings, now(), options)

        if parsed_args.makes_pass:
            wait = timedelta(seconds=0 if parsed_args.wait is None else seconds_of("--wait", parsed_args.wait))
            reload_daemon = container.reload_daemon if container.is_here() else None
            result = after_passes(
                GateDependencies(
                    units=self.units, look=look_here, now=now, sleep=time.sleep, reload_daemon=reload_daemon
                ),
                requirements,
                wait,
            )
        else:
            here = look_here()
            result = GateResult(here, gate.faults(here, requirements))
        self.status = 3 if result.faults else 0
        self.opening = [Line(fault.level, fault.words, fault.do) for fault in result.faults]
        last = result.status.last
        if last is not None and not self.opening:
            self.opening = [Line(Level.OK, status_words.disks_words(last))]
        return self.page(parsed_args, _facts(result.status), gate.data(result.status, result.faults, result.passes))

    units = units


def _facts(here: NodeStatus) -> dict[str, str]:
    last = here.last
    if last is None:
        return {"last pass": "unknown" if "pass" in here.complaints else "none"}
    mode = "enforce" if last.enforcing else "observe"
    return {"last pass": f"{ago(last.ended, here.now)}, by plimsoll {printable(last.version)}, mode {mode}"}
