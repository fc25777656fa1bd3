"""Whenever the installer is killed, what is in force is whole, and the next run completes it."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from plimsoll_installer import room
from plimsoll_installer.errors import InstallError
from plimsoll_installer.hand import Ended, Hand

from tests import depth
from tests.unit.installing import UNITS, Host, make_wheelhouse

NEWER = {**UNITS, "plimsoll-enforce.timer": b"[Timer]\n# newer\n", "plimsoll-new.timer": b"[Timer]\n"}
STRIDE = depth.count(quick=7, landing=1, soak=1)
"""From one step before which it is killed to the next."""
OLDER = {**UNITS, "plimsoll-old.timer": b"[Timer]\n"}


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


class Killed(BaseException):
    """As SIGKILL: nobody handles it."""


class Mortal(Hand):
    """Dies before the ``left``-th thing that it does, and counts them when it lives."""

    left: int | None = None
    done = 0
    made = 0
    """What had been done when the environment was there, and the change outside of it began."""

    @classmethod
    def step(cls) -> None:
        if cls.left is not None and cls.done >= cls.left:
            raise Killed
        cls.done += 1

    @classmethod
    def live(cls, left: int | None = None) -> None:
        cls.left, cls.done, cls.made = left, 0, 0 if left is None else cls.made

    def stage(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        if path.name == "under-way.json" and self.left is None:
            type(self).made = self.done
        super().stage(path, content, mode)

    def rename(self, old: Path, new: Path) -> None:
        self.step()
        super().rename(old, new)

    def _ours(self, path: Path, mode: int) -> None:  # each directory and file, when it has its content
        self.step()
        super()._ours(path, mode)

    def stage_link(self, path: Path, target: str) -> None:
        self.step()
        super().stage_link(path, target)

    def unstage(self, path: Path) -> None:
        self.step()
        super().unstage(path)

    def remove(self, path: Path) -> None:
        self.step()
        if path.is_dir() and not path.is_symlink():  # in the middle of it, too
            for inner in sorted(path.rglob("*"), reverse=True):
                if inner.is_file():
                    inner.unlink()
                    break
            self.step()
        super().remove(path)

    def call(self, argv: Sequence[str], what: str) -> str:
        self.step()
        said = super().call(argv, what)
        self.step()  # its work is done, and we have not heard of it
        return said


@pytest.fixture
def host(memory: Path) -> Host:
    Mortal.live()
    return Host(memory / "node", Mortal)


@contextmanager
def in_memory() -> Iterator[Path]:
    """A directory in memory, where there is one: a node is made anew some hundred times."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as directory:
        yield Path(directory)


@pytest.fixture
def memory() -> Iterator[Path]:
    with in_memory() as directory:
        yield directory


@pytest.fixture(scope="module")
def houses() -> Iterator[dict[str, Path]]:
    with in_memory() as made:
        yield {
            "1.0": make_wheelhouse(made, "1.0"),
            "1.1": make_wheelhouse(made, "1.1", units=OLDER),
            "1.2": make_wheelhouse(made, "1.2", units=NEWER),
        }


def tried(steps: int, begin: int = 0) -> list[int]:
    """Of so many steps those before which it is killed: at quick depth some, always with the first and the last."""
    return sorted({*range(begin, steps, STRIDE), steps - 1})


def _install_first(host: Host, houses: dict[str, Path]) -> None:
    host.install(houses["1.0"])


def _upgrade(host: Host, houses: dict[str, Path]) -> None:
    host.install(houses["1.2"])


def _add_an_extra(host: Host, houses: dict[str, Path]) -> None:
    host.install(houses["1.1"], "report")


def _roll_back(host: Host, houses: dict[str, Path]) -> None:
    host.rollback("1.1")


def _roll_back_to_what_is_gone(host: Host, houses: dict[str, Path]) -> None:
    host.hand.remove(host.layout.versions / "1.0")
    host.rollback("1.1")


def _remove(host: Host, houses: dict[str, Path]) -> None:
    host.remove(state=True)


BEFORE = {_install_first: (), _upgrade: ("1.0", "1.1")}


@pytest.mark.parametrize(
    "change", [_install_first, _upgrade, _add_an_extra, _roll_back, _roll_back_to_what_is_gone, _remove]
)
def test_the_next_run_completes_what_was_killed_at_any_step(
    host: Host, houses: dict[str, Path], memory: Path, change: Callable[[Host, dict[str, Path]], None]
) -> None:
    host.hand.directory(host.layout.root)
    for version in BEFORE.get(change, ("1.0", "1.1")):
        host.install(houses[version])
    saved = host.save(memory / "before")
    Mortal.live()
    change(host, houses)
    steps, desired = Mortal.done, host.all_there()
    assert steps > 10
    # That environments are made again from any step is seen with the first two.
    begin = Mortal.made if change in (_upgrade, _add_an_extra) else 0
    for left in tried(steps, begin):
        host.restore(saved)
        Mortal.live(left)
        with pytest.raises(Killed):
            change(host, houses)
        assert host.is_sound() or change is _remove, f"what is in force is not whole after step {left} of {steps}"
        Mortal.live()
        change(host, houses)
        assert host.all_there() == desired, f"killed after step {left} of {steps}"


def _kills_of(host: Host, house: Path, memory: Path) -> Iterator[int]:
    """An install on top of what is there, killed after each of its steps once the environment is made."""
    saved = host.save(memory / "before")
    Mortal.live()
    host.install(house)
    for left in tried(Mortal.done, Mortal.made):
        host.restore(saved)
        host.programs.ran.clear()
        Mortal.live(left)
        with pytest.raises(Killed):
            host.install(house)
        yield left


