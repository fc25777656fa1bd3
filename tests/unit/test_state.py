"""The files of a node, for real in a temporary directory: what is read back, what is refused, what is left whole."""

from __future__ import annotations

import copy
import fcntl
import json
import os
import resource
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll_agent.decide import Remembered
from plimsoll_agent.limits import PARAMETERS, Limits
from plimsoll_agent.state import Busy, State, StateError
from tests.unit.values import GUEST, NOON, VOLUME, examples, possible_limits

KEY = f"{GUEST}/{VOLUME}"
TIGHT = Limits(total_iops_sec=250, total_iops_sec_max=500, total_iops_sec_max_length=30, total_bytes_sec=104857600)
OLD = Remembered(TIGHT, NOON, NOON + timedelta(minutes=5), Limits(read_iops_sec=9, group_name="g"), "3:2:volumes/v")
NOBODY = 65534


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
        state = State(Path(name))
        state.save_memory({KEY: OLD})
        state.memory.chmod(0o644)
        user = os.geteuid()
        state.directory.chmod(0o555)
        if user == 0:
            os.seteuid(NOBODY)
        try:
            yield state
        finally:
            os.seteuid(user)
            state.directory.chmod(0o700)


@contextmanager
def umask(bits: int) -> Iterator[None]:
    before = os.umask(bits)
    try:
        yield
    finally:
        os.umask(before)


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
    """The file's JSON, of one disk, with some parts of that disk replaced."""
    state.save_memory({KEY: OLD})
    envelope: dict[str, Any] = json.loads(state.memory.read_text())
    envelope["disks"][KEY] |= other
    return envelope


def loaded(state: State, text: str | bytes) -> dict[str, Remembered] | StateError:
    state.memory.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    try:
        return state.load_memory()
    except StateError as error:
        return error


# --- memory: what is written is what is read


def test_a_node_without_a_memory_remembers_nothing(state: State) -> None:
    assert state.load_memory() == {}
    assert names(state) == [], "looking makes no file"


def test_what_is_remembered_is_read_back(state: State) -> None:
    memory = {
        KEY: OLD,
        f"{GUEST}/vms/disk": replace(OLD, put=None, wanted=Limits()),
        f"{GUEST}/vms/näme\n\ud83d": replace(OLD, put=Limits(), attachment=None),
    }
    state.save_memory(memory)
    assert state.load_memory() == memory


@settings(examples, max_examples=50)  # each waits for the disk
@given(possible_limits(), st.none() | possible_limits())
def test_limits_of_any_kind_are_remembered_as_they_are(scratch: State, wanted: Limits, put: Limits | None) -> None:
    memory = {KEY: replace(OLD, wanted=wanted, put=put)}
    scratch.save_memory(memory)
    assert scratch.load_memory() == memory


def test_times_keep_their_zone_and_their_fractions(state: State) -> None:
    since = datetime(2026, 3, 29, 1, 59, 59, 999999, timezone(timedelta(hours=2)))
    state.save_memory({KEY: replace(OLD, since=since)})
    assert state.load_memory()[KEY].since == since


def test_after_a_restart_of_the_node_limits_are_remembered_and_attachments_are_not(state: State) -> None:
    """libvirt counts guests and attachments anew: the same number would be another attachment."""
    state.save_memory({KEY: OLD})
    assert replace(state, boot="b2").load_memory() == {KEY: replace(OLD, attachment=None)}
    assert state.load_memory() == {KEY: OLD}


# --- memory: what cannot be read

CORRUPT = {
    "empty": "",
    "zeros": "\0" * 300,
    "no JSON": "memory",
    "a number": "1",
    "a text": '"version"',
    "a list": "[]",
    "nothing": "null",
    "no version": '{"disks": {}}',
    "no disks": '{"version": 1}',
    "disks in a list": '{"version": 1, "disks": []}',
    "pairs": '{"version": 1, "disks": [[7, {}]]}',
    "no disks at all": '{"version": 1, "disks": null}',
    "a version in words": '{"version": "one", "disks": {}}',
    "a version in a list": '{"version": [1], "disks": {}}',
    "no number": '{"version": NaN, "disks": {}}',
    "an infinite version": '{"version": Infinity, "disks": {}}',
    "a version beyond all floats": '{"version": 1e999, "disks": {}}',
    "a version of 5000 digits": f'{{"version": {"9" * 5000}, "disks": {{}}}}',
    "nested beyond reason": '{"version": 1, "disks": ' + '{"a":' * 100_000,
    "another encoding": '\ufeff{"version": 1, "disks": {}}',
    "two in one": '{"version": 1, "disks": {}}' * 2,
}


