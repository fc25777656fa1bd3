"""Removes plimsoll from a node. The list of its files is removed last, so that a killed run can be repeated."""

from __future__ import annotations

import configparser
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from plimsoll_installer import placing
from plimsoll_installer.errors import InstallError
from plimsoll_installer.layout import Layout
from plimsoll_installer.node import Node, Versions

_TEXTFILE_DIR = "/var/lib/prometheus/node-exporter"
# As in systemd/sysusers.conf, of which an earlier remove may have removed the node's copy.
USERS = ("plimsoll", "plimsoll-probe", "plimsoll-catalogue")
GROUPS = ("plimsoll", "plimsoll-ceph", "plimsoll-catalogue")


def remove(node: Node, *, state: bool) -> Versions:
    """Remove all that was installed, the site's drop-ins and metrics; with ``state`` also settings, state and users.

    Raises ``InstallError``, ``OSError``.
    """
    layout = node.layout
    things = [path for path in placing.placed(layout) if os.path.lexists(path) and not _is_foreign(layout, path)]
    units = [path for path in things if placing.is_unit(layout, path)]
    if units:
        node.tell("stop", f"{', '.join(unit.name for unit in units)}, which will not start again")
        if not node.check:
            node.system.disable([unit.name for unit in units])
    drop_ins = [found for unit in units if (found := unit.with_name(f"{unit.name}.d")).is_dir()]
    _take(node, [*_metrics(layout), *drop_ins, *(path for path in things if path != layout.installer)])
    if not node.check:
        node.system.reload()  # also where a killed run has removed all units
    if state:
        _take(node, [*layout.states, layout.settings])
        _forget_users(node)
    _take(node, [layout.base])
    return Versions()


def _take(node: Node, paths: Sequence[Path]) -> None:
    for path in paths:
        if os.path.lexists(path):
            node.tell("remove", str(path))
            if not node.check:
                node.hand.remove(path)


def _is_foreign(layout: Layout, path: Path) -> bool:
    return path.is_symlink() and not path.readlink().is_relative_to(layout.base)


def _forget_users(node: Node) -> None:
    users = node.system.known("passwd", USERS)
    gone = users if node.check else [user for user in users if _forget(node, "userdel", user)]
    if gone:
        node.tell("remove", f"the users {', '.join(gone)}")
    if not node.check:
        for group in node.system.known("group", GROUPS):
            _forget(node, "groupdel", group)


def _forget(node: Node, program: str, name: str) -> bool:
    """Remove a user or group; returns whether it is gone. A process may still run as the user."""
    try:
        node.hand.call([program, name], f"{name} stays")
    except InstallError as error:
        node.notes.append(str(error))
        return False
    return True


def _metrics(layout: Layout) -> list[Path]:
    """plimsoll's metrics, which node_exporter would continue to serve."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    for file in (layout.settings / "plimsoll.conf", *sorted((layout.settings / "plimsoll.conf.d").glob("*.conf"))):
        with suppress(OSError, configparser.Error, UnicodeDecodeError):
            parser.read_string(file.read_text(encoding="utf-8"))
    directory = parser.get("metrics", "textfile_dir", fallback=None) or _TEXTFILE_DIR
    return [
        layout.root / directory.lstrip("/") / f"plimsoll-{producer}.prom" for producer in ("pass", "console", "probe")
    ]