def test_systemd_reads_the_units_again_when_the_run_that_put_them_was_killed_before(
    host: Host, houses: dict[str, Path], memory: Path
) -> None:
    host.install(houses["1.0"])
    for left in _kills_of(host, houses["1.2"], memory):
        Mortal.live()
        host.install(houses["1.2"])
        assert ["systemctl", "daemon-reload"] in host.programs.ran, f"killed after step {left}"


def test_a_timer_is_not_stopped_while_the_version_that_has_it_is_actual(
    host: Host, houses: dict[str, Path], memory: Path
) -> None:
    host.install(houses["1.1"])
    for left in _kills_of(host, houses["1.2"], memory):
        stopped = any("disable" in argv for argv in host.programs.ran)
        is_there = (host.layout.units / "plimsoll-old.timer").exists()
        assert host.actual() == "1.2" or (is_there and not stopped), f"killed after step {left}"


def test_a_removal_that_was_killed_leaves_what_to_repeat_it_with_and_systemd_hears_of_it(
    host: Host, houses: dict[str, Path], memory: Path
) -> None:
    host.install(houses["1.0"])
    saved = host.save(memory / "before")
    Mortal.live()
    host.remove()
    for left in tried(Mortal.done):
        host.restore(saved)
        Mortal.live(left)
        with pytest.raises(Killed):
            host.remove()
        outside = [path for path, told in host.all_there().items() if " " in told and not path.startswith("opt/")]
        assert host.layout.installer.exists() or not outside, f"killed after step {left}"
        host.programs.ran.clear()
        Mortal.live()
        host.remove()
        assert ["systemctl", "daemon-reload"] in host.programs.ran, f"killed after step {left}"


def test_rollback_after_a_killed_upgrade_comes_back_to_what_was_actual(
    host: Host, houses: dict[str, Path], memory: Path
) -> None:
    host.install(houses["1.0"])
    host.install(houses["1.1"])
    saved = host.save(memory / "before")
    outside = {path: told for path, told in host.all_there().items() if not path.startswith("opt/")}
    Mortal.live()
    host.install(houses["1.2"])
    made, steps = Mortal.made, Mortal.done
    for left in tried(steps, made):
        host.restore(saved)
        Mortal.live(left)
        with pytest.raises(Killed):
            host.install(houses["1.2"])
        Mortal.live()
        host.rollback("1.2")
        assert host.actual() == "1.1", f"killed after step {left}"
        there = {path: told for path, told in host.all_there().items() if not path.startswith("opt/")}
        assert there == outside, f"killed after step {left}"


def test_an_install_after_a_killed_rollback_can_be_rolled_back_again(
    host: Host, houses: dict[str, Path], memory: Path
) -> None:
    host.install(houses["1.0"])
    host.install(houses["1.1"])
    saved = host.save(memory / "before")
    Mortal.live()
    host.rollback()
    made, steps = Mortal.made, Mortal.done
    for left in tried(steps, made):
        host.restore(saved)
        Mortal.live(left)
        with pytest.raises(Killed):
            host.rollback()
        Mortal.live()
        versions, _ = host.install(houses["1.1"])
        assert (versions.current, versions.previous) == ("1.1", "1.0"), f"killed after step {left}"
        assert host.rollback()[0].current == "1.0"
        assert host.actual() == "1.0"


class Full(Hand):
    """There is room for so many files more."""

    left = 1000

    @classmethod
    def need_room(cls, path: Path) -> None:
        if cls.left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        cls.left -= 1

    def stage(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        self.need_room(path)
        super().stage(path, content, mode)

    def stage_link(self, path: Path, target: str) -> None:
        self.need_room(path)
        super().stage_link(path, target)


def test_a_disk_that_fills_up_at_any_file_leaves_units_and_version_as_they_were(
    memory: Path, houses: dict[str, Path]
) -> None:
    host = Host(memory / "node", Full)
    host.install(houses["1.0"])
    saved = host.save(memory / "before")
    units = {path: told for path, told in host.all_there().items() if not path.startswith("opt/")}
    Full.left = 1000
    host.install(houses["1.2"])
    needed = 1000 - Full.left
    refused = 0
    for left in tried(needed):
        host.restore(saved)
        Full.left = left
        try:
            host.install(houses["1.2"])
        except InstallError as error:
            said = str(error)
        except OSError as error:
            said = room.explain(error)
        else:
            raise AssertionError("there was no room for it")
        assert "no space" in said
        assert "make room and run it" in said
        if host.layout.current.readlink().name == "1.0":
            refused += 1
            assert said.endswith("nothing was switched")
            assert {path: told for path, told in host.all_there().items() if not path.startswith("opt/")} == units
        Full.left = 1000
        host.install(houses["1.2"])
        assert host.actual() == "1.2"
    # Only the note of what was done, which comes after, may lack room when the version is in force already.
    assert refused >= len(tried(needed)) - 1


def test_a_program_that_fails_leaves_a_record_of_nothing_whole(host: Host, houses: dict[str, Path]) -> None:
    host.programs.broken = {"sync": Ended(1, "", "sync: error syncing: Input/output error")}
    with pytest.raises(InstallError, match="Input/output error"):
        host.install(houses["1.0"])
    host.programs.broken = {}
    assert host.install(houses["1.0"])[0].current == "1.0"
    assert host.is_sound()
