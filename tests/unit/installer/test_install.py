from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from plimsoll_installer import lock, node, wheelhouse
from plimsoll_installer.errors import InstallError
from plimsoll_installer.hand import Ended, Hand, beside

from tests.unit.installing import HERE, SITE, UNITS, Host, make_wheelhouse, sum_up


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "node")


@pytest.fixture
def houses(tmp_path: Path) -> Path:
    return tmp_path / "houses"


# --- what stands after an install ---


def test_a_version_is_actual_with_its_units_users_links_and_installer(host: Host, houses: Path) -> None:
    versions, _ = host.install(make_wheelhouse(houses, "1.0"))
    root, base = host.layout.root, host.layout.base
    assert (versions.current, versions.previous) == ("1.0", "")
    assert host.actual() == "1.0"
    assert (root / "etc/systemd/system/plimsoll-enforce.timer").read_bytes() == UNITS["plimsoll-enforce.timer"]
    assert (root / "etc/sysusers.d/plimsoll.conf").read_bytes() == UNITS["sysusers.conf"]
    assert (root / "etc/tmpfiles.d/plimsoll.conf").read_bytes() == UNITS["tmpfiles.conf"]
    assert (root / "usr/local/bin/plimsoll").readlink() == base / "current/bin/plimsoll"
    assert (root / "usr/local/share/man/man1/plimsoll.1").read_bytes() == b".TH PLIMSOLL\n"
    assert (base / "install").read_bytes().endswith(b"# of 1.0")
    assert (base / "install").stat().st_mode & 0o7777 == 0o755
    # A sample that the site fills in is no unit.
    assert not (root / "etc/systemd/system/network.conf").exists()


