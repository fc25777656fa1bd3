"""The files of a node, for real in a temporary directory: what is read back, what is refused, what is left whole."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.hypervisor import Versions
from plimsoll_agent.model.later import Later
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import BrakeMemory, Pending, Remembered
from plimsoll_agent.model.reason import Code
from plimsoll_agent.store import state as state_module
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.record import SCHEMA_VERSION
from plimsoll_agent.store.state import Busy, CorruptState, Given, Memory, State, StateError
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import replace
from tests.unit.nobody import NOBODY, as_nobody, umask
from tests.unit.values import GUEST, NOON, OF_0_1_0, VOLUME, a_disk, a_guest, examples_of, possible_limits

KEY = f"{GUEST}/{VOLUME}"
TIGHT = Limits(total_iops_sec=250, total_iops_sec_max=500, total_iops_sec_max_length=30, total_bytes_sec=104857600)
OLD = Remembered(
    desired=TIGHT,
    since=NOON,
    seen=NOON + timedelta(minutes=5),
    applied=Limits(read_iops_sec=9, group_name="g"),
    attachment="3:2:volumes/v",
)
FOUGHT = replace(
    OLD,
    restore_to=Limits(write_iops_sec=7),
    foreign=True,
    enforced=True,
    by_type="gold",
    by_rules=("night",),
    revision="a1b2c3",
    reverts=3,
    reverted_at=NOON,
    source=Code.QOS_SPEC,
    released="gold",
    pending=Pending(before=Limits(total_iops_sec=7), at=NOON, revision="a1b2", rules="c3d4"),
)
SOON = NOON + timedelta(hours=1)
DISK = a_disk()
HOLD = Hold(
    disk=DISK.named, limits=TIGHT, since=NOON, until=NOON + timedelta(hours=2), by="root (ann)", why="a restore"
)
MEMORY = Memory(disks={KEY: OLD}, holds={DISK.key: HOLD}, brake=BrakeMemory(judged="a1b2c3", recent={KEY: NOON}))
APPROVAL = Given(Approval("0123456789abcdef" * 4, remove=True), "root (ann)", NOON)
OTHER = Given(Approval("0123456789abcdef"), "ann", NOON)


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path, boot="b1")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> State:
    """For hypothesis, whose examples share it."""
    return State(tmp_path_factory.mktemp("state"), boot="b1")


@pytest.fixture
def sealed() -> Iterator[State]:
    """A directory that may be read and not written to, by root neither: for a while we are nobody."""
    with tempfile.TemporaryDirectory() as name:
        state = State(Path(name), boot="b1")
        state.save_memory(MEMORY)
        state.memory.chmod(0o644)
        hold(state)
        os.chown(state.directory / "pass.lock", NOBODY, NOBODY)
        state.directory.chmod(0o555)
        try:
            with as_nobody():
                yield state
        finally:
            state.directory.chmod(0o700)


@contextmanager
def full_disk() -> Iterator[None]:
    """Writes fail after 64 bytes of a file (EFBIG), as they would on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(state: State) -> list[str]:
    return sorted(path.name for path in state.directory.iterdir())


def saved(state: State, **other: Any) -> dict[str, Any]:
    """The file's JSON, of one disk and one hold, with some parts of that disk replaced."""
    state.save_memory(MEMORY)
    envelope: dict[str, Any] = json.loads(state.memory.read_text())
    envelope["disks"][KEY] |= other
    return envelope


def loaded(state: State, text: str) -> Memory | None:
    state.memory.write_text(text)
    return state.load_memory()


# --- memory: what is written is what is read


def test_a_node_without_files_remembers_nothing_and_nothing_is_approved(state: State) -> None:
    assert state.load_memory() is None
    assert state.load_approvals() == ()
    assert names(state) == [], "looking makes no file"


def test_what_is_remembered_is_read_back(state: State) -> None:
    left_alone = a_disk(a_guest(uuid=VOLUME, project=None), volume_id=None, image="näme\n\ud83d")
    memory = Memory(
        disks={
            KEY: OLD,
            f"{GUEST}/vms/disk": FOUGHT,
            f"{GUEST}/vms/other": replace(OLD, applied=None, desired=Limits(), restore_to=Limits()),
            f"{GUEST}/vms/never": replace(OLD, applied=Limits(), desired=None),
            f"{GUEST}/vms/näme\n\ud83d": replace(OLD, attachment=None),
            f"{GUEST}/vms/later": replace(
                OLD, later=(Later(at=NOON, limits=TIGHT, by_type="gold"), Later(at=SOON, limits=None))
            ),
            f"{GUEST}/vms/unsure": replace(OLD, later=None),
        },
        holds={DISK.key: HOLD, left_alone.key: replace(HOLD, disk=left_alone.named, limits=None, ignore_health=True)},
        brake=BrakeMemory(
            judged="a1b2c3",
            let_through=(APPROVAL.approval, OTHER.approval),
            approved_rules="c3d4",
            stopped="d4e5f6",
            recent={KEY: NOON},
        ),
    )
    state.save_memory(memory)
    assert state.load_memory() == memory


