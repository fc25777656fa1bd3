"""``python -m dashboards [DIRECTORY]``: writes the dashboards, to etc/grafana when no directory is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import disk, node, region

GRAFANA = Path(__file__).parents[1] / "etc" / "grafana"


def text(dashboard: Dashboard) -> str:
    return json.dumps(dashboard, cls=JSONEncoder, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def files() -> dict[str, str]:
    """File name → content; a dashboard's file is called as its uid."""
    return {f"{made.uid}.json": text(made) for made in (region.make(), node.make(), disk.make())}


def main(words: list[str]) -> None:
    directory = Path(words[0]) if words else GRAFANA
    for name, content in files().items():
        (directory / name).write_text(content)


if __name__ == "__main__":
    main(sys.argv[1:])
