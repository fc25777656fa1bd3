"""Which cluster ``--live`` and ``drill record`` ask, and as which client."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import CephSettings
from plimsoll_agent.errors import ConfigError, UsageError
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.adapters.cluster import LiveCluster
from plimsoll_insight.cli.cluster_options import add_cluster, cluster_of


def chosen(words: list[str], id: str, *paths: Path) -> LiveCluster:
    parser = argparse.ArgumentParser()
    add_cluster(parser)
    ceph: CephSettings = replace(config.load([], []).ceph, conf_files=paths, id=id)
    return cluster_of(parser.parse_args(words), lambda: ceph, 5.0)


def test_settings_name_cluster_and_client_and_options_another_one(tmp_path: Path) -> None:
    one, other = tmp_path / "one.conf", tmp_path / "other.conf"
    one.touch()
    other.touch()
    assert chosen([], "watcher", one) == LiveCluster(conf=one, client="watcher", deadline=5.0)
    assert chosen(["--ceph-conf", str(other)], "watcher", one) == LiveCluster(
        conf=other, client="watcher", deadline=5.0
    )
    assert chosen(["--id", "admin"], "watcher", one) == LiveCluster(conf=one, client="admin", deadline=5.0)


def test_a_file_that_is_missing_is_named_with_where_it_was_named(tmp_path: Path) -> None:
    none = tmp_path / "none.conf"
    with pytest.raises(ConfigError) as by_settings:
        chosen([], "watcher", none)
    assert str(by_settings.value) == (
        f"[ceph] conf_files: {none}: no such file; correct it, or give --ceph-conf FILE"
    )
    with pytest.raises(UsageError) as by_option:
        chosen(["--ceph-conf", str(none)], "watcher", tmp_path)
    assert str(by_option.value) == f"--ceph-conf: {none}: no such file"


@pytest.mark.parametrize(("number", "words"), [(0, "names no cluster"), (2, "names 2 clusters")])
def test_of_several_clusters_none_is_guessed(tmp_path: Path, number: int, words: str) -> None:
    with pytest.raises(UsageError, match=rf"^\[ceph\] conf_files {words}; give --ceph-conf FILE$"):
        chosen([], "watcher", *[tmp_path] * number)