def test_the_source_of_what_is_desired_later_is_remembered(state: State) -> None:
    state.save_memory(
        Memory(
            disks={KEY: replace(OLD, later=(Later(at=NOON, limits=TIGHT, by_type=None, source=Code.NODE_DEFAULT),))}
        )
    )
    memory = state.load_memory()
    assert memory is not None
    assert [each.source for each in memory.disks[KEY].later or ()] == [Code.NODE_DEFAULT]


@examples_of(50)  # each waits for the disk
@given(possible_limits(), st.none() | possible_limits())
def test_limits_of_any_kind_are_remembered_as_they_are(
    scratch: State, desired: Limits, applied: Limits | None
) -> None:
    hold = replace(HOLD, limits=applied)
    memory = Memory(
        disks={KEY: replace(OLD, desired=desired, applied=applied, restore_to=applied)}, holds={DISK.key: hold}
    )
    scratch.save_memory(memory)
    assert scratch.load_memory() == memory


def test_times_keep_their_moment_and_their_fractions(state: State) -> None:
    since = datetime(2026, 3, 29, 1, 59, 59, 999999, timezone(timedelta(hours=2)))
    state.save_memory(Memory(disks={KEY: replace(OLD, since=since, reverted_at=since)}))
    memory = state.load_memory()
    assert memory is not None
    assert memory.disks[KEY].since == memory.disks[KEY].reverted_at == since


def test_after_a_restart_of_the_node_limits_and_holds_are_remembered_and_attachments_are_not(state: State) -> None:
    """libvirt counts guests and attachments anew: the same number would be another attachment."""
    state.save_memory(MEMORY)
    assert replace(state, boot="b2").load_memory() == replace(MEMORY, disks={KEY: replace(OLD, attachment=None)})
    assert state.load_memory() == MEMORY


# --- memory: what cannot be read

CORRUPT = {
    "no JSON": "memory",
    "a list": "[]",
    "no version": '{"disks": {}, "holds": {}}',
    "no disks": '{"version": 5, "holds": {}, "judged": null, "recent": {}}',
    "no holds": '{"version": 5, "disks": {}, "judged": null, "recent": {}}',
    "disks in a list": '{"version": 5, "disks": [], "holds": {}, "judged": null, "recent": {}}',
    "holds in a list": '{"version": 5, "disks": {}, "holds": [], "judged": null, "recent": {}}',
    "no disks in version 2": '{"version": 2, "holds": {}}',
    "no disks in version 1": '{"version": 1}',
    "disks in a text in version 1": '{"version": 1, "disks": "{}"}',
    "holds in version 1, which knew none": '{"version": 1, "disks": {}, "holds": {}}',
    "a version before the first": '{"version": 0, "disks": {}, "holds": {}}',
    "a version in words": '{"version": "one", "disks": {}}',
    "a version in a list": '{"version": [1], "disks": {}}',
    "an infinite version": '{"version": Infinity, "disks": {}}',
}


@pytest.mark.parametrize("text", CORRUPT.values(), ids=CORRUPT)
def test_a_corrupt_memory_is_said_to_be_so_and_left_where_it_is(state: State, text: str) -> None:
    with pytest.raises(CorruptState, match=rf"^{state.memory}: is corrupt: "):
        loaded(state, text)
    assert names(state) == ["memory.json"], "one that only looks moves nothing"
    assert state.memory.read_text() == text


def test_corrupt_files_are_set_aside_under_names_of_their_own(state: State) -> None:
    contents = ["{", "[", "("]
    for content in contents:
        state.memory.write_text(content)
        aside = files.set_aside(state.memory, StateError)
        assert aside.read_text() == content
    assert names(state) == ["memory.json.corrupt", "memory.json.corrupt.2", "memory.json.corrupt.3"]
    assert [path.read_text() for path in sorted(state.directory.iterdir())] == contents, "none over another"
    state.save_memory(MEMORY)
    assert state.load_memory() == MEMORY


def test_a_file_that_cannot_be_set_aside_is_a_state_error_and_stays(sealed: State) -> None:
    with pytest.raises(StateError, match=r"memory\.json: cannot be set aside: Permission denied"):
        files.set_aside(sealed.memory, StateError)
    assert names(sealed) == ["memory.json", "pass.lock"]
    with pytest.raises(StateError, match=r"approval\.json: cannot be set aside: No such file"):
        files.set_aside(sealed.approval, StateError)


@pytest.mark.parametrize("version", ["8", '"8"', "1" + "0" * 300])
@pytest.mark.parametrize("name", ["memory", "approval"])
def test_a_file_of_a_newer_plimsoll_is_refused_and_is_not_corrupt(state: State, name: str, version: str) -> None:
    text = '{"version": %s, "disks": {"what": "ever"}, "approvals": 7}' % version  # noqa: UP031
    file, load = {
        "memory": (state.memory, state.load_memory),
        "approval": (state.approval, state.load_approvals),
    }[name]
    file.write_text(text)
    with pytest.raises(StateError, match=rf"{name}\.json: written by a newer plimsoll \(version \d+") as caught:
        load()
    assert not isinstance(caught.value, CorruptState), "a corrupt one would be set aside, and its holds lost"
    assert file.read_text() == text


