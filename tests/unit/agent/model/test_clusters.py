"""Which cluster a disk is on, by ceph.conf files as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.model.clusters import Cluster, Clusters, parse, read
from tests.unit.values import a_disk, examples

FSID = "4b5c8c0a-ff60-454b-a1b4-9747aa737d19"
OTHER = "c3d8a0f2-1111-4222-8333-944445555666"
CONF = Path("/etc/ceph/ceph.conf")


def of(text: str) -> Cluster:
    cluster = parse(text, CONF)
    assert cluster is not None
    return cluster


def known(*texts: str) -> Clusters:
    return Clusters(tuple(of(text) for text in texts))


def conf(mon_host: str, fsid: str = FSID) -> str:
    return f"[global]\nfsid = {fsid}\nmon_host = {mon_host}\n"


def found(clusters: Clusters, *monitors: str) -> str | None:
    cluster = clusters.of(a_disk(monitors=monitors))
    return None if cluster is None else cluster.fsid


# --- how mon_host is written


@pytest.mark.parametrize(
    "mon_host",
    [
        "10.0.0.1",
        "10.0.0.1:6789",
        "10.0.0.1:6789/0",
        "v1:10.0.0.1:6789",
        "v2:10.0.0.1:3300",
        "[v2:10.0.0.1:3300]",
        "[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]",
        "[v2:10.0.0.9:3300/0,v1:10.0.0.9:6789/0],[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]",
        "[v2:10.0.0.9:3300/0,v1:10.0.0.9:6789/0] [v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]",
        "10.0.0.9,10.0.0.1,10.0.0.8",
        "10.0.0.9, 10.0.0.1",
        "10.0.0.9 10.0.0.1",
        "10.0.0.9\t10.0.0.1",
        '"10.0.0.9; 10.0.0.1"',
        "'10.0.0.9;10.0.0.1'",
        "10.0.0.1 # the first",
        "10.0.0.1;the first",
        "10.0.0.9, \\\n   10.0.0.1",
    ],
)
@pytest.mark.parametrize("port", ["6789", "3300"])
def test_a_disk_is_found_by_its_monitors_address(mon_host: str, port: str) -> None:
    assert found(known(conf(mon_host)), f"10.0.0.1:{port}") == FSID


@pytest.mark.parametrize(
    "mon_host",
    [
        "2001:db8::1",
        "[2001:db8::1]",
        "[2001:db8::1]:6789",
        "[2001:db8::1]:6789/0",
        "v2:[2001:db8::1]:3300",
        "[v2:[2001:db8::1]:3300/0,v1:[2001:db8::1]:6789/0]",
        "10.0.0.9,[2001:db8::1]",
    ],
)
def test_a_disk_is_found_by_an_ipv6_address(mon_host: str) -> None:
    assert found(known(conf(mon_host)), "[2001:db8::1]:6789") == FSID
    assert found(known(conf(mon_host)), "[2001:db8::2]:6789") is None


@pytest.mark.parametrize("mon_host", ["mon1.example.org", "mon1.example.org:6789", "v2:mon1.example.org"])
def test_a_disk_is_found_by_a_name(mon_host: str) -> None:
    assert found(known(conf(mon_host)), "mon1.example.org:6789") == FSID
    assert found(known(conf(mon_host)), "mon1:6789") is None


@pytest.mark.parametrize(
    "mon_host", ["10.0.0.1", "10.0.0.11", "110.0.0.1", "# 10.0.0.10", "10.0.0.9 # 10.0.0.10", ""]
)
def test_a_part_of_an_address_or_a_comment_is_none(mon_host: str) -> None:
    assert found(known(conf(mon_host)), "10.0.0.10:6789") is None


@pytest.mark.parametrize("name", ["mon_host", "mon host", "mon-host", "mon  host", "Mon Host", "mon_host\t"])
@pytest.mark.parametrize("equals", ["=", " = ", "\t=\t"])
def test_the_option_is_known_under_all_its_names(name: str, equals: str) -> None:
    assert found(known(f"[global]\n  {name}{equals}10.0.0.1\nfsid={FSID}"), "10.0.0.1:6789") == FSID


def test_one_monitor_that_is_known_suffices() -> None:
    assert found(known(conf("10.0.0.1,10.0.0.2")), "10.0.0.7:6789", "10.0.0.2:6789") == FSID


# --- the rest of the file


@pytest.mark.parametrize("fsid", [FSID, FSID.upper(), f'"{FSID}"', f"{FSID} ; ours", f"{FSID}# ours"])
def test_the_fsid_is_read_in_any_case(fsid: str) -> None:
    assert of(conf("10.0.0.1", fsid)).fsid == FSID


@pytest.mark.parametrize("fsid", ["", "ceph", FSID[:-1], FSID + "0", "$fsid", FSID.replace("-", "")])
def test_what_is_no_fsid_is_not_taken_for_one(fsid: str) -> None:
    assert of(conf("10.0.0.1", fsid)).fsid is None


def test_a_cluster_without_an_fsid_is_found_all_the_same() -> None:
    clusters = known("[global]\nmon_host = 10.0.0.1\n")
    assert clusters.of(a_disk(monitors=("10.0.0.1:6789",))) == clusters.known[0]


def test_other_sections_say_nothing_of_the_cluster() -> None:
    text = f"[client]\nfsid = {OTHER}\nmon_host = 10.0.0.2\n{conf('10.0.0.1')}[osd.1]\nmon_host = 10.0.0.3\n"
    assert of(text) == of(conf("10.0.0.1"))


def test_a_section_that_comes_twice_is_one_and_the_later_word_counts() -> None:
    assert of(conf("10.0.0.1") + "[osd]\nx\n" + "[global]\nmon_host = 10.0.0.2\n") == of(conf("10.0.0.2"))


def test_words_without_a_value_and_percent_signs_are_no_obstacle() -> None:
    assert of(f"[global]\nsome flag\nlog = %(x)s%\n; {OTHER}\n{conf('10.0.0.1')}") == of(conf("10.0.0.1"))


def test_indented_lines_are_lines_of_their_own() -> None:
    assert of(f"[global]\n\tfsid = {FSID}\n\t\tmon_host = 10.0.0.1\n") == of(conf("10.0.0.1"))


@pytest.mark.parametrize("text", ["", "[osd]\nmon_host = 10.0.0.1\n", "# nothing"])
def test_a_file_without_a_global_section_names_no_monitor(text: str) -> None:
    assert of(text).monitors == frozenset()


@pytest.mark.parametrize("text", [f"fsid = {FSID}\nmon_host = 10.0.0.1\n", "mon_host", "[]\nx = 1"])
def test_a_text_that_ceph_would_not_read_is_no_cluster(text: str) -> None:
    assert parse(text, CONF) is None


@examples
@given(
    st.text()
    | st.lists(
        st.sampled_from(
            ["[global]", "mon_host", "fsid", "=", "\n", "\\\n", '"', "'", "[", "]", ":", "1", FSID, "#", "%"]
        )
    ).map("".join)
)
def test_any_text_is_a_cluster_or_none(text: str) -> None:
    assert isinstance(parse(text, CONF), Cluster | None)


# --- several clusters


def test_each_disk_is_on_its_own_cluster() -> None:
    clusters = known(conf("10.0.0.1,10.0.0.2"), conf("10.1.0.1", OTHER))
    assert found(clusters, "10.0.0.2:6789") == FSID
    assert found(clusters, "10.1.0.1:6789") == OTHER
    assert found(clusters, "10.2.0.1:6789") is None


def test_clusters_on_one_host_are_told_apart_by_their_ports() -> None:
    clusters = known(conf("127.0.0.1:6789"), conf("[v2:127.0.0.1:23300/0,v1:127.0.0.1:26789/0]", OTHER))
    assert found(clusters, "127.0.0.1:6789") == FSID
    assert found(clusters, "127.0.0.1:26789") == OTHER
    assert found(clusters, "127.0.0.1:23300") == OTHER
    assert found(clusters, "127.0.0.1:3300") == FSID, "the other protocol of the same monitor"


@pytest.mark.parametrize("mon_host", ["127.0.0.1:6789", "127.0.0.1", "127.0.0.1:26789", "[::1]:6789,127.0.0.1"])
def test_a_cluster_that_nobody_knows_is_not_taken_for_another_on_the_same_host(mon_host: str) -> None:
    """Its health would be asked of the wrong one, and a limit raised into a storm."""
    assert found(known(conf(mon_host)), "127.0.0.1:36789") is None


def test_a_disk_that_may_be_on_either_of_two_clusters_is_on_none() -> None:
    clusters = known(conf("10.0.0.1"), conf("10.0.0.1,10.0.0.2", OTHER))
    assert found(clusters, "10.0.0.1:6789") is None
    assert found(clusters, "10.0.0.2:6789") == OTHER
    assert found(known(conf("10.0.0.1"), conf("10.0.0.2", OTHER)), "10.0.0.1:6789", "10.0.0.2:6789") is None


def test_a_disk_without_monitors_is_on_the_only_cluster() -> None:
    assert found(known(conf("10.0.0.1"))) == FSID
    assert found(known(conf("10.0.0.1"), conf("10.0.0.2", OTHER))) is None
    assert found(known()) is None


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
