"""The options of commands that ask a running cluster, and the settings that stand in for them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from plimsoll_agent.errors import ConfigError, NotFound, PlimsollError, UsageError
from plimsoll_agent.util.text import printable

if TYPE_CHECKING:
    from plimsoll_agent.config.settings import CephSettings
    from plimsoll_insight.adapters.cluster import LiveCluster
    from plimsoll_insight.mds.answers import FileSystem

_SETTING = "[ceph] conf_files"


def add_cluster(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--ceph-conf", metavar="FILE", type=Path,
                        help=f"ceph.conf of the cluster; default: that of {_SETTING}")  # fmt: skip
    parser.add_argument("--id", help="the client that asks it; default: [ceph] id")


def cluster_of(parsed_args: argparse.Namespace, load: Callable[[], CephSettings], deadline: float) -> LiveCluster:
    """The cluster that options or settings name. Raises ``ConfigError``, ``UsageError``, ``PlimsollError``."""
    from plimsoll_insight.adapters.cluster import LiveCluster  # most of these commands read files only

    conf, client, source = parsed_args.ceph_conf, parsed_args.id, "--ceph-conf"
    if conf is None or client is None:
        settings = load()
        client = client or settings.id
        if conf is None:
            conf, source = _only(settings.conf_files), _SETTING
    try:
        conf.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        text = f"{source}: {conf}: no such file"
        if source == _SETTING:
            raise ConfigError(f"{text}; correct it, or give --ceph-conf FILE") from error
        raise UsageError(text) from error
    except OSError as error:
        raise PlimsollError(f"{source}: {conf}: {error.strerror}") from error
    return LiveCluster(conf=conf, client=client, deadline=deadline)


def _only(paths: tuple[Path, ...]) -> Path:
    """Raises ``UsageError``."""
    if len(paths) != 1:
        number = f"names {len(paths)} clusters" if paths else "names no cluster"
        raise UsageError(f"{_SETTING} {number}; give --ceph-conf FILE")
    return paths[0]


def add_file_system(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fs", metavar="NAME", help="the file system; default: the only one")
    add_cluster(parser)


def file_system_of(file_systems: Sequence[FileSystem], name: str | None) -> FileSystem:
    """The one that ``--fs`` names, or the only one. Raises ``NotFound``, ``UsageError``."""
    names = ", ".join(printable(each.name) for each in file_systems)
    matches = [each for each in file_systems if name in (None, each.name)]
    if len(matches) == 1:
        return matches[0]
    if not file_systems:
        raise NotFound("this cluster has no file system")
    raise UsageError(f"--fs: name one of {names}")
