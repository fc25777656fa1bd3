"""Asks the new version whether it can read the node's state."""

from __future__ import annotations

import json
from collections.abc import Mapping

from plimsoll_installer.environment import Environment
from plimsoll_installer.errors import InstallError
from plimsoll_installer.hand import Ended, Hand
from plimsoll_installer.layout import Layout

_BAD = ("newer", "corrupt", "unreadable")
_ANYWAY = "--skip-state-check switches nevertheless"


def check(hand: Hand, layout: Layout, home: Environment) -> None:
    """Raises ``InstallError`` where the version cannot read a file, or cannot be asked."""
    argv = [str(home.command), "state", "check", "-f", "json"]
    if not layout.is_node:
        argv += ["--state-dir", str(layout.states[0])]
    _judge(home.version, hand.run(argv))


def _judge(version: str, ended: Ended) -> None:
    if ended.status == 0:
        return
    try:
        rows: list[Mapping[str, object]] = [row for row in json.loads(ended.out) if row["condition"] in _BAD]
    except (ValueError, KeyError, TypeError):
        rows = []
    if rows:
        more = f", and {len(rows) - 1} more files" if len(rows) > 1 else ""
        raise InstallError(
            f"plimsoll {version} cannot read the state of this node: {rows[0].get('file')}: {rows[0]['condition']},"
            f" {rows[0].get('detail')}{more}; the current version stays; {_ANYWAY}"
        )
    lines = ended.err.strip().splitlines()
    why = lines[-1] if lines else f"exit status {ended.status}"
    raise InstallError(f"plimsoll {version} could not check the state of this node: {why}; {_ANYWAY}")