MISSING = object()


def damaged(state: State, of: str, part: str, value: object) -> str:
    """The file with another value in each of its disks, or holds."""
    envelope = saved(state)
    for entry in envelope[of].values():
        entry[part] = value
        if value is MISSING:
            del entry[part]
    return json.dumps(envelope)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("desired", False),
        ("desired", {"total_iops_sec": -1}),
        ("applied", []),
        ("restore_to", {"total_iops_sec": None}),
        ("since", None),
        ("seen", "2026-11-20T12:00:00"),  # whose noon? it would be compared with our clock
        ("seen", "0001-01-01T00:00:00+23:59"),  # is shown in UTC, where it is in no year
        ("attachment", 7),
        ("foreign", None),  # taken for ours, it would be released
        ("enforced", None),  # taken for never kept, a slip would come through
        ("by_rules", [7]),
        ("revision", 7),
        ("by_type", True),  # taken for a spec's word, the region's approval would cover what rules made of it
        ("reverts", -1),  # would be reverts for without an end
        ("reverts", 10**9),
        ("reverted_at", 0),
    ],
)
def test_a_disk_whose_memory_is_damaged_is_forgotten_and_the_rest_is_not(
    state: State, caplog: pytest.LogCaptureFixture, part: str, value: object
) -> None:
    for damage in (value, MISSING):
        envelope = json.loads(damaged(state, "disks", part, damage))
        envelope["disks"]["another"] = saved(state)["disks"][KEY]
        caplog.clear()
        assert loaded(state, json.dumps(envelope)) == replace(MEMORY, disks={"another": OLD})
        assert KEY in caplog.text


@pytest.mark.parametrize("part", ["at", "limits", "by_type", "source"])
def test_what_is_desired_later_is_known_in_every_part_or_not_at_all(state: State, part: str) -> None:
    """Without its volume type it would be taken for what no QoS spec gives."""
    later = Later(at=SOON, limits=TIGHT, by_type="gold", source=Code.QOS_SPEC)
    state.save_memory(replace(MEMORY, disks={KEY: replace(OLD, later=(later,))}))
    envelope = json.loads(state.memory.read_text())
    del envelope["disks"][KEY]["later"][0][part]
    assert loaded(state, json.dumps(envelope)) == replace(MEMORY, disks={})


@pytest.mark.parametrize(
    ("part", "value"),
    [
        *((part, MISSING) for part in ("disk", "limits", "since", "until", "by", "why")),
        ("limits", {"total_iops_sec": -1}),
        ("until", None),  # would never end
        ("since", 0),
        ("by", None),
        ("why", 7),
        ("ignore_health", None),
        ("disk", {}),
        ("disk", replace(DISK, volume_id=None).named.key),
    ],
)
def test_with_a_hold_that_is_damaged_the_memory_is_corrupt(state: State, part: str, value: object) -> None:
    """Forgotten, it would let its disk be raised; with a corrupt memory the disk is left alone."""
    text = damaged(state, "holds", part, value)
    with pytest.raises(CorruptState):
        loaded(state, text)


def test_a_hold_from_before_holds_could_ignore_the_health_gate_heeds_it(state: State) -> None:
    envelope = saved(state)
    del envelope["holds"][DISK.key]["ignore_health"]
    assert loaded(state, json.dumps(envelope)).holds == MEMORY.holds


def test_a_hold_is_not_taken_for_one_of_another_disk(state: State) -> None:
    envelope = saved(state)
    envelope["holds"] = {f"{GUEST}/vms/another": envelope["holds"][DISK.key]}
    with pytest.raises(CorruptState):
        loaded(state, json.dumps(envelope))


# --- the memory of the version before

WEB_VDA = "00000001-0000-4000-8000-000000000000/vms/00000001-0000-4000-8000-000000000000_disk"
WEB_VDB, DB_VDB = (f"0000000{n}-0000-4000-8000-000000000000/aaaaa00{n}-001a-4ea4-a2eb-d491b58efc11" for n in (1, 2))


@pytest.fixture
def old() -> dict[str, Any]:
    envelope: dict[str, Any] = json.loads((OF_0_1_0 / "memory.json").read_text())
    return envelope


