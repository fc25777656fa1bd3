"""The parts of the installer that the commands are made of."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest
from plimsoll_installer import __main__ as entry
from plimsoll_installer import cli, lock, machine, node, room
from plimsoll_installer.errors import InstallError
from plimsoll_installer.hand import Ended, Hand, beside
from plimsoll_installer.layout import Layout
from plimsoll_installer.machine import Machine
from plimsoll_installer.system import System

from tests.unit.installing import Programs, make_wheelhouse


@pytest.fixture
def hand() -> Hand:
    return Hand(Programs(), False)


# --- files ---


def test_what_is_staged_is_nobodys_until_it_is_committed(hand: Hand, tmp_path: Path) -> None:
    path = tmp_path / "plimsoll.conf"
    path.write_text("old", encoding="utf-8")
    hand.stage(path, b"new")
    assert path.read_text(encoding="utf-8") == "old"
    hand.commit(path)
    assert path.read_text(encoding="utf-8") == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["plimsoll.conf"]


def test_a_link_that_somebody_laid_in_our_way_is_not_followed(hand: Hand, tmp_path: Path) -> None:
    victim = tmp_path / "shadow"
    victim.write_text("secret", encoding="utf-8")
    path = tmp_path / "unit"
    beside(path).symlink_to(victim)
    path.symlink_to(victim)
    hand.write(path, b"ours")
    assert victim.read_text(encoding="utf-8") == "secret"
    assert not path.is_symlink()


def test_removing_a_link_to_a_directory_leaves_the_directory(hand: Hand, tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    directory.mkdir()
    (tmp_path / "link").symlink_to(directory)
    hand.remove(tmp_path / "link")
    assert directory.is_dir()
    assert not (tmp_path / "link").is_symlink()


def test_a_program_that_failed_is_told_by_its_error_and_not_by_its_last_hint(tmp_path: Path) -> None:
    said = "WARNING: old\nERROR: Could not install x.whl\nhint: see the manual\n"
    hand = Hand(lambda _: Ended(1, "", said), False)
    with pytest.raises(InstallError, match=r"^pip: ERROR: Could not install x\.whl$"):
        hand.call(["pip"], "pip")


def test_a_program_that_failed_without_a_word_is_told_by_its_status() -> None:
    with pytest.raises(InstallError, match=r"^venv: exit status 9$"):
        Hand(lambda _: Ended(9, "", ""), False).call(["venv"], "venv")


# --- the machine ---


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ({"ID": "debian", "VERSION_ID": "12"}, "debian12"),
        ({"ID": "ubuntu", "VERSION_ID": "24.04"}, "ubuntu24.04"),
        ({"ID": "rhel", "VERSION_ID": "9.4", "PLATFORM_ID": "platform:el9"}, "el9"),
        ({"ID": "rocky", "VERSION_ID": "9.3", "PLATFORM_ID": "platform:el9"}, "el9"),
        ({"ID": "fedora", "VERSION_ID": "41", "PLATFORM_ID": "platform:f41"}, "fedora41"),
        ({"ID": "debian"}, "debian"),
        ({"ID": "../x", "VERSION_ID": "1-2"}, "..x12"),
        ({}, "linux"),
    ],
)
def test_the_operating_system_has_one_name_where_wheels_go_together(release: dict[str, str], name: str) -> None:
    assert machine.system(release) == name


# --- systemd ---


def test_without_systemd_running_nothing_is_stopped_but_the_links_go(tmp_path: Path) -> None:
    programs = Programs()
    system = System(Hand(programs, False), Layout(tmp_path), is_up=False, is_node=True, is_labelled=False)
    system.reload()
    system.disable(["plimsoll-enforce.timer"])
    assert programs.ran == [["systemctl", "disable", "--quiet", "plimsoll-enforce.timer"]]


def test_below_another_root_no_program_of_the_system_is_run(tmp_path: Path) -> None:
    programs = Programs()
    layout = Layout(tmp_path)
    for file in (layout.sysusers, layout.tmpfiles):
        file.parent.mkdir(parents=True)
        file.write_text("", encoding="utf-8")
    system = System(Hand(programs, False), layout, is_up=True, is_node=False, is_labelled=True)
    system.make_users()
    system.make_directories()
    system.relabel(tmp_path)
    system.disable(["plimsoll-enforce.timer"])
    system.reload()
    assert system.known("passwd", ["root"]) == []
    assert programs.ran == []


def test_a_line_of_others_that_is_none_does_not_stop_an_install_and_a_directory_that_cannot_be_made_does(
    tmp_path: Path,
) -> None:
    layout = Layout(tmp_path)
    layout.tmpfiles.parent.mkdir(parents=True)
    layout.tmpfiles.write_text("", encoding="utf-8")

    def made(status: int) -> System:
        hand = Hand(lambda _: Ended(status, "", "fchmod() failed: Read-only file system\n"), False)
        return System(hand, layout, is_up=True, is_node=True, is_labelled=False)

    made(65).make_directories()
    for status in (1, 73):
        with pytest.raises(InstallError, match=r"systemd-tmpfiles: fchmod\(\) failed: Read-only file system"):
            made(status).make_directories()


def test_a_file_of_the_site_that_comes_before_ours_is_read_as_well(tmp_path: Path) -> None:
    programs, layout = Programs(), Layout(tmp_path)
    layout.tmpfiles.parent.mkdir(parents=True)
    layout.tmpfiles.write_text("", encoding="utf-8")
    System(Hand(programs, False), layout, is_up=True, is_node=True, is_labelled=False).make_directories()
    (argv,) = programs.ran
    assert argv == ["systemd-tmpfiles", "--create", *(f"--prefix={path}" for path in layout.states)]


def test_where_selinux_holds_the_node_programs_get_their_label(tmp_path: Path) -> None:
    programs = Programs()
    System(Hand(programs, False), Layout(tmp_path), is_up=True, is_node=True, is_labelled=True).relabel(tmp_path)
    assert programs.ran == [["restorecon", "-R", str(tmp_path)]]


# --- one at a time ---


def test_a_second_run_waits_for_the_first_and_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    order: list[str] = []
    with lock.locked(tmp_path, 0, said.append):

        def second() -> None:
            with lock.locked(tmp_path, 30, said.append):
                order.append("second")

        waiting = threading.Thread(target=second)
        waiting.start()
        while not said:
            time.sleep(0.01)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
    assert said == ["another install, rollback or remove is under way on this node: waiting for it"]


def test_who_does_not_wait_is_told_that_nothing_was_changed(tmp_path: Path) -> None:
    with (
        lock.locked(tmp_path, 0, print),
        pytest.raises(InstallError, match="is under way; this one changed nothing"),
        lock.locked(tmp_path, 0, print),
    ):
        raise AssertionError("two at once")


def test_a_directory_that_was_removed_as_we_took_it_is_not_the_one_that_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, take, taken = tmp_path / "plimsoll", lock._takes, []
    base.mkdir()

    def takes(opened: int) -> bool:
        if not taken:  # the one before us was a remove, and a third one installs
            base.rmdir()
            (tmp_path / "another inode").mkdir()
            base.mkdir()
        taken.append(opened)
        return take(opened)

    monkeypatch.setattr(lock, "_takes", takes)
    with lock.locked(base, 30, print):
        assert os.path.samestat(os.fstat(lock.held()[0]), base.stat())
    assert len(taken) == 2


def test_who_makes_the_directory_holds_it_also_when_a_removal_took_it_as_we_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, take, taken = tmp_path / "plimsoll", lock._takes, []

    def takes(opened: int) -> bool:
        if not taken:
            base.rmdir()
        taken.append(opened)
        return take(opened)

    monkeypatch.setattr(lock, "_takes", takes)
    with lock.locked(base, 30, print, make=Path.mkdir):
        assert os.path.samestat(os.fstat(lock.held()[0]), base.stat())
    assert len(taken) == 2


@pytest.mark.parametrize(("words", "held"), [([], 1), (["--check"], 0)])
def test_an_install_holds_a_node_that_has_nothing_yet_and_a_check_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], held: int
) -> None:
    house, root, locks = make_wheelhouse(tmp_path, "1.0"), tmp_path / "node", []
    monkeypatch.setattr(node, "install", lambda *_: locks.extend(lock.held()) or node.Versions())
    assert cli.main(["install", "--root", str(root), "--wheelhouse", str(house), *words]) == 0
    assert len(locks) == held
    assert root.exists() == bool(held)


def test_the_lock_is_handed_to_programs_and_taken_back(tmp_path: Path) -> None:
    with lock.locked(tmp_path, 0, print):
        (held,) = lock.held()
        assert os.path.samestat(os.fstat(held), tmp_path.stat())
    assert lock.held() == []


# --- which Python ---


def test_the_python_of_the_wheelhouse_is_looked_for_where_all_users_reach_it(tmp_path: Path) -> None:
    house = make_wheelhouse(tmp_path, "1.0", machine=Machine("el9", "cp312", "x86_64"))
    assert entry.pythons(house) == ["/usr/bin/python3.12", "/usr/local/bin/python3.12"]


def test_the_copy_on_the_node_takes_the_python_of_the_version_actual(tmp_path: Path) -> None:
    (tmp_path / "current/bin").mkdir(parents=True)
    (tmp_path / "current/bin/python").symlink_to("/usr/bin/python3.13")
    assert entry.pythons(tmp_path)[0] == "/usr/bin/python3.13"


# --- the command line, and words ---


def test_an_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["install", "--extra", "region", "--bogus"])
    assert ended.value.code == 64
    assert "--bogus" in capsys.readouterr().err


def test_errors_are_one_line_and_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").mkdir()
    assert cli.main(["install", "--root", str(tmp_path / "node"), "--wheelhouse", str(tmp_path / "a\n")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "node").exists()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/opt/x"), "/opt/x: no space left; make room"),
        (
            OSError(errno.EROFS, "Read-only file system", "/opt/x"),
            "/opt/x: Read-only file system; correct that and run it again",
        ),
        (OSError("odd"), "the node: odd; correct that and run it again"),
    ],
)
def test_an_error_of_the_system_says_where_and_what_to_do(error: OSError, words: str) -> None:
    assert room.explain(error).startswith(words)
