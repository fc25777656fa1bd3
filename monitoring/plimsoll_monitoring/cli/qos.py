"""``plimsoll qos plan`` and ``apply``: also who will feel it, by the region's Prometheus."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from plimsoll_agent.cli import qos
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.model.impact import Impact
from plimsoll_agent.qos.effects import Cut, VolumeImpact
from plimsoll_monitoring.cli.base import PrometheusCommand
from plimsoll_monitoring.region import volume_use
from plimsoll_monitoring.region.answers import Ask

_MOST_NAMED = 20


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
