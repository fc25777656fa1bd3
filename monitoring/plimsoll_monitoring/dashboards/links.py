"""Links from one dashboard to another, with the same time range, data source and region."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from plimsoll_monitoring.alerts.site import Site

REGION, NODE, DISK = "plimsoll-region", "plimsoll-node", "plimsoll-disk"


def to(uid: str, **variables: str) -> str:
    """``variables`` are values, or what ``row`` and ``series`` return."""
    query = "".join(f"&var-{name}={value}" for name, value in variables.items())
    return f"/d/{uid}?${{datasource:queryparam}}&${{region:queryparam}}&${{__url_time_range}}{query}"


def panel(uid: str, number: int | None) -> str:
    """One panel in full, with the same variables."""
    return f"/d/{uid}?${{__all_variables}}&${{__url_time_range}}&viewPanel={number}"


def row(label: str) -> str:
    """A label of the clicked table row."""
    return f"${{__data.fields.{label}:percentencode}}"


def series(label: str) -> str:
    """A label of the clicked line of a graph."""
    return f"${{__field.labels.{label}:percentencode}}"


# A volume that was chosen before would restrict the choice of guests.
_GUEST = {"volume": "$__all", "domain": row("domain"), "uuid": row("uuid")}
_GUEST_OF_ROW = to(DISK, **_GUEST)
_DISK_OF_ROW = to(DISK, **_GUEST, target_device=row("target_device"))


def of_node(site: Site) -> dict[str, str]:
    """Label → the target of its cells' links, in a table of nodes."""
    return {site.instance: to(NODE, instance=row(site.instance))}


def of_guest(site: Site) -> dict[str, str]:
    return of_node(site) | {"server": _GUEST_OF_ROW, "domain": _GUEST_OF_ROW}


def of_disk(site: Site) -> dict[str, str]:
    return of_node(site) | dict.fromkeys(("server", "domain", "target_device"), _DISK_OF_ROW)


def outward(title: str, url: str) -> build.DashboardLink:
    """To something else than a dashboard."""
    return build.DashboardLink(title).type(model.DashboardLinkType.LINK).url(url).target_blank(True)
