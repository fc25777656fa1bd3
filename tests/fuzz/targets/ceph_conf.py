"""A ceph.conf, by which a disk's cluster is found."""

from __future__ import annotations

from pathlib import Path

from plimsoll_agent.model.clusters import Clusters, parse
from tests.unit.values import a_disk


def target(data: bytes) -> None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    cluster = parse(text, Path("ceph.conf"))
    if cluster is not None:
        assert cluster.fsid is None or cluster.fsid in text.lower()
        Clusters((cluster,)).of(a_disk(monitors=("10.0.0.1:6789",)))
