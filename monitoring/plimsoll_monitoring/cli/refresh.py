"""``plimsoll catalogue refresh`` where it writes the region file: stages are judged by the site's Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll_agent.catalogue.orders import RegionApproval
from plimsoll_agent.catalogue.stages import ConditionFinding, StageCheck
from plimsoll_agent.cli import catalogue
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError


class CatalogueRefresh(catalogue.CatalogueRefresh):
    __doc__ = catalogue.CatalogueRefresh.__doc__

    def judged(self, settings: Settings, approval: RegionApproval) -> Iterable[ConditionFinding]:
        # Imported here: a node's refresh needs no Prometheus.
        from plimsoll_monitoring.cli.base import prometheus_of
        from plimsoll_monitoring.region import stages

        try:
            prometheus = prometheus_of(settings.prometheus)
        except PlimsollError as error:
            return tuple(ConditionFinding(one, None, str(error)) for one in StageCheck)
        return stages.findings(
            approval, settings.ceph.blocking_checks, prometheus.now, prometheus.query, lambda: prometheus.warnings
        )
