"""The dashboards as JSON, by the name of their file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.dashboards import disk, node, region


def files(site: Site) -> dict[str, str]:
    """File name → content, a panel a line; the file's name is the dashboard's uid."""
    dashboards = (region.make(site), node.make(site), disk.make(site))
    return {f"{each.uid}.json": _text(json.loads(_line(each))) + "\n" for each in dashboards}


def _text(dashboard: Mapping[str, Any]) -> str:
    """A dashboard, or a row with panels in it."""
    panels = ",\n".join(_text(panel) if panel.get("panels") else _line(panel) for panel in dashboard["panels"])
    others = {name: value for name, value in dashboard.items() if name != "panels"}
    return f'{_line(others)[:-1]}, "panels": [\n{panels}\n]}}'


def _line(value: object) -> str:
    return json.dumps(value, cls=JSONEncoder, ensure_ascii=False, sort_keys=True)
