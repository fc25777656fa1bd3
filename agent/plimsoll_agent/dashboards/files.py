"""The dashboards as JSON, by the name of their file."""

from __future__ import annotations

import json

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from plimsoll_agent.alerts.site import Site
from plimsoll_agent.dashboards import disk, node, region


def files(site: Site) -> dict[str, str]:
    """File name → content; the file's name is the dashboard's uid."""
    return {f"{made.uid}.json": _text(made) for made in (region.make(site), node.make(site), disk.make(site))}


def _text(dashboard: Dashboard) -> str:
    return json.dumps(dashboard, cls=JSONEncoder, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
