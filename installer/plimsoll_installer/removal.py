"""Taking plimsoll off a node. What tells where things are goes last: a run that was killed can be repeated."""

from __future__ import annotations

import configparser
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from plimsoll_installer import placing
from plimsoll_installer.layout import Layout
from plimsoll_installer.node import Node, Versions

_TEXTFILE_DIR = "/var/lib/prometheus/node-exporter"


def remove(node: Node, *, state: bool) -> Versions:
    """All that was installed, the site's drop-ins and the metrics; settings, state and users only with ``state``.

    Raises ``InstallError``, ``OSError``.
    """
    layout = node.layout
    things = [path for path in placing.placed(layout) if os.path.lexists(path) and not _is_foreign(layout, path)]
    users, groups = _users(layout)
    units = [path for path in things if placing.is_unit(layout, path)]
    if units:
        node.tell("stop", f"{', '.join(unit.name for unit in units)}, which will not start again")
        if not node.check:
            node.system.disable([unit.name for unit in units])
    drop_ins = [found for unit in units if (found := unit.with_name(f"{unit.name}.d")).is_dir()]
    _take(node, [*_metrics(layout), *drop_ins, *(path for path in things if path != layout.sysusers)])
    if units and not node.check:
        node.system.reload()
    if state:
        _take(node, [*layout.states, layout.settings])
        if users:
            node.tell("take", f"the users {', '.join(users)} away")
            if not node.check:
                node.system.forget_users(users, groups)
    _take(node, [layout.sysusers] if layout.sysusers in things else [])
    _take(node, [layout.base])
    return Versions()


def _take(node: Node, paths: Sequence[Path]) -> None:
    for path in paths:
        if os.path.lexists(path):
            node.tell("take", f"{path} away")
            if not node.check:
                node.hand.remove(path)


def _is_foreign(layout: Layout, path: Path) -> bool:
    return path.is_symlink() and not path.readlink().is_relative_to(layout.base)


def _users(layout: Layout) -> tuple[list[str], list[str]]:
    """The users, and the groups, that sysusers.d makes."""
    try:
        lines = [line.split() for line in layout.sysusers.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        return [], []
    named = [(words[0].rstrip("!"), words[1]) for words in lines if len(words) > 1]
    return [name for kind, name in named if kind == "u"], [name for kind, name in named if kind in ("u", "g")]


def _metrics(layout: Layout) -> list[Path]:
    """What node_exporter would go on to serve, though it never changes again."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    for file in (layout.settings / "plimsoll.conf", *sorted((layout.settings / "plimsoll.conf.d").glob("*.conf"))):
        with suppress(OSError, configparser.Error, UnicodeDecodeError):
            parser.read_string(file.read_text(encoding="utf-8"))
    directory = parser.get("metrics", "textfile_dir", fallback=None) or _TEXTFILE_DIR
    return [layout.root / directory.lstrip("/") / f"plimsoll-{producer}.prom" for producer in ("pass", "probe")]
