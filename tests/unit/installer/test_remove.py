from __future__ import annotations

from pathlib import Path

import pytest
from plimsoll_installer.errors import InstallError
from plimsoll_installer.hand import Ended, Hand

from tests.unit.installing import UNITS, Host, make_wheelhouse


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A node with plimsoll, with state, settings, metrics and a drop-in of the site."""
    made = Host(tmp_path / "node")
    made.install(make_wheelhouse(tmp_path, "1.0", units={**UNITS, "plimsoll-probe.service": b"[Service]\n"}))
    root = made.layout.root
    for name in (
        "etc/plimsoll/rules.yaml",
        "etc/systemd/system/plimsoll-enforce.service.d/site.conf",
        "etc/systemd/system/nova-compute.service",
        "var/lib/plimsoll/record.sqlite",
        "var/lib/plimsoll-catalogue/catalogue.json",
        "var/lib/prometheus/node-exporter/plimsoll-pass.prom",
        "var/lib/prometheus/node-exporter/apt.prom",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")
    made.programs.ran.clear()
    return made


def _files(host: Host) -> set[str]:
    return {name for name, told in host.all_there().items() if " " in told}


def test_remove_leaves_settings_state_and_what_is_others(host: Host) -> None:
    host.remove()
    assert _files(host) == {
        "etc/plimsoll/rules.yaml",
        "etc/systemd/system/nova-compute.service",
        "var/lib/plimsoll/record.sqlite",
        "var/lib/plimsoll-catalogue/catalogue.json",
        "var/lib/prometheus/node-exporter/apt.prom",
    }


def test_remove_with_state_leaves_only_what_is_others(host: Host) -> None:
    host.remove(state=True)
    assert _files(host) == {
        "etc/systemd/system/nova-compute.service",
        "var/lib/prometheus/node-exporter/apt.prom",
    }


def test_units_are_stopped_before_their_files_go_and_systemd_hears_of_it(host: Host) -> None:
    host.remove()
    units = ["plimsoll-enforce.service", "plimsoll-enforce.timer", "plimsoll-probe.service"]
    assert host.programs.ran == [
        ["systemctl", "disable", "--quiet", "--now", *units],
        ["systemctl", "reset-failed", *units],
        ["systemctl", "daemon-reload"],
    ]


def test_units_that_could_not_be_stopped_stay_with_all_they_need(host: Host) -> None:
    host.programs.broken = {"disable": Ended(1, "", "Failed to connect to bus\n")}
    before = host.all_there()
    with pytest.raises(InstallError, match="systemctl disable: Failed to connect to bus"):
        host.remove()
    assert host.all_there() == before


def test_users_go_with_the_state_and_not_without(host: Host) -> None:
    host.remove()
    assert not {"userdel", "groupdel"} & set(host.programs.names())


def test_users_and_their_groups_go_after_the_files_that_are_theirs(host: Host) -> None:
    host.remove(state=True)
    assert [argv for argv in host.programs.ran if argv[0] in ("userdel", "groupdel")] == [
        *(["userdel", name] for name in ("plimsoll", "plimsoll-probe", "plimsoll-catalogue")),
        *(["groupdel", name] for name in ("plimsoll", "plimsoll-ceph", "plimsoll-catalogue")),
    ]


def test_users_go_with_the_state_though_everything_else_went_before(host: Host) -> None:
    host.remove()
    _, would = host.remove(state=True, check=True)
    _, did = host.remove(state=True)
    assert did.did[-1] == "removed the users plimsoll, plimsoll-probe, plimsoll-catalogue"
    assert [each.replace("would remove", "removed") for each in would.did] == did.did


def test_a_user_that_stays_is_noted_and_not_said_to_be_gone(host: Host) -> None:
    busy = Ended(8, "", "userdel: user plimsoll-probe is currently used by process 4242\n")
    programs = host.programs
    host.hand = Hand(lambda argv: busy if argv == ["userdel", "plimsoll-probe"] else programs(argv), False)
    _, node = host.remove(state=True)
    assert "removed the users plimsoll, plimsoll-catalogue" in node.did
    assert node.notes == ["plimsoll-probe stays: userdel: user plimsoll-probe is currently used by process 4242"]


def test_users_that_are_not_there_are_not_spoken_of(host: Host) -> None:
    host.programs.broken = {"getent": Ended(2, "", "")}
    _, node = host.remove(state=True)
    assert not any("the users" in sentence for sentence in node.did)
    assert node.notes == []


def test_metrics_go_from_the_directory_that_the_settings_name(host: Host) -> None:
    directory = host.layout.root / "srv/textfiles"
    directory.mkdir(parents=True)
    (directory / "plimsoll-probe.prom").write_text("", encoding="utf-8")
    settings = "[DEFAULT]\nmode = enforce\n[metrics]\ntextfile_dir = /srv/textfiles\n"
    (host.layout.settings / "plimsoll.conf").write_text(settings, encoding="utf-8")
    host.remove()
    assert not (directory / "plimsoll-probe.prom").exists()


def test_settings_that_are_no_settings_do_not_stop_a_removal(host: Host) -> None:
    (host.layout.settings / "plimsoll.conf").write_bytes(b"\xff mode [\n= =")
    host.remove()
    assert not host.layout.base.exists()
    assert "var/lib/prometheus/node-exporter/plimsoll-pass.prom" not in _files(host)


def test_a_second_removal_finds_nothing(host: Host) -> None:
    host.remove()
    _, node = host.remove()
    assert node.did == []


def test_an_install_after_a_removal_is_like_the_first(host: Host, tmp_path: Path) -> None:
    host.remove()
    versions, _ = host.install(make_wheelhouse(tmp_path, "1.1"))
    assert (versions.current, versions.previous) == ("1.1", "")
    assert host.is_sound()