def test_a_memory_of_0_1_0_is_read_whole_and_written_as_one_of_today(state: State, old: dict[str, Any]) -> None:
    """By which rules and under which revision limits were desired it did not say: an edit is weighed in full."""
    memory = loaded(state, json.dumps(old))
    assert json.loads(state.memory.read_text())["version"] == 3, "reading it writes nothing"
    at_100, at_250, at_500 = (Limits(total_iops_sec=number) for number in (100, 250, 500))
    own, held, left = (memory.disks[key] for key in (WEB_VDA, WEB_VDB, DB_VDB))
    assert (own.desired, own.applied, own.enforced, own.reverts, own.reverted_at) == (
        at_100,
        at_100,
        True,
        1,
        own.seen,
    )
    assert (held.desired, held.applied, held.restore_to, held.enforced) == (at_250, at_500, at_250, True)
    assert (left.desired, left.applied, left.enforced, left.reverts) == (None, None, False, 0)
    for disk in memory.disks.values():
        assert (disk.by_type, disk.by_rules, disk.revision, disk.later, disk.foreign) == (None, (), None, None, False)
    assert memory.brake == BrakeMemory()
    year = timedelta(hours=8760)
    assert [(key, hold.limits, hold.until - hold.since, hold.by, hold.why) for key, hold in memory.holds.items()] == [
        (WEB_VDB, at_500, year, "root", "a restore"),
        (DB_VDB, None, year, "root", "as it is"),
    ]
    state.save_memory(memory)
    assert json.loads(state.memory.read_text())["version"] == state_module.MEMORY.version == 7
    assert state.load_memory() == memory


def test_a_damaged_disk_in_a_memory_of_0_1_0_costs_itself(state: State, old: dict[str, Any]) -> None:
    old["disks"][WEB_VDA] = 7
    assert old["disks"].keys() - loaded(state, json.dumps(old)).disks.keys() == {WEB_VDA}


def test_a_memory_of_version_4_is_read_by_the_names_that_it_has(state: State, old: dict[str, Any]) -> None:
    added = {"by_rules": ["night"], "revision": "a1b2", "source": "behind-libvirt"}
    disks = {key: disk | added for key, disk in old["disks"].items()}
    memory = loaded(state, json.dumps(old | {"version": 4, "judged": "a1b2", "recent": {}, "disks": disks}))
    assert (memory.disks[WEB_VDB].restore_to, memory.brake.judged) == (Limits(total_iops_sec=250), "a1b2")
    for disk in memory.disks.values():
        assert (disk.by_rules, disk.revision, disk.source) == (("night",), "a1b2", Code.CHANGED_OVER_QMP)


def test_a_memory_of_version_6_has_nothing_reduced_and_nothing_pending(state: State) -> None:
    """One of version 7 that lacks such a part was damaged: a reduced disk would count as changed externally."""
    state.save_memory(MEMORY)
    parts = {"pending", "reduced", "unreduced"}
    whole = json.loads(state.memory.read_text())
    disks = {key: {name: its[name] for name in its.keys() - parts} for key, its in whole["disks"].items()}
    older = {name: whole[name] for name in whole.keys() - {"approved_rules"}} | {"disks": disks}
    memory = loaded(state, json.dumps(older | {"version": 6}))
    assert memory.disks.keys() == MEMORY.disks.keys()
    assert {(disk.pending, disk.reduced, disk.unreduced) for disk in memory.disks.values()} == {(None, None, None)}
    assert memory.brake.approved_rules is None
    assert loaded(state, json.dumps(whole | {"disks": disks})).disks == {}
    with pytest.raises(CorruptState, match="approved_rules is missing"):
        loaded(state, json.dumps({**older, "version": 7}))


@pytest.mark.parametrize(
    "damage",
    [
        {"judged": 7},
        {"recent": []},
        {"recent": {"x": "noon"}},
        {"recent": {"x": 7}},
        {"stopped": 7},
        {"approved_rules": 7},
        {"let_through": [{"digest": "0", "remove": 1}]},
        {"let_through": [{"digest": "a" * 64}]},  # whether removals are approved is unknown
    ],
)
def test_a_memory_that_does_not_tell_what_was_judged_is_corrupt(state: State, damage: dict[str, object]) -> None:
    state.save_memory(MEMORY)
    state.memory.write_text(json.dumps(json.loads(state.memory.read_text()) | damage))
    with pytest.raises(CorruptState, match=r"memory\.json: is corrupt"):
        state.load_memory()


# --- approvals


def test_approvals_are_read_back(state: State) -> None:
    state.save_approvals([APPROVAL, OTHER])
    assert state.load_approvals() == (APPROVAL, OTHER)
    state.save_approvals([OTHER])
    assert state.load_approvals() == (OTHER,), "the file is replaced as a whole"


def test_an_approval_of_0_1_0_had_six_digits_and_approves_nothing(state: State) -> None:
    shutil.copyfile(OF_0_1_0 / "approval.json", state.approval)
    assert state.load_approvals() == ()
    state.approval.write_text('{"version": 1, "edition": null}')
    with pytest.raises(CorruptState):
        state.load_approvals()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("digest", "a1b2c3"),  # so few digits are found by trying
        ("remove", 1),
        ("by", 0),
        ("at", "noon"),
        ("at", "9999-12-31T23:59:59-23:59"),
        *((part, MISSING) for part in ("digest", "remove", "by", "at")),
    ],
)
def test_a_damaged_approval_is_corrupt_and_approves_nothing(state: State, part: str, value: object) -> None:
    state.save_approvals([OTHER, APPROVAL])
    envelope = json.loads(state.approval.read_text())
    envelope["approvals"][1] = {key: old for key, old in envelope["approvals"][1].items() if key != part}
    if value is not MISSING:
        envelope["approvals"][1][part] = value
    state.approval.write_text(json.dumps(envelope))
    with pytest.raises(CorruptState, match=r"approval\.json: is corrupt"):
        state.load_approvals()