@pytest.mark.parametrize("text", CORRUPT.values(), ids=CORRUPT)
def test_a_corrupt_memory_is_set_aside_as_it_is_and_nothing_is_remembered(
    state: State, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    assert loaded(state, text) == {}
    assert names(state) == ["memory.json.corrupt"]
    assert (state.directory / "memory.json.corrupt").read_text() == text
    assert f"{state.memory} is corrupt" in caplog.text


@pytest.mark.parametrize("text", CORRUPT.values(), ids=CORRUPT)
def test_a_corrupt_memory_stays_where_it_is_for_one_that_only_looks(state: State, text: str) -> None:
    state.memory.write_text(text)
    assert state.load_memory(set_aside=False) == {}
    assert names(state) == ["memory.json"]


def test_a_corrupt_memory_is_no_obstacle_to_the_next(state: State) -> None:
    for text in ("{", "["):
        assert loaded(state, text) == {}
    state.save_memory({KEY: OLD})
    assert state.load_memory() == {KEY: OLD}
    assert (state.directory / "memory.json.corrupt").read_text() == "[", "the last one"


def test_a_corrupt_memory_in_a_directory_that_is_read_only_does_not_stop_one_that_looks(sealed: State) -> None:
    # The file, unlike its directory, may be written to.
    user = os.geteuid()
    os.seteuid(os.getuid())
    sealed.memory.write_text("{")
    os.seteuid(user)
    assert sealed.load_memory() == {}
    assert names(sealed) == ["memory.json"]


def test_a_memory_of_bytes_that_are_no_text_is_corrupt_like_any_other(state: State) -> None:
    assert loaded(state, b'{"version": 1, "disks": {"\xff": 1}}') == {}
    assert names(state) == ["memory.json.corrupt"]


def raise_it(outcome: object) -> None:
    if isinstance(outcome, Exception):
        raise outcome


@pytest.mark.parametrize("version", ["2", '"2"', "1000", "1" + "0" * 300])
def test_a_memory_of_a_newer_plimsoll_is_refused_and_kept(state: State, version: str) -> None:
    text = '{"version": %s, "disks": {"what": "ever"}}' % version  # noqa: UP031
    with pytest.raises(StateError, match=r"memory\.json: written by a newer plimsoll \(version \d+, known up to 1\)"):
        raise_it(loaded(state, text))
    assert state.memory.read_text() == text


@pytest.mark.parametrize(
    "damage",
    [
        {"wanted": None},
        {"wanted": []},
        {"wanted": "total_iops_sec"},
        {"wanted": {"total_iops_sec": "250"}},
        {"wanted": {"total_iops_sec": 250.0}},
        {"wanted": {"total_iops_sec": True}},
        {"wanted": {"total_iops_sec": -1}},
        {"wanted": {"total_iops_sec": 10**15 + 1}},
        {"wanted": {"total_iops_sec": 250, "read_iops_sec": 250}},
        {"wanted": {"total_iops": 250}},
        {"wanted": {"total_iops_sec": 250, "group_name": 1}},
        {"put": []},
        {"put": False},
        {"put": {"total_iops_sec": None}},
        {"since": None},
        {"since": "yesterday"},
        {"since": 0},
        {"seen": "2026-11-20T12:00:00"},  # whose noon? it would be compared with our clock
        {"attachment": 7},
        {"attachment": ["3:2:volumes/v"]},
    ],
    ids=json.dumps,
)
def test_a_disk_whose_memory_is_damaged_is_forgotten_and_the_others_are_not(
    state: State, caplog: pytest.LogCaptureFixture, damage: dict[str, object]
) -> None:
    envelope = saved(state, **damage)
    envelope["disks"]["another"] = saved(state)["disks"][KEY]
    assert loaded(state, json.dumps(envelope)) == {"another": OLD}
    assert KEY in caplog.text


@pytest.mark.parametrize("part", ["wanted", "since", "seen", "put", "attachment"])
def test_a_part_that_is_missing_is_not_taken_for_nothing(state: State, part: str) -> None:
    envelope = saved(state)
    del envelope["disks"][KEY][part]
    assert loaded(state, json.dumps(envelope)) == {}


# --- memory: anything at all

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("2026-11-20T12:00:00Z"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=5) | st.sampled_from(["version", "disks", "wanted", "put", "total_iops_sec"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def as_written(text: str, memory: dict[str, Remembered]) -> bool:
    """Whether every limit that is remembered stands in the text as it is, and none that stands there is left out."""
    disks = json.loads(text)["disks"]
    return all(
        isinstance(written, dict) and _same(limits, written)
        for key, remembered in memory.items()
        for limits, written in ((remembered.wanted, disks[key]["wanted"]), (remembered.put, disks[key]["put"]))
        if not (limits is None and written is None)
    )


def _same(limits: Limits | None, written: dict[str, object]) -> bool:
    rates = {p.name for p in PARAMETERS if p.role != "length"} | {"group_name"}  # lengths of 0 and 1 are one
    said = {name: value for name, value in written.items() if value not in (0, None) and name in rates}
    return limits is not None and said == {name: v for name, v in limits.in_effect().items() if name in rates}


@examples
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_memory_or_nothing_or_a_state_error(scratch: State, content: bytes) -> None:
    assert isinstance(loaded(scratch, content), dict | StateError)


@examples
@given(_json | st.fixed_dictionaries({"version": st.integers(-1, 2), "disks": _json}))
def test_any_json_is_a_memory_or_nothing_or_a_state_error(scratch: State, value: object) -> None:
    assert isinstance(loaded(scratch, json.dumps(value)), dict | StateError)


@examples
@given(st.data())
def test_a_memory_that_was_cut_off_remembers_nothing(scratch: State, data: st.DataObject) -> None:
    whole = json.dumps(saved(scratch), indent=1)
    assert loaded(scratch, whole[: data.draw(st.integers(0, len(whole) - 1))]) == {}


@examples
@given(st.data())
def test_a_memory_with_a_byte_changed_never_gives_limits_that_are_not_written_there(
    scratch: State, data: st.DataObject
) -> None:
    content = bytearray(json.dumps(saved(scratch)).encode())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    memory = loaded(scratch, bytes(content))
    assert isinstance(memory, StateError) or not memory or as_written(content.decode(), memory)


@examples
@given(st.data(), _json)
def test_a_memory_with_a_part_replaced_never_gives_limits_that_are_not_written_there(
    scratch: State, data: st.DataObject, junk: object
) -> None:
    envelope = saved(scratch)
    inside = data.draw(st.sampled_from([*_holders(envelope)]))
    part = data.draw(st.sampled_from(sorted(inside)))
    inside[part] = copy.deepcopy(junk)
    text = json.dumps(envelope)
    memory = loaded(scratch, text)
    assert isinstance(memory, StateError) or not memory or as_written(text, memory)


def _holders(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, dict) and value:
        yield value
        for inner in value.values():
            yield from _holders(inner)


# --- files are replaced as a whole


def save(state: State) -> None:
    state.save_memory({KEY: OLD})


def keep(state: State) -> None:
    state.keep_rules("default: {limits: unlimited}\n" * 10)


FILES: dict[str, Callable[[State], None]] = {"memory.json": save, "rules.last.yaml": keep}


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


# --- directories that are missing, or not ours


def hold(state: State) -> None:
    with state.locked():
        pass


def look(state: State) -> None:
    state.load_memory()


@pytest.mark.parametrize(("use", "name"), [(save, "memory.json"), (keep, "rules.last.yaml"), (hold, "lock")])
def test_a_missing_directory_is_a_state_error_that_names_the_file(
    tmp_path: Path, use: Callable[[State], None], name: str
) -> None:
    with pytest.raises(StateError, match=rf"{tmp_path}/absent/{name}: cannot be .*: No such file or directory"):
        use(State(tmp_path / "absent"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("use", "name"), [(save, "memory.json"), (keep, "rules.last.yaml"), (hold, "lock")])
def test_a_directory_that_is_read_only_is_a_state_error_that_names_the_file(
    sealed: State, use: Callable[[State], None], name: str
) -> None:
    with pytest.raises(StateError, match=f"{sealed.directory}/{name}: cannot be .*: Permission denied"):
        use(sealed)
    assert sealed.load_memory() == {KEY: OLD}, "what is there can be read"


@pytest.mark.parametrize("use", [save, keep, hold, look])
def test_a_file_where_the_directory_should_be_is_a_state_error(tmp_path: Path, use: Callable[[State], None]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="Not a directory"):
        use(State(tmp_path / "file"))


def test_a_memory_that_is_a_directory_is_a_state_error(state: State) -> None:
    state.memory.mkdir()
    with pytest.raises(StateError, match=r"memory\.json: cannot be read: .*Is a directory"):
        state.load_memory()


@pytest.mark.parametrize("bits", [0, 0o077])
def test_the_directory_is_made_for_its_owner_and_its_group(tmp_path: Path, bits: int) -> None:
    state = State(tmp_path / "var" / "plimsoll")
    with umask(bits):
        state.prepare()
    assert mode(state.directory) == 0o750
    state.save_memory({KEY: OLD})


def test_a_directory_that_is_there_keeps_its_mode_and_its_files(state: State) -> None:
    state.save_memory({KEY: OLD})
    state.directory.chmod(0o700)
    state.prepare()
    assert mode(state.directory) == 0o700
    assert names(state) == ["memory.json"]


def test_a_directory_that_cannot_be_made_is_a_state_error(tmp_path: Path, sealed: State) -> None:
    with pytest.raises(StateError, match=r"sub: cannot be made: Permission denied"):
        State(sealed.directory / "sub").prepare()
    with pytest.raises(StateError, match=r"lost: cannot be made: Not a directory"):
        State(sealed.memory / "lost").prepare()


# --- one pass at a time


def test_a_second_pass_is_told_that_the_node_is_busy(state: State) -> None:
    with state.locked(), pytest.raises(Busy, match="another pass"), State(state.directory).locked():
        raise AssertionError("two at once")


def test_a_lock_that_another_process_holds_is_waited_for_by_nobody(state: State) -> None:
    held = os.open(state.directory / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Busy), state.locked():
            raise AssertionError("two at once")
    finally:
        os.close(held)
    with state.locked():
        pass


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


def test_the_lock_is_given_to_no_program_that_is_started_meanwhile(state: State) -> None:
    with state.locked():
        lock = state.directory / "lock"
        ours = (fd for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink() and fd.readlink() == lock)
        held = [int(descriptor.name) for descriptor in ours]
        assert [os.get_inheritable(descriptor) for descriptor in held] == [False]


@pytest.mark.parametrize("bits", [0, 0o777])
def test_the_lock_is_for_its_owner_and_its_group_whatever_the_umask_is(state: State, bits: int) -> None:
    with umask(bits), state.locked():
        assert mode(state.directory / "lock") == 0o640


def test_a_lock_that_another_user_made_serves_as_well(sealed: State) -> None:
    user = os.geteuid()
    os.seteuid(os.getuid())
    sealed.directory.chmod(0o755)
    (sealed.directory / "lock").touch()
    (sealed.directory / "lock").chmod(0o666)
    os.seteuid(user)
    with sealed.locked(), pytest.raises(Busy), sealed.locked():
        raise AssertionError("two at once")


def test_a_lock_that_is_a_link_is_not_followed(state: State, tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="lock: cannot be opened"), state.locked():
        raise AssertionError("followed")
    assert names(state) == ["lock"]


# --- the last good rules


def test_rules_are_kept_as_they_were_written(state: State) -> None:
    text = "# ängström\ndefault:\n  limits: unlimited\n"
    state.keep_rules(text)
    assert state.last_rules.read_text(encoding="utf-8") == text


def test_rules_that_are_the_same_are_only_dated_anew(state: State) -> None:
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
