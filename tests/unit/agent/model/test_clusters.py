"""Which cluster a disk is on, by ceph.conf files as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.model.clusters import Cluster, Clusters, parse, read
from tests import golden
from tests.unit.values import a_disk

FSID = "4b5c8c0a-ff60-454b-a1b4-9747aa737d19"
OTHER = "c3d8a0f2-1111-4222-8333-944445555666"
CONF = Path("/etc/ceph/ceph.conf")


def of(text: str) -> Cluster:
    cluster = parse(text, CONF)
    assert cluster is not None
    return cluster


def conf(mon_host: str, fsid: str = FSID) -> str:
    return f"[global]\nfsid = {fsid}\nmon_host = {mon_host}\n"


def found(clusters: Clusters, *monitors: str) -> str | None:
    cluster = clusters.of(a_disk(monitors=monitors))
    return None if cluster is None else cluster.fsid


def answer(monitors: str, text: str) -> str:
    is_file = text.startswith("file ")
    texts = [text.removeprefix("file ")] if is_file else map(conf, text.split(" || "), (FSID, OTHER))
    clusters = [parse(each, CONF) for each in texts]
    if None in clusters:
        return "no cluster"
    on = Clusters(tuple(filter(None, clusters))).of(a_disk(monitors=tuple(monitors.split())))
    return "on none" if on is None else f"on {on.fsid}"


def test_each_disk_is_on_the_cluster_of_the_golden_file() -> None:
    golden.transcript("clusters.txt", answer)


def test_without_a_cluster_a_disk_is_on_none() -> None:
    assert found(Clusters()) is None


def test_a_disk_without_monitors_is_on_the_cluster_of_its_own_file_and_else_on_none() -> None:
    own, other = a_disk(monitors=(), conf=str(CONF)), a_disk(monitors=(), conf="/etc/ceph/archive.conf")
    first, second = of(conf("10.0.0.1")), Cluster(Path("/etc/ceph/archive.conf"), OTHER, frozenset())
    assert (Clusters((first,)).of(own), Clusters((first,)).of(other)) == (first, None)
    assert (Clusters((first, second)).of(own), Clusters((first, second)).of(other)) == (first, second)


def test_monitors_may_have_a_section_each_as_before_nautilus() -> None:
    """As ceph-deploy and hands wrote them; Ceph heeds these where ``mon_host`` names none."""
    sections = (
        "[mon]\nmon data = /x\n[mon.a]\nhost = ceph-a\nmon addr = 10.0.0.1:6789\n[mon.b]\nmon_addr = 10.0.0.2 # b\n"
        "[mon.c]\nhost = ceph-c\n[osd.1]\nmon addr = 10.0.0.9\n"
    )
    clusters = Clusters((of(f"[global]\nfsid = {FSID}\n{sections}"),))
    assert [found(clusters, f"10.0.0.{last}:6789") for last in (1, 2, 9)] == [FSID, FSID, None]
    assert of(f"{conf('10.0.0.7')}{sections}").monitors == {"10.0.0.7"}
    assert of(f"[global]\nfsid = {FSID}\n[mon.c]\nhost = ceph-c\n").monitors == frozenset()


# --- files


def test_files_are_read_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text(conf("10.0.0.1"))
    (tmp_path / "b.conf").write_text(conf("10.0.0.2", OTHER))
    clusters = read([tmp_path / "b.conf", tmp_path / "a.conf"])
    assert [cluster.fsid for cluster in clusters.known] == [OTHER, FSID]
    assert clusters.known[1].conf == tmp_path / "a.conf", "where to ask it"


def absent(path: Path) -> None:
    pass


def a_directory(path: Path) -> None:
    path.mkdir()


def no_text(path: Path) -> None:
    path.write_bytes(b"[global]\nmon_host = \xff\n")


def no_conf(path: Path) -> None:
    path.write_text("mon_host = 10.0.0.2\n")


@pytest.mark.parametrize("make", [absent, a_directory, no_text, no_conf], ids=lambda make: make.__name__)
def test_a_file_that_cannot_be_read_costs_only_its_own_disks(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "b.conf")
    (tmp_path / "a.conf").write_text(conf("10.0.0.1"))
    clusters = read([tmp_path / "b.conf", tmp_path / "a.conf"])
    assert found(clusters, "10.0.0.1:6789") == FSID
    assert found(clusters, "10.0.0.2:6789") is None
    assert found(clusters) is None, "a disk without monitors may be on either"


def test_a_path_with_a_null_character_is_a_file_that_cannot_be_read() -> None:
    assert found(read([Path("/etc/\0")]), "10.0.0.1:6789") is None
