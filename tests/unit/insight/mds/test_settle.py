"""``mds settle`` and ``mds undo`` beside settings that change, or that Ceph prints in other words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.adapters.file_system import DirectoryGone
from plimsoll_insight.cli import mds_settle
from plimsoll_insight.cli.mds_settle import MdsSettle, MdsUndo
from plimsoll_insight.mds.answers import FileSystem
from plimsoll_insight.mds.settings import CephSetting, Name
from tests.unit.insight.mds.ranks import counted, owned, reading
from tests.unit.person import Person, Terminal

RANKS = {0: "a", 1: "b"}
FREE = {Name.PIN: "-1", Name.DISTRIBUTED: "0", Name.RANDOM: "0.000000"}


class Asks(Terminal):
    """A terminal at which something happens before the answer."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__("y\n")
        self._then = then

    def readline(self, *_: object) -> str:
        self._then()
        return super().readline()


class Beside(Person):
    """A file system whose directories /a and /b have pins; Ceph prints a share with six digits."""

    def __init__(self, directory: Path) -> None:
        self.settings: Settings = replace(config.load([], []), state_dir=directory)
        self.state = State(directory)
        self.pins = {CephSetting(name, path): value for path in ("/a", "/b") for name, value in FREE.items()}
        self.file_system = FileSystem(id=1, name="cephfs", ranks=RANKS, inactive=(), balances=True, pools=(5,))
        self.pins[CephSetting(Name.INTERVAL, "mds")] = "5"
        self.most = "0.010000"
        self.owners = owned({"/": 0})
        counters = {rank: counted() for rank in RANKS}
        self.live = SimpleNamespace(
            all=lambda: [self.file_system] * 2,
            reading=lambda _: reading(0, self.owners, counters),
            in_force=lambda _, name: self.most if name.endswith("_max") else "true",
        )

    def read(self, setting: CephSetting) -> str:
        return self.pins[setting]

    def write(self, setting: CephSetting, value: str) -> None:
        self.pins[setting] = f"{float(value):.6f}" if setting.name is Name.RANDOM else value

    def check_mount(self, *_: object) -> None:
        """It is the right one."""

    def runs(self, command: type, *words: str, then: Callable[[], object] | None = None) -> int:
        here = mds_settle._Place(live=self.live, file_system=self.file_system, fsid="fsid", daemons="rank 0: mds.a")  # type: ignore[arg-type]
        agreed = ("--yes",) if then is None else ()
        stdin = None if then is None else Asks(then)
        return self.types(command, *agreed, *words, settings=self.settings, stdin=stdin, place=lambda *_: here)

    def settles(self, *words: str, then: Callable[[], object] | None = None) -> int:
        return self.runs(MdsSettle, "--keep-balancing", "--wait", "1ms", *words, then=then)


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Beside:
    made = Beside(tmp_path)
    monkeypatch.setattr(mds_settle, "LiveSettings", lambda *_: made)
    return made


def test_a_share_is_taken_back_though_ceph_prints_more_digits_of_it(beside: Beside) -> None:
    before = dict(beside.pins)
    assert beside.settles("--pin", "/a=0.01") == 0
    assert (beside.pins != before, beside.runs(MdsUndo), beside.pins) == (True, 0, before)


def test_a_share_above_what_ranks_take_is_refused_before_the_pins_of_before_are_gone(
    beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    beside.pins[CephSetting(Name.PIN, "/a")] = "1"
    before = dict(beside.pins)
    assert (beside.settles("--pin", "/a=0.5"), beside.pins) == (1, before)
    assert "takes no share above 0.01" in caplog.text


def test_what_changed_while_a_person_read_is_not_overwritten_and_the_record_has_no_older_value(
    beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    of = CephSetting(Name.PIN, "/a")
    assert beside.settles("--pin", "/a=0", then=lambda: beside.pins.update({of: "1"})) == 1
    assert beside.pins[of] == "1"
    assert "ceph.dir.pin of /a is 1 now, and was -1 when it was shown" in caplog.text
    assert not beside.state.file_systems.is_file()


def test_a_change_that_was_not_shown_is_not_taken_back(beside: Beside) -> None:
    beside.settles("--pin", "/a=0")
    person = Beside(beside.state.directory)
    person.pins = beside.pins
    assert beside.runs(MdsUndo, then=lambda: person.settles("--pin", "/b=0")) == 0
    assert "1 of 1 change taken back" in beside.out
    assert (beside.pins[CephSetting(Name.PIN, "/a")], beside.pins[CephSetting(Name.PIN, "/b")]) == ("-1", "0")


def test_a_pin_whose_directory_is_gone_is_taken_back_with_it(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: CephSetting) -> str:
        raise DirectoryGone("/mnt/a: ceph.dir.pin: No such file or directory")

    beside.settles("--pin", "/a=0")
    with monkeypatch.context() as patch:
        patch.setattr(Beside, "read", lambda _, setting: gone(setting))
        assert beside.runs(MdsUndo) == 0
    assert "ceph.dir.pin of /a: the directory is gone, and its pin with it" in " ".join(beside.err.split())
    assert (beside.runs(MdsUndo), beside.out.endswith("has nothing to take back.\n")) == (0, True)


def test_it_is_not_said_to_be_so_where_ranks_spread_directories_in_their_own_time(beside: Beside) -> None:
    assert beside.settles("--pin", "/a=distributed") == 0
    assert "All ranks have it so" not in beside.out
    assert "Ranks spread what is in /a from now on" in beside.out


def test_all_is_not_gathered_to_a_rank_that_cannot_have_what_is_in_the_root_alone(
    beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    beside.owners = owned({"/": 0, "/b": 1})
    before = dict(beside.pins)
    assert (beside.settles("--gather", "1"), beside.pins) == (64, before)
    assert "--gather 1: rank 0 has the root" in caplog.text
    beside.settles("--gather", "0")
    assert beside.pins[CephSetting(Name.PIN, "/b")] == "0"


def test_undo_too_says_that_balancing_begins_again_in_all_file_systems(beside: Beside) -> None:
    beside.file_system = replace(beside.file_system, balances=None)
    beside.runs(MdsSettle, "--wait", "1ms")
    assert beside.runs(MdsUndo) == 0
    assert "mds_bal_interval is of all 2 file systems of this cluster" in beside.out
