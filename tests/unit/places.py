"""The settings of a node whose files are all below one directory of a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.util.frozen import replace

NO_CLUSTER = replace(config.load([], []).ceph, conf_files=(), blocking_checks=())
"""No check blocks, and none is asked for."""


def settings_in(directory: Path, **other: Any) -> Settings:
    """Of a node that enforces, with its state, its rules and its pause file there; all else as it is shipped."""
    places: dict[str, Any] = {
        "state_dir": directory / "state",
        "rules_file": directory / "rules.yaml",
        "pause_file": directory / "paused",
        "mode": "enforce",
    }
    return replace(config.load([], []), **places | other)
