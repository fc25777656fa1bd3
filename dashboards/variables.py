"""The variables at the top of a dashboard, and the selectors made of them.

``region`` is a label that a site's scrape configuration may add. All regions are ``.*``, which matches series without
the label as well: a site that has none sees the same dashboards.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
ALL = model.VariableOption(selected=True, text="All", value="$__all")

REGION = 'region=~"$region"'
OF_TYPE = f'{REGION},volume_type=~"$volume_type"'
# One value, taken as it is: in a pattern, the brackets of an IPv6 instance would mean something else.
NODE = f'{REGION},instance="$instance"'
NODE_OF_TYPE = f'{NODE},volume_type=~"$volume_type"'
# Names such as instance-0000002a come again in every cell; the uuid does not. Not bound to a node: guests move.
GUEST = f'{REGION},domain="$domain",uuid="$uuid"'
DISK = f'{GUEST},target_device="$target_device"'


def datasource() -> build.DatasourceVariable:
    return build.DatasourceVariable("datasource").label("Prometheus").type("prometheus")


def _asked(name: str, label: str, selector: str) -> build.QueryVariable:
    return (
        build.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(f"label_values({selector}, {name})")
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )


def _several(name: str, label: str, selector: str) -> build.QueryVariable:
    return _asked(name, label, selector).multi(True).include_all(True).all_value(".*").current(ALL)


def region() -> build.QueryVariable:
    return _several("region", "Region", "plimsoll_build_info")


def instance() -> build.QueryVariable:
    return _asked("instance", "Node", f"plimsoll_build_info{{{REGION}}}")


def volume_type(selector: str) -> build.QueryVariable:
    """Of what ``selector`` chooses; "All" shows disks without a volume type too."""
    return _several("volume_type", "Volume type", f"plimsoll_disks{{{selector}}}")


def one_disk() -> list[build.QueryVariable]:
    """Choosing a volume narrows guests and devices down to where it is attached; a guest alone will do too."""
    chosen = f'{REGION},volume=~"$volume"'
    volume = _asked("volume", "Volume", f"plimsoll_disk_info{{{REGION}}}")
    return [
        volume.include_all(True)
        .all_value(".*")
        .current(ALL)
        .description("Leave it at All to go by the guest's name"),
        _asked("domain", "Guest", f"plimsoll_disk_info{{{chosen}}}"),
        _asked("uuid", "Its uuid", f'plimsoll_disk_info{{{chosen},domain="$domain"}}'),
        _asked("target_device", "Disk", f'plimsoll_disk_info{{{chosen},domain="$domain",uuid="$uuid"}}'),
    ]