def test_users_come_before_directories_and_systemd_reads_the_units_last(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    assert host.programs.names() == ["systemd-sysusers", "systemd-tmpfiles", "systemctl"]
    assert host.programs.ran[-1] == ["systemctl", "daemon-reload"]


def test_no_timer_is_started_stopped_or_enabled(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.install(make_wheelhouse(houses, "1.1"))
    host.rollback()
    asked = {argv[1] for argv in host.programs.ran if argv[0] == "systemctl"}
    assert asked == {"daemon-reload"}


def test_a_second_run_changes_nothing_and_says_so(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    host.install(house)
    before = host.all_there()
    versions, node = host.install(house)
    assert (node.did, versions.current) == ([], "1.0")
    assert host.all_there() == before


def test_a_user_or_directory_that_was_taken_away_comes_back_with_the_next_run(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    host.install(house)
    host.programs.ran.clear()
    host.install(house)
    assert host.programs.names() == ["systemd-sysusers", "systemd-tmpfiles"]


def test_a_unit_that_was_edited_or_closed_is_put_right(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    host.install(house)
    service, timer = (host.layout.units / f"plimsoll-enforce.{kind}" for kind in ("service", "timer"))
    service.write_text("[Service]\nUser=root\n", encoding="utf-8")
    timer.chmod(0o600)
    _, node = host.install(house)
    assert node.did == [f"placed {service}", f"placed {timer}"]
    assert service.read_bytes() == UNITS["plimsoll-enforce.service"]
    assert timer.stat().st_mode & 0o777 == 0o644


def test_a_restrictive_umask_closes_nothing(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    before = os.umask(0o077)
    try:
        host.install(house)
    finally:
        os.umask(before)
    base = host.layout.base
    closed = [
        path
        for path in (base, *base.glob("*"), *host.layout.units.glob("*"), host.layout.units, host.layout.commands)
        if not path.stat().st_mode & 0o004 and path.name != "current"  # what venv and pip make is not made here
    ]
    assert closed == []
    assert (base / "wheelhouses" / house.name / "SHA256SUMS").stat().st_mode & 0o004


def test_the_wheelhouse_is_kept_on_the_node(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    host.install(house)
    kept = host.layout.wheelhouses / house.name
    assert {path.name for path in kept.iterdir()} == {path.name for path in house.iterdir()}


def test_a_wheelhouse_that_was_unpacked_in_its_place_is_not_copied(host: Host, houses: Path) -> None:
    house = make_wheelhouse(host.layout.wheelhouses, "1.0")
    _, node = host.install(house)
    assert not any(sentence.startswith("copied") for sentence in node.did)
    assert host.actual() == "1.0"


# --- versions ---


def test_an_upgrade_keeps_the_version_before_and_two_in_all(host: Host, houses: Path) -> None:
    for version in ("1.0", "1.1", "1.2"):
        versions, _ = host.install(make_wheelhouse(houses, version))
    assert (versions.current, versions.previous) == ("1.2", "1.1")
    assert sorted(path.name for path in host.layout.versions.iterdir()) == ["1.1", "1.1.json", "1.2", "1.2.json"]
    assert sorted(path.name for path in host.layout.wheelhouses.iterdir()) == [
        f"plimsoll-1.1-{HERE}",
        f"plimsoll-1.2-{HERE}",
    ]


def test_wheelhouses_of_versions_that_never_ran_do_not_pile_up(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.programs.broken = {"venv": Ended(1, "", "no")}
    with pytest.raises(InstallError):
        host.install(make_wheelhouse(houses, "1.1"))
    assert (host.layout.wheelhouses / f"plimsoll-1.1-{HERE}").is_dir()
    beside(host.layout.wheelhouses / f"plimsoll-0.9-{HERE}").mkdir()  # of a run that was killed
    host.programs.broken = {}
    host.install(make_wheelhouse(houses, "1.2"))
    assert sorted(path.name for path in host.layout.wheelhouses.iterdir()) == [
        f"plimsoll-1.0-{HERE}",
        f"plimsoll-1.2-{HERE}",
    ]


def test_the_wheelhouse_of_the_version_before_stays_though_its_environment_is_gone(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.1")
    host.install(make_wheelhouse(houses, "1.0"))
    host.install(house)
    _lose(host, "1.0")
    host.install(house, "report")
    assert host.rollback()[0].current == "1.0"
    assert host.actual() == "1.0"


def _lose(host: Host, version: str) -> None:
    """Its environment, and how it was made."""
    host.hand.remove(host.layout.versions / version)
    host.hand.remove(host.layout.versions / f"{version}.json")


def test_a_unit_that_the_new_version_does_not_have_is_stopped_and_taken_away(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0", units={**UNITS, "plimsoll-old.timer": b"[Timer]\n"}))
    own = host.layout.units / "plimsoll-site.timer"
    own.write_text("[Timer]\n", encoding="utf-8")
    host.programs.ran.clear()
    host.install(make_wheelhouse(houses, "1.1"))
    assert ["systemctl", "disable", "--quiet", "--now", "plimsoll-old.timer"] in host.programs.ran
    assert sorted(path.name for path in host.layout.units.iterdir()) == [
        "plimsoll-enforce.service",
        "plimsoll-enforce.timer",
        "plimsoll-site.timer",
    ]


def test_the_man_pages_of_what_plimsoll_needs_are_not_put_outside(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    host.install(house)
    share = host.layout.versions / "1.0/share/man/man1"
    (share / "ttx.1").write_text("of fonttools", encoding="utf-8")
    _, node = host.install(house)
    assert node.did == []


def test_an_upgrade_that_names_no_extras_keeps_those_that_are_there(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"), "report")
    house = make_wheelhouse(houses, "1.1")
    host.install(house)
    assert (host.layout.current / SITE / "matplotlib/__init__.py").exists()
    node.install(host.node(), wheelhouse.load(house), ())
    assert not (host.layout.current / SITE / "matplotlib").exists()


def test_other_extras_are_another_environment_of_the_same_version(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    host.install(make_wheelhouse(houses, "0.9"))
    host.install(house)
    without = host.layout.versions / "1.0"
    versions, _ = host.install(house, "report")
    assert host.layout.current.readlink().name == "1.0~2"
    assert (host.layout.current / SITE / "matplotlib/__init__.py").exists()
    assert not (without / SITE / "matplotlib").exists()
    # It is not one to go back to, but a pass may be running in it.
    assert (versions.current, versions.previous) == ("1.0", "0.9")
    assert without.is_dir()
    assert host.install(house, "report")[1].did == []


def test_another_build_of_the_same_version_is_taken(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses / "a", "1.0"))
    host.install(make_wheelhouse(houses / "b", "1.0", other=b"cliff, mended"))
    assert (host.layout.current / SITE / "cliff/__init__.py").read_bytes() == b"cliff, mended"


def test_nothing_of_a_broken_off_environment_gets_into_the_one_that_is_made(host: Host, houses: Path) -> None:
    left = host.layout.versions / "1.0" / SITE / "plimsoll_agent/left.py"
    left.parent.mkdir(parents=True)
    left.write_text("half a mod", encoding="utf-8")
    host.install(make_wheelhouse(houses, "1.0"))
    assert host.actual() == "1.0"
    assert not left.exists()


def test_an_environment_whose_python_is_gone_is_made_anew(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    host.install(house)
    (host.layout.versions / "1.0/bin/python").unlink()
    _, node = host.install(house)
    assert node.did == [f"made {host.layout.versions / '1.0'}"]
    assert host.is_sound()


# --- rollback ---


def test_rollback_has_the_version_before_actual_with_its_units(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.install(make_wheelhouse(houses, "1.1", units={**UNITS, "plimsoll-enforce.timer": b"[Timer]\n# 1.1\n"}))
    versions, _ = host.rollback()
    assert (versions.current, versions.previous) == ("1.0", "1.1")
    assert host.actual() == "1.0"
    assert (host.layout.units / "plimsoll-enforce.timer").read_bytes() == UNITS["plimsoll-enforce.timer"]
    assert host.layout.installer.read_bytes().endswith(b"# of 1.0")


def test_rollback_makes_a_lost_environment_again_with_its_extras(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"), "report")
    host.install(make_wheelhouse(houses, "1.1"))
    host.hand.remove(host.layout.versions / "1.0")
    host.rollback()
    assert host.actual() == "1.0"
    assert (host.layout.current / SITE / "matplotlib/__init__.py").exists()


def test_rollback_to_a_version_that_does_not_know_an_extra_goes_without_it(host: Host, houses: Path) -> None:
    older = make_wheelhouse(houses, "1.0")
    described = json.loads((older / "wheelhouse.json").read_text())
    del described["wheels"]["report"]
    (older / "wheelhouse.json").write_text(json.dumps(described))
    sum_up(older)
    host.install(older)
    host.install(make_wheelhouse(houses, "1.1"), "report")
    _lose(host, "1.0")
    assert host.rollback()[0].current == "1.0"
    assert host.actual() == "1.0"


def test_rollback_makes_an_environment_that_no_longer_runs_again(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.install(make_wheelhouse(houses, "1.1"))
    host.hand.remove(host.layout.versions / "1.0" / SITE / "plimsoll_agent")
    host.rollback()
    assert host.actual() == "1.0"


def test_rollback_needs_no_wheelhouse_while_the_environment_is_there(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.install(make_wheelhouse(houses, "1.1"))
    host.hand.remove(host.layout.wheelhouses)
    assert host.rollback()[0].current == "1.0"


def test_rollback_without_an_earlier_version_says_that_there_is_none(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    with pytest.raises(InstallError, match="no earlier version to go back to"):
        host.rollback()


def test_rollback_without_environment_and_wheelhouse_says_what_is_missing(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.install(make_wheelhouse(houses, "1.1"))
    host.hand.remove(host.layout.versions / "1.0")
    host.hand.remove(host.layout.wheelhouses)
    with pytest.raises(InstallError, match=r"is gone, and its wheelhouse is not in"):
        host.rollback()
    assert host.actual() == "1.1"


def test_rollback_from_a_version_leaves_a_node_alone_that_never_had_it(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.install(make_wheelhouse(houses, "1.1"))
    versions, node = host.rollback(only_from="1.2")
    assert (versions.current, versions.previous, node.did) == ("1.1", "1.0", [])
    assert host.rollback(only_from="1.1")[0].current == "1.0"
    assert host.rollback(only_from="1.1")[1].did == []


# --- the state ---


def _newer(path: Path) -> Ended:
    row = {"file": str(path), "condition": "newer", "detail": "written by a newer plimsoll (version 4)"}
    return Ended(1, json.dumps([{"file": "a", "condition": "ok"}, row]), "")


def test_a_version_that_cannot_read_the_state_is_not_switched_to(host: Host, houses: Path, tmp_path: Path) -> None:
    host.install(make_wheelhouse(houses, "1.1"))
    units = {**UNITS, "plimsoll-enforce.timer": b"[Timer]\n# other\n"}
    host.programs.state = _newer(tmp_path / "memory.json")
    before = {path: host.all_there()[path] for path in host.all_there() if "opt/" not in path}
    with pytest.raises(InstallError, match=r"1\.0 cannot read the state of this node: .*memory.json: newer, written"):
        host.install(make_wheelhouse(houses, "1.0", units=units))
    assert host.actual() == "1.1"
    assert {path: host.all_there()[path] for path in host.all_there() if "opt/" not in path} == before


def test_rollback_is_held_by_the_state_as_well_unless_told_otherwise(
    host: Host, houses: Path, tmp_path: Path
) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.install(make_wheelhouse(houses, "1.1"))
    host.programs.state = _newer(tmp_path / "record.sqlite")
    with pytest.raises(InstallError, match="--skip-state-check"):
        host.rollback()
    assert host.actual() == "1.1"
    assert host.rollback(skip_state_check=True)[0].current == "1.0"


def test_a_check_that_fails_for_another_reason_holds_it_too(host: Host, houses: Path) -> None:
    host.programs.state = Ended(1, "", "plimsoll: /etc/plimsoll/plimsoll.conf: unknown option 'mod'\n")
    with pytest.raises(InstallError, match=r"could not check the state of this node: plimsoll: /etc.*unknown option"):
        host.install(make_wheelhouse(houses, "1.0"))
    assert not host.layout.current.is_symlink()


def test_no_pass_writes_state_between_the_question_and_the_end_of_the_switch(host: Host, houses: Path) -> None:
    state = host.layout.states[0]
    state.mkdir(parents=True)
    (state / lock.OF_PASSES).touch()
    held = {}

    def run(argv: Sequence[str]) -> Ended:
        if argv[1:] in (["state", "check", *argv[3:]], ["daemon-reload"]):
            held[argv[1]] = not _can_be_held(state)
        return host.programs(argv)

    host.hand = Hand(run, False)
    host.install(make_wheelhouse(houses, "1.0"))
    assert held == {"state": True, "daemon-reload": True}
    assert _can_be_held(state)


def _can_be_held(directory: Path) -> bool:
    """As a pass asks, or one of the releases before, which knew no lock file."""
    found = set[bool]()
    for path in (directory, directory / lock.OF_PASSES):
        pass_ = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(pass_, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.add(True)
        except BlockingIOError:
            found.add(False)
        finally:
            os.close(pass_)
    (both,) = found
    return both


@pytest.mark.parametrize("name", ["", lock.OF_PASSES])
def test_a_pass_that_is_not_waited_for_leaves_its_version_actual(host: Host, houses: Path, name: str) -> None:
    first = make_wheelhouse(houses, "1.0")
    host.install(first)
    state = host.layout.states[0]
    state.mkdir(parents=True)
    (state / lock.OF_PASSES).touch()
    with lock.locked(state / name, 0, print):
        with pytest.raises(InstallError, match=r"/var/lib/plimsoll.*: a pass.* is under way; nothing was switched"):
            host.install(make_wheelhouse(houses, "1.1"))
        assert host.actual() == "1.0"
        assert host.install(first)[1].did == []
        assert host.install(houses / f"plimsoll-1.1-{HERE}", check=True)[0].current == "1.1"


# --- what is refused, and leaves the node as it was ---


def test_a_wheel_of_other_bytes_is_refused(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    wheel = house / "cliff-1-py3-none-any.whl"
    content = bytearray(wheel.read_bytes())
    content[40] ^= 1
    wheel.write_bytes(content)
    with pytest.raises(InstallError, match=r"cliff-1-py3-none-any\.whl: is not the file that was built"):
        host.install(house)
    assert not host.layout.wheelhouses.exists()
    assert not host.layout.versions.exists()


def test_a_wheel_that_went_bad_on_the_node_is_refused_at_rollback(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.install(make_wheelhouse(houses, "1.1"))
    host.hand.remove(host.layout.versions / "1.0")
    (host.layout.wheelhouses / f"plimsoll-1.0-{HERE}" / "cliff-1-py3-none-any.whl").write_bytes(b"")
    with pytest.raises(InstallError, match="is not the file that was built"):
        host.rollback()
    assert host.actual() == "1.1"


def test_a_wheel_that_no_sum_is_listed_for_is_not_installed(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    stray = house / "cliff-99-py3-none-any.whl"
    stray.write_bytes(b"newer, and nobody's")
    host.install(house)
    assert not any("cliff-99" in word for argv in host.programs.ran for word in argv)
    assert not (host.layout.wheelhouses / house.name / stray.name).exists()


def test_a_needed_wheel_without_a_sum_is_refused(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    sums = house / "SHA256SUMS"
    sums.write_text("".join(line for line in sums.read_text().splitlines(True) if "matplotlib" not in line))
    with pytest.raises(InstallError, match=r"does not list matplotlib-1-py3-none-any\.whl"):
        host.install(house)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"os": "el9"}, "the operating system el9, and this node has debian12"),
        ({"python": "cp312"}, "Python cp312, and this node has cp311"),
        ({"arch": "aarch64"}, "the processor aarch64, and this node has x86_64"),
    ],
)
def test_a_wheelhouse_for_other_nodes_is_refused_with_what_to_build_where(
    host: Host, houses: Path, other: dict[str, str], words: str
) -> None:
    described = {"os": "debian12", "python": "cp311", "arch": "x86_64"} | other
    house = make_wheelhouse(houses, "1.0", machine=type(HERE)(**described))
    with pytest.raises(InstallError, match=words) as refused:
        host.install(house)
    assert "Run script/wheelhouse on such a machine, and install plimsoll-1.0-debian12-cp311-x86_64" in str(
        refused.value
    )


def test_an_extra_that_was_not_built_is_refused(host: Host, houses: Path) -> None:
    with pytest.raises(InstallError, match="was built without 'regoin'; it has: report"):
        host.install(make_wheelhouse(houses, "1.0"), "regoin")


@pytest.mark.parametrize("name", ["../../etc/x.whl", "/etc/x.whl", "-e", ""])
def test_a_description_cannot_name_a_file_elsewhere(host: Host, houses: Path, name: str) -> None:
    house = make_wheelhouse(houses, "1.0")
    described = json.loads((house / "wheelhouse.json").read_text())
    described["wheels"]["base"] = [name]
    (house / "wheelhouse.json").write_text(json.dumps(described))
    sum_up(house)
    with pytest.raises(InstallError, match="is not a name"):
        host.install(house)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"version": 1}', "\x00"])
def test_a_description_that_is_none_is_said_in_one_line(houses: Path, host: Host, text: str) -> None:
    house = make_wheelhouse(houses, "1.0")
    (house / "wheelhouse.json").write_text(text)
    with pytest.raises(InstallError, match=r"wheelhouse\.json: cannot be read"):
        host.install(house)


def test_a_directory_that_is_no_wheelhouse_is_said_to_be_none(host: Host, tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="is not a wheelhouse"):
        host.install(tmp_path)


@pytest.mark.parametrize("word", ["venv", "pip-26", "-c"])
def test_what_could_not_be_made_leaves_the_version_actual(host: Host, houses: Path, word: str) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.programs.broken = {word: Ended(1, "", "ERROR: of its own\nsome hint\n")}
    with pytest.raises(InstallError, match="ERROR: of its own"):
        host.install(make_wheelhouse(houses, "1.1"))
    assert host.actual() == "1.0"
    assert not (host.layout.versions / "1.1").exists()


def test_a_full_disk_met_by_pip_is_called_a_full_disk(host: Host, houses: Path) -> None:
    host.programs.broken = {"pip-26": Ended(1, "", "ERROR: [Errno 28] No space left on device\n")}
    with pytest.raises(InstallError, match=r"no space left: it needs about \d+ MiB.*make room.*nothing was switched"):
        host.install(make_wheelhouse(houses, "1.0"))
    assert not (host.layout.versions / "1.0").exists()


def test_too_little_space_is_said_before_anything_is_made(
    host: Host, houses: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plimsoll_installer.room.free_bytes", lambda _: 1000)
    with pytest.raises(InstallError, match="and 0 MiB are free"):
        host.install(make_wheelhouse(houses, "1.0"))
    assert host.programs.ran == []
    assert not host.layout.wheelhouses.exists()


def test_users_that_cannot_be_made_leave_the_units_and_the_version(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.programs.broken = {"systemd-sysusers": Ended(1, "", "uid 990 is taken\n")}
    units = {**UNITS, "sysusers.conf": b"u plimsoll 990\n", "plimsoll-enforce.service": b"[Service]\n# 1.1\n"}
    house = make_wheelhouse(houses, "1.1", units=units)
    with pytest.raises(InstallError, match="systemd-sysusers: uid 990 is taken"):
        host.install(house)
    assert host.actual() == "1.0"
    assert (host.layout.units / "plimsoll-enforce.service").read_bytes() == UNITS["plimsoll-enforce.service"]
    host.programs.broken = {}
    assert host.install(house)[0].current == "1.1"


# --- what is somebody else's ---


def test_a_command_of_somebody_else_is_left_and_named(host: Host, houses: Path) -> None:
    own = host.layout.commands / "plimsoll"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\n", encoding="utf-8")
    linked = host.layout.commands / "check_plimsoll"
    linked.symlink_to("/usr/lib/nagios/plugins/check_plimsoll")
    _, node = host.install(make_wheelhouse(houses, "1.0"))
    assert own.read_text(encoding="utf-8") == "#!/bin/sh\n"
    assert str(linked.readlink()) == "/usr/lib/nagios/plugins/check_plimsoll"
    assert [note.split(" is not")[0] for note in node.notes] == [str(own), str(linked)]
    host.remove()
    assert own.exists()
    assert linked.is_symlink()


def test_a_link_into_an_older_layout_of_ours_is_replaced(host: Host, houses: Path) -> None:
    own = host.layout.commands / "plimsoll"
    own.parent.mkdir(parents=True)
    own.symlink_to(host.layout.base / "bin/plimsoll")
    _, node = host.install(make_wheelhouse(houses, "1.0"))
    assert own.readlink() == host.layout.base / "current/bin/plimsoll"
    assert node.notes == []


# --- check mode ---


def test_check_says_what_an_install_would_do_and_does_nothing(host: Host, houses: Path) -> None:
    house = make_wheelhouse(houses, "1.0")
    versions, would = host.install(house, check=True)
    assert not host.layout.root.exists()
    assert versions.current == "1.0"
    _, did = host.install(house)
    told = [sentence.split(", about")[0].replace("would ", "") for sentence in would.did]
    told.remove("ask plimsoll 1.0 whether it reads the state of this node")
    words = {"copied": "copy", "made": "make", "placed": "place", "switched": "switch"}
    assert told == [f"{words[verb]} {rest}" for verb, _, rest in (each.partition(" ") for each in did.did)]


def test_check_of_an_upgrade_and_of_a_rollback_change_nothing(host: Host, houses: Path) -> None:
    host.install(make_wheelhouse(houses, "0.9"))
    host.install(make_wheelhouse(houses, "1.0", units={**UNITS, "plimsoll-old.timer": b"[Timer]\n"}))
    house = make_wheelhouse(houses, "1.1")
    before, ran = host.all_there(), len(host.programs.ran)
    versions, node = host.install(house, check=True)
    assert (versions.current, versions.previous) == ("1.1", "1.0")
    assert f"would remove {host.layout.versions / '0.9'}" in node.did
    assert any("plimsoll-old.timer, which 1.1 does not have" in sentence for sentence in node.did)
    assert len(host.programs.ran) == ran
    assert host.rollback(check=True)[0].current == "0.9"
    host.remove(check=True, state=True)
    assert host.all_there() == before


def test_check_finds_that_a_version_which_is_there_cannot_read_the_state(
    host: Host, houses: Path, tmp_path: Path
) -> None:
    host.install(make_wheelhouse(houses, "1.0"))
    host.install(make_wheelhouse(houses, "1.1"))
    host.programs.state = _newer(tmp_path / "memory.json")
    with pytest.raises(InstallError, match="cannot read the state"):
        host.rollback(check=True)
