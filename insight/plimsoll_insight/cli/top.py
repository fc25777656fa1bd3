"""``plimsoll top``: also the sentence for the tenant of a disk, and the last week by the region's Prometheus."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from plimsoll_agent.app.node import now_of, state_of
from plimsoll_agent.cli import top
from plimsoll_agent.cli.top import Earlier
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import UsageError
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.monitor.usage_history import PastPass
from plimsoll_agent.terminal.moments import Window
from plimsoll_agent.top.keys import Explained

_HOUR = timedelta(hours=1)
_TITLE = "sentence for the tenant, by the last hour of this node"


class Top(top.Top):
    __doc__ = top.Top.__doc__

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--prometheus",
            metavar="URL",
            nargs="?",
            const="",
            help="with < also the last week, by this Prometheus; without URL by the one in the settings",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        if parsed_args.prometheus is not None and not top.is_live(parsed_args):
            raise UsageError("--prometheus: a list has no past; leave it out, or run top live, on a terminal")
        return super().take_action(parsed_args)

    def earlier(self, parsed_args: argparse.Namespace, settings: Settings) -> Earlier | None:
        if parsed_args.prometheus is None:
            return None
        # As much as all else of the start, and few ask for it.
        from plimsoll_monitoring.cli.base import chosen, prometheus_of
        from plimsoll_monitoring.region import past_use
        from plimsoll_monitoring.region.answers import TimeSeries

        source = chosen(settings.prometheus, parsed_args.prometheus)
        prometheus_of(source)  # what is wrong with it is told at the start

        def passes(disks: Sequence[Disk], until: datetime) -> tuple[Sequence[PastPass], str]:
            prometheus = prometheus_of(source)

            def over(promql: str, end: float, window: int, step: int) -> Sequence[TimeSeries]:
                prometheus.renew()
                prometheus.as_of(end)
                return prometheus.over(promql, window, step)

            return past_use.passes(over, disks, until), "; ".join(prometheus.warnings)

        return passes

    def sentence(self, settings: Settings, disk: Disk) -> Explained:
        return sentence_for(settings, disk, now_of(state_of(settings)))


def sentence_for(settings: Settings, disk: Disk, now: datetime) -> Explained:
    """By what this node measured in the last hour; nothing is copied where the cause is unknown."""
    # A quarter of the start of ``top``, and few ask for it.
    from plimsoll_insight.cli.disk_explain import evidence_of
    from plimsoll_insight.explain.diagnosis import Cause
    from plimsoll_insight.explain.messages import tenant_words

    period = Window(since=now - _HOUR, until=now, words="the last hour", options="--since 1h")
    facts = evidence_of(settings, state_of(settings), disk, period, now)
    if facts.diagnosis.cause is Cause.UNKNOWN or facts.complaints:
        why = "; ".join(facts.complaints) or "passes do not show whether it was slow"
        return Explained(title=_TITLE, head=(f"unknown: {why}",), rows=())
    text = tenant_words(facts.explained, facts.diagnosis)
    return Explained(
        title=_TITLE, head=(text,), rows=(("copied", "if this terminal lets programs copy (OSC 52)"),), copy=text
    )
