"""The variables at the top of a dashboard.

``region`` is a label that a site's scrape configuration may add. All regions are ``.*``, which also matches series
without the label, so that the dashboards work at a site without it.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from plimsoll_agent.monitor import metrics
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.dashboards.series import SiteNames, of_region

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
ALL = model.VariableOption(selected=True, text="All", value="$__all")


def datasource() -> build.DatasourceVariable:
    return build.DatasourceVariable("datasource").label("Prometheus").type("prometheus")


def _query_variable(name: str, label: str, selector: str, source: str = "") -> build.QueryVariable:
    return (
        build.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(f"label_values({selector}, {source or name})")
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )


def _several(name: str, label: str, selector: str, source: str = "") -> build.QueryVariable:
    return _query_variable(name, label, selector, source).multi(True).include_all(True).all_value(".*").current(ALL)


def region(site: Site) -> build.QueryVariable:
    return _several("region", site.region[0].capitalize(), site(metrics.BUILD_INFO), site.region[0])


def instance(site: Site) -> build.QueryVariable:
    return _query_variable("instance", "Node", of_region(site)(metrics.BUILD_INFO), site.instance)


def volume_type(series: SiteNames) -> build.QueryVariable:
    """The volume types of the selected series; "All" includes disks without one."""
    return _several("volume_type", "Volume type", series(metrics.DISKS))


def one_disk(site: Site) -> list[build.QueryVariable]:
    """A guest and its device; choosing a volume restricts both to where it is attached."""
    info, its = metrics.DISK_INFO, of_region(site).and_('volume=~"$volume"')
    volume = _query_variable("volume", "Volume", of_region(site)(info))
    return [
        volume.include_all(True)
        .all_value(".*")
        .current(ALL)
        .description("Optional: narrows guests to those with this volume"),
        _query_variable("domain", "Guest", its(info)),
        _query_variable("uuid", "Its uuid", its(info, 'domain="$domain"')),
        _query_variable("target_device", "Disk", its(info, 'domain="$domain"', 'uuid="$uuid"')),
    ]
