"""What the preflight finds out of files and words; programs and hosts are asked for in the lab."""

from __future__ import annotations

import os
from pathlib import Path

import machine
import pytest

from lab.collection import plugin

facts = plugin("modules.node_facts")


@pytest.mark.parametrize(
    ("release", "tag"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n', "debian12"),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', "ubuntu24.04"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\nPLATFORM_ID="platform:el9"\n', "el9"),
        ('ID="opensuse-leap"\nVERSION_ID="15.6"\n', "opensuseleap15.6"),
        ("", "linux"),
    ],
)
def test_a_system_is_named_as_its_packages_are(release: str, tag: str):
    assert facts.os_tag(release) == tag
    assert machine.system(dict(line.replace('"', "").split("=") for line in release.splitlines())) == tag


@pytest.mark.parametrize(
    ("uri", "paths"),
    [
        ("qemu:///system", ["/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"]),
        ("qemu+unix:///system?socket=/run/kolla/libvirt-sock", ["/run/kolla/libvirt-sock"]),
        ("qemu+unix:///system?no_verify=1&socket=/a/b", ["/a/b"]),
        ("test:///etc/node.xml", []),
        ("qemu+tls://elsewhere/system", []),
    ],
)
def test_a_socket_is_expected_where_the_uri_says(uri: str, paths: list[str]):
    assert facts.socket_of(uri) == paths


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://keystone.example.org/v3", "keystone.example.org:443"),
        ("http://keystone:5000/v3", "keystone:5000"),
        ("http://10.0.0.1", "10.0.0.1:80"),
        ("https://user:secret@[2001:db8::1]:5000/", "[2001:db8::1]:5000"),
    ],
)
def test_an_address_has_no_more_of_a_url_than_is_connected_to(url: str, address: str):
    assert facts.address(url) == address


def test_a_url_without_a_host_is_refused_and_not_taken_for_this_node():
    with pytest.raises(ValueError, match="has no host"):
        facts.address("keystone.example.org/v3")


def test_a_version_is_found_in_what_programs_say():
    assert facts.first_version("QEMU emulator version 7.2.15 (Debian 1:7.2+dfsg-7)") == "7.2.15"
    assert facts.first_version("libvirtd (libvirt) 9.0.0\n") == "9.0.0"
    assert facts.first_version("no such thing") is None


def test_space_is_that_of_the_nearest_directory_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    spaces = {tmp_path: os.statvfs_result((4096, 4096, 900, 800, 700, 0, 0, 0, 0, 255))}
    monkeypatch.setattr(facts.os, "statvfs", spaces.__getitem__)
    assert facts.free_mib(tmp_path / "not/yet") == 700 * 4096 // 2**20  # what is kept for root is not counted


def test_a_package_counts_only_while_it_is_installed():
    printed = (
        "plimsoll 0.1.0-1+debian12 installed\nplimsoll-region 0.1.0-1+debian12 config-files\n"
        "plimsoll-report  not-installed\nplimsoll-openstack 0.1.0-1+debian12 half-installed\n"
    )
    assert facts.installed(printed) == {"plimsoll": "0.1.0-1+debian12"}
    assert facts.installed("") == {}


def test_a_digest_changes_with_content_and_mode_and_a_file_that_is_gone_has_none(tmp_path: Path):
    file = tmp_path / "settings"
    assert facts.digest(str(file)) is None
    file.write_text("a")
    file.chmod(0o644)
    first = facts.digest(str(file))
    # sha256sum of "a"
    assert first.split()[0] == "0644"
    assert first.endswith(" ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb")
    file.chmod(0o640)
    assert facts.digest(str(file)) == first.replace("0644", "0640")


def test_units_are_read_one_by_one():
    shown = (
        "Id=a.timer\nNeedDaemonReload=no\nUnitFileState=enabled\n\nId=b.timer\nNeedDaemonReload=yes\nUnitFileState=\n"
    )
    assert facts.shown_units(shown) == [
        {"Id": "a.timer", "NeedDaemonReload": "no", "UnitFileState": "enabled"},
        {"Id": "b.timer", "NeedDaemonReload": "yes", "UnitFileState": ""},
    ]


@pytest.mark.parametrize(
    ("text", "reduces"),
    [
        ('{"version": 1, "pools": [{"x": 1.0}]}', False),
        ('{"version": 1, "pools": [{"x": 1.0}, {"x": 0.25}]}', True),
        ('{"version": 1, "ceilings": [{"parts": {"u/vda": {}}}]}', False),
        ('{"version": 1, "ceilings": [{"parts": {"u/vda": {"total_iops_sec": 750}}}]}', True),
        ("{}", False),
        ("", True),
        ("[]", True),
    ],
)
def test_limits_are_reduced_by_factors_below_1_by_parts_of_ceilings_and_where_that_is_unknown(
    text: str, reduces: bool
):
    assert facts.reduces(text) is reduces


def test_a_unit_has_not_read_what_was_changed_after_its_start(tmp_path: Path):
    """A start at 100 s of the monotonic clock, which is 1000 s behind."""
    file = tmp_path / "settings"
    file.touch()
    unit = {"Id": "a.service", "ActiveState": "active", facts.STARTED: "100000000"}

    def unread(changed: int, **more: str) -> list[str]:
        os.utime(file, (changed, changed))
        reads = {"a.service": [str(tmp_path / "none"), str(file)], "unknown.service": [str(file)]}
        return list(facts.unread([unit | more], facts.STARTED, reads, 1000))

    assert unread(1099) == []
    assert unread(1101) == ["a.service"]
    assert unread(1101, ActiveState="inactive") == [], "it reads them when it is started"