# --- files are replaced as a whole


def save(state: State) -> None:
    state.save_memory(MEMORY)


def approve(state: State) -> None:
    state.save_approvals([APPROVAL])


def keep(state: State) -> None:
    state.keep_rules("default: {limits: unlimited}\n" * 10)


def see(state: State) -> None:
    state.save_attachments(Attachments({f"{GUEST}/{VOLUME}": Attachment(mark="a1b2", since=NOON)}))


FILES: dict[str, Callable[[State], None]] = {
    "memory.json": save,
    "approval.json": approve,
    "rules.last.yaml": keep,
    "attachments.json": see,
}


@pytest.fixture(params=FILES)
def written(request: pytest.FixtureRequest) -> tuple[str, Callable[[State], None]]:
    return request.param, FILES[request.param]


Written = tuple[str, Callable[[State], None]]


@pytest.mark.parametrize("bits", [0, 0o022, 0o777])
def test_a_file_is_for_its_owner_and_its_group_whatever_the_umask_is(
    state: State, written: Written, bits: int
) -> None:
    name, write = written
    with umask(bits):
        write(state)
    assert mode(state.directory / name) == 0o640


def test_a_file_that_is_open_for_reading_stays_whole_while_it_is_replaced(state: State, written: Written) -> None:
    name, write = written
    (state.directory / name).write_text("old")
    with (state.directory / name).open() as reader:
        write(state)
        assert reader.read() == "old"
    assert names(state) == [name]


def test_a_full_disk_leaves_the_old_file_and_no_other(state: State, written: Written) -> None:
    name, write = written
    (state.directory / name).write_text("old")
    with full_disk(), pytest.raises(StateError, match=f"{name}: cannot be written: File too large"):
        write(state)
    assert names(state) == [name]
    assert (state.directory / name).read_text() == "old"


def test_a_file_is_on_the_disk_before_it_takes_its_place_and_its_name_after(
    state: State, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, write = written
    synced: list[tuple[Path, int, list[str]]] = []

    def note(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), os.fstat(descriptor).st_size, names(state)))

    monkeypatch.setattr(os, "fsync", note)
    write(state)
    (file, size, before), (directory, _, after) = synced
    assert size == (state.directory / name).stat().st_size, "all of it"
    assert before == [file.name] != [name], "under a name of its own"
    assert (directory, after) == (state.directory, [name])


def test_a_write_that_is_broken_off_leaves_the_old_file_and_no_other(state: State) -> None:
    state.keep_rules("old")
    with pytest.raises(UnicodeEncodeError):
        state.keep_rules("new\ud800")
    assert names(state) == ["rules.last.yaml"]
    assert state.last_rules.read_text() == "old"


def test_a_file_that_cannot_be_replaced_leaves_no_temporary_one(state: State, written: Written) -> None:
    name, write = written
    (state.directory / name).mkdir()
    with pytest.raises(StateError, match=f"{name}: cannot be written"):
        write(state)
    assert names(state) == [name]


# --- what root writes


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_root_writes_belongs_to_the_owner_of_the_directory(state: State, written: Written) -> None:
    name, write = written
    os.chown(state.directory, NOBODY, 12345)
    write(state)
    kept = (state.directory / name).stat()
    assert (kept.st_uid, kept.st_gid) == (NOBODY, 12345)
    assert mode(state.directory / name) == 0o640


# --- directories that are missing, or not ours


def hold(state: State) -> None:
    with state.locked():
        pass


def look(state: State) -> None:
    state.load_memory()


WRITES = [(save, "memory.json"), (approve, "approval.json"), (keep, "rules.last.yaml")]


@pytest.mark.parametrize(("use", "name"), [*WRITES, (hold, "pass.lock")])
def test_a_missing_directory_is_a_state_error_that_names_the_file(
    tmp_path: Path, use: Callable[[State], None], name: str
) -> None:
    words = rf"{tmp_path}/absent/{name}: cannot be (written|locked): No such file or directory"
    with pytest.raises(StateError, match=words):
        use(State(tmp_path / "absent"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("use", "name"), WRITES)
def test_a_directory_that_is_read_only_is_a_state_error_that_names_the_file(
    sealed: State, use: Callable[[State], None], name: str
) -> None:
    with pytest.raises(StateError, match=f"{sealed.directory}/{name}: cannot be written: Permission denied"):
        use(sealed)
    assert sealed.load_memory() == MEMORY, "what is there can be read"


@pytest.mark.parametrize("name", ["memory", "approval"])
def test_a_pipe_where_a_file_should_be_is_a_state_error_and_not_corrupt(state: State, name: str) -> None:
    os.mkfifo(state.directory / f"{name}.json")
    with pytest.raises(StateError, match=rf"{name}\.json: cannot be read: is not a regular file") as caught:
        {"memory": state.load_memory, "approval": state.load_approvals}[name]()
    assert not isinstance(caught.value, CorruptState), "a pass that only looks would tell of another fault"


@pytest.mark.parametrize("bits", [0, 0o077])
def test_the_directory_is_made_for_its_owner_and_its_group(tmp_path: Path, bits: int) -> None:
    state = State(tmp_path / "var" / "plimsoll")
    with umask(bits):
        state.prepare()
    assert mode(state.directory) == 0o750
    state.save_memory(MEMORY)


def test_a_directory_that_is_there_keeps_its_mode_and_its_files(state: State) -> None:
    state.save_memory(MEMORY)
    state.directory.chmod(0o700)
    state.prepare()
    assert mode(state.directory) == 0o700
    assert names(state) == ["memory.json"]


def test_a_directory_that_cannot_be_made_is_a_state_error(tmp_path: Path, sealed: State) -> None:
    with pytest.raises(StateError, match=r"sub: cannot be created: Permission denied"):
        State(sealed.directory / "sub").prepare()
    with pytest.raises(StateError, match=r"lost: cannot be created: Not a directory"):
        State(sealed.memory / "lost").prepare()


def test_a_memory_that_is_too_long_is_a_state_error_and_not_set_aside(state: State) -> None:
    state.memory.write_bytes(b" " * (state_module.MOST_BYTES + 1))
    with pytest.raises(StateError, match="is larger than") as caught:
        state.load_memory()
    assert not isinstance(caught.value, CorruptState)


def test_what_was_seen_longest_ago_is_forgotten_where_all_of_it_is_too_long(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tenants who make guests all day do not fill the memory until no pass can read it."""
    disks = {f"{minutes}/v": replace(OLD, seen=NOON + timedelta(minutes=minutes)) for minutes in (30, 10, 20)}
    state.save_memory(Memory(disks=disks, holds=MEMORY.holds))
    assert state.load_memory() == Memory(disks=disks, holds=MEMORY.holds)
    line = next(len(line) for line in state.memory.read_text().splitlines() if '"10/v"' in line)
    monkeypatch.setattr("plimsoll_agent.store.memory_file.MOST_REMEMBERED", 2 * line)
    state.save_memory(Memory(disks=disks, holds=MEMORY.holds))
    assert state.load_memory() == Memory(disks={key: disks[key] for key in ("30/v", "20/v")}, holds=MEMORY.holds)


def test_of_disks_seen_at_once_the_attached_ones_stay(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that were rebuilt from the record are of one time, those that are long gone too."""
    disks = {f"{name}/v": replace(OLD, attachment="vda 1 1" if name > "b" else None) for name in "abcd"}
    state.save_memory(Memory(disks=disks))
    line = next(len(line) for line in state.memory.read_text().splitlines() if '"d/v"' in line)
    monkeypatch.setattr("plimsoll_agent.store.memory_file.MOST_REMEMBERED", 2 * line)
    state.save_memory(Memory(disks=disks))
    assert state.load_memory() == Memory(disks={key: disks[key] for key in ("c/v", "d/v")})


def test_a_long_entry_without_room_costs_no_shorter_one(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks of another node may bring the names of thousands of rules."""
    rules = tuple(f"rule {number}" for number in range(1000))
    disks = {
        f"{minutes}/v": replace(OLD, seen=NOON + timedelta(minutes=minutes), by_rules=rules * (minutes == 20))
        for minutes in (30, 20, 10)
    }
    state.save_memory(Memory(disks=disks))
    line = next(len(line) for line in state.memory.read_text().splitlines() if '"10/v"' in line)
    monkeypatch.setattr("plimsoll_agent.store.memory_file.MOST_REMEMBERED", 2 * line)
    state.save_memory(Memory(disks=disks))
    assert state.load_memory().disks == {key: disks[key] for key in ("30/v", "10/v")}


# --- one pass at a time


def lock_of(state: State) -> Path:
    return state.directory / state_module.PASS_LOCK.name


@contextmanager
def another_process(state: State) -> Iterator[Callable[[], None]]:
    """Holds the node as another process would, by a descriptor of its own; the callable lets go."""
    held = os.open(lock_of(state), os.O_RDONLY | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        yield lambda: fcntl.flock(held, fcntl.LOCK_UN)
    finally:
        os.close(held)


def test_a_pass_and_another_process_exclude_each_other(state: State) -> None:
    with another_process(state), pytest.raises(Busy), state.locked():
        raise AssertionError("two at once")
    # The directory too, which passes of the releases before hold.
    for path in (lock_of(state), state.directory):
        with state.locked():
            held = os.open(path, os.O_RDONLY)
            with pytest.raises(BlockingIOError):
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(held)


def test_who_may_only_read_the_directory_holds_up_no_pass_and_is_reported(
    state: State, caplog: pytest.LogCaptureFixture
) -> None:
    held = os.open(state.directory, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with state.locked(), pytest.raises(Busy), state.locked():
        raise AssertionError("two at once")
    os.close(held)
    (line,) = caplog.messages
    assert line.startswith(f"{state.directory}: is locked by another program or by an older plimsoll")


@pytest.mark.parametrize("bits", [0, 0o077])
def test_the_lock_is_its_owners_alone(state: State, bits: int) -> None:
    with umask(bits):
        hold(state)
    assert mode(lock_of(state)) == 0o600
    lock_of(state).chmod(0o644)
    hold(state)
    assert mode(lock_of(state)) == 0o600


def test_the_lock_that_root_makes_is_the_owners_of_the_directory(state: State) -> None:
    os.chown(state.directory, NOBODY, NOBODY)
    hold(state)
    assert (lock_of(state).stat().st_uid, lock_of(state).stat().st_gid) == (NOBODY, NOBODY)


def test_a_file_of_roots_that_bears_the_name_of_the_lock_is_not_given_away(state: State, tmp_path: Path) -> None:
    foreign = tmp_path.with_name("foreign")
    foreign.touch()
    foreign.chmod(0o644)
    os.link(foreign, lock_of(state))
    os.chown(state.directory, NOBODY, NOBODY)
    hold(state)
    assert (foreign.stat().st_uid, mode(foreign)) == (0, 0o644)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/etc/hostname")])
def test_what_is_no_lock_file_is_a_state_error(state: State, make: Callable[[Path], None]) -> None:
    make(lock_of(state))
    with pytest.raises(StateError, match=r"pass\.lock: cannot be locked: (is not a regular|Is a dir|is a link)"):
        hold(state)


def test_a_lock_file_that_is_replaced_while_it_is_waited_for_is_a_state_error(state: State) -> None:
    with another_process(state) as let_go:
        threading.Timer(0.2, lambda: (lock_of(state).rename(state.directory / "old"), let_go())).start()
        with pytest.raises(StateError, match="was removed or replaced"), state.locked(patience=60):
            raise AssertionError("a lock on nothing")


def test_whoever_has_patience_gets_the_node_as_soon_as_it_is_free(state: State) -> None:
    with another_process(state) as let_go:
        threading.Timer(0.3, let_go).start()
        before = time.monotonic()
        with state.locked(patience=60):
            assert 0.2 < time.monotonic() - before < 30


def test_patience_has_an_end(state: State) -> None:
    before = time.monotonic()
    with another_process(state), pytest.raises(Busy), state.locked(patience=0.3):
        raise AssertionError("two at once")
    assert 0.3 <= time.monotonic() - before < 30


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_the_node_is_free_again_after_a_pass_however_it_ended(state: State, kind: type[BaseException]) -> None:
    with pytest.raises(kind), state.locked():
        raise kind
    with state.locked():
        pass


def test_a_pass_that_met_another_does_not_free_the_node(state: State) -> None:
    with state.locked():
        for _ in range(2):
            with pytest.raises(Busy), state.locked():
                raise AssertionError("two at once")


def test_the_lock_is_given_to_no_program_that_is_started_in_between(state: State) -> None:
    with state.locked():
        locks = (state.directory, lock_of(state))
        ours = (fd for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink() and fd.readlink() in locks)
        held = [int(descriptor.name) for descriptor in ours]
        assert [os.get_inheritable(descriptor) for descriptor in held] == [False, False]


def test_a_node_that_was_busy_leaves_no_descriptor_open(state: State) -> None:
    hold(state)
    descriptors = Path("/proc/self/fd")
    before = len([*descriptors.iterdir()])
    with another_process(state), pytest.raises(Busy), state.locked(patience=0.2):
        raise AssertionError("two at once")
    assert len([*descriptors.iterdir()]) == before


def test_the_node_can_be_held_where_nothing_can_be_written(sealed: State) -> None:
    """The lock file was made before."""
    with sealed.locked(), pytest.raises(Busy), sealed.locked():
        raise AssertionError("two at once")


def test_where_no_lock_can_be_made_there_is_no_pass_and_that_is_said() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o555)
        said = r"pass\.lock: cannot be locked: Permission denied; nothing was changed"
        with as_nobody(), pytest.raises(StateError, match=said):
            hold(State(Path(name)))


@pytest.mark.parametrize("anew", [True, False], ids=["replaced", "removed"])
def test_a_directory_that_is_replaced_while_it_is_waited_for_is_a_state_error(tmp_path: Path, anew: bool) -> None:
    """Whoever goes by the name would lock another directory, and two passes would be under way."""
    state = State(tmp_path / "state")
    state.prepare()

    def replace_it() -> None:
        state.directory.rename(tmp_path / "old")
        if anew:
            state.prepare()

    with another_process(state) as let_go:
        threading.Timer(0.2, lambda: (replace_it(), let_go())).start()
        with pytest.raises(StateError, match="was removed or replaced"), state.locked(patience=60):
            raise AssertionError("a lock on nothing")
    if anew:
        hold(state)


@pytest.mark.parametrize("file", [file.name for file in state_module.FILES])
def test_the_node_is_swept_by_who_holds_it_and_by_no_other(state: State, file: str) -> None:
    left, fresh = state.directory / f".{file}.x1y2z3", state.directory / f".{file}.fresh"
    for path in (left, fresh):
        path.touch()
    os.utime(left, (0, 0))
    with another_process(state), pytest.raises(Busy):
        hold(state)
    assert left.exists()
    hold(state)
    assert names(state) == [fresh.name, "pass.lock"], "that one may be written to just now"


def test_a_file_system_without_locks_is_a_state_error(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StateError, match="cannot be locked: No locks available"):
        hold(state)


# --- the table


def test_the_table_of_files_has_every_file_that_a_node_keeps(state: State) -> None:
    for write in FILES.values():
        write(state)
    state.record.touch()
    kept = (state.clock, state.probes, state.probes_shown, state.last_pass, state.consoles, state.usage, state.orders)
    kept += (state.usage_before, state.daemon, state.file_systems)
    for path in kept:
        path.touch()
    with state.daemon_locked(), state.file_systems_locked():
        pass
    for path in (state.directory / "probes.lock", state.histograms, state.histograms_lock):
        path.touch()
    state.add_approval(OTHER)
    state.save_versions(Versions(9_000_000, 7_002_022))
    state.save_accounts({})
    state.save_factors({})
    state.save_ceilings({}, {})
    hold(state)
    with state.guest_locks() as locks:
        locks.take([GUEST])
    state.note_busy()
    assert sorted(file.name for file in state_module.FILES) == names(state)


def test_the_version_in_the_table_is_the_one_that_is_written(state: State) -> None:
    save(state)
    approve(state)
    see(state)
    state.save_versions(Versions(9_000_000, 7_002_022))
    written = (state.memory, state.approval, state.attachments, state.versions)
    versions = {path.name: json.loads(path.read_text())["version"] for path in written}
    assert versions == {file.name: file.version for file in state_module.FILES if file.name in versions}


def test_the_version_of_the_record_in_the_table_is_the_records(state: State) -> None:
    assert state_module.RECORD.version == SCHEMA_VERSION


# --- the versions under which limits were written


def test_versions_are_kept_as_read(state: State) -> None:
    assert state.load_versions() is None
    state.save_versions(Versions(9_000_000, 7_002_022))
    assert state.load_versions() == Versions(9_000_000, 7_002_022)


@pytest.mark.parametrize("proven", [None, Versions(9_000_000, 7_002_022)])
def test_a_failed_trial_is_kept_beside_the_proven_versions_until_the_next_proof(
    state: State, proven: Versions | None
) -> None:
    node_store, failed = NodeStore(state, "tests"), Versions(10_000_000, 8_002_002)
    if proven is not None:
        node_store.prove(proven)
    assert node_store.failed_trial() is None
    node_store.trial_failed(failed)
    assert (node_store.proven(), node_store.failed_trial()) == (proven, failed)
    node_store.prove(failed)
    assert (node_store.proven(), node_store.failed_trial()) == (failed, None)


@pytest.mark.parametrize(
    "versions", ["", '{"version": 2, "libvirt": 1, "qemu": 1}', '{"version": 1, "libvirt": true}']
)
def test_versions_that_cannot_be_read_are_not_proven_and_are_replaced(state: State, versions: str) -> None:
    state.versions.write_text(versions)
    node_store = NodeStore(state, "tests")
    assert node_store.proven() is None
    node_store.prove(Versions(9_000_000, 7_002_022))
    assert node_store.proven() == Versions(9_000_000, 7_002_022)


def test_versions_that_cannot_be_saved_are_a_warning(state: State, caplog: pytest.LogCaptureFixture) -> None:
    state.versions.mkdir()
    NodeStore(state, "tests").prove(Versions(9_000_000, 7_002_022))
    assert "versions.json" in caplog.text
    assert "changes one disk first" in caplog.text


# --- the last good rules


def test_rules_are_kept_as_written(state: State) -> None:
    text = "# ängström\ndefault:\n  limits: unlimited\n"
    state.keep_rules(text)
    assert state.last_rules.read_text(encoding="utf-8") == text


def test_rules_that_are_the_same_are_only_dated_again(state: State) -> None:
    state.keep_rules("a: 1\n")
    os.utime(state.last_rules, (0, 0))
    file = state.last_rules.stat().st_ino
    state.keep_rules("a: 1\n")
    kept = state.last_rules.stat()
    assert kept.st_ino == file, "no write to the disk every minute"
    assert datetime.fromtimestamp(kept.st_mtime, UTC).year > 2000, "its age says when they were last good"


@pytest.mark.parametrize("before", [b"a: 2\n", b"\xff\xfe", b""])
def test_rules_that_differ_replace_what_was_kept(state: State, before: bytes) -> None:
    state.last_rules.write_bytes(before)
    state.keep_rules("a: 1\n")
    assert state.last_rules.read_bytes() == b"a: 1\n"


def test_each_pass_that_finds_the_node_held_counts_once(state: State) -> None:
    state.prepare()
    assert state.busy == 0
    state.note_busy()
    state.note_busy()
    assert state.busy == 2


def test_who_cannot_note_that_the_node_is_held_goes_without(tmp_path: Path) -> None:
    nowhere = State(tmp_path / "nowhere")
    nowhere.note_busy()
    assert nowhere.busy == 0
