"""The file of the last pass: all of it comes back, and a damaged one is a clear error, with nothing made up."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll_agent.congestion.signal import Wait
from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.hypervisor import BlockStats, GuestRef
from plimsoll_agent.model.reason import Code, Reason
from plimsoll_agent.model.usage import Rates, Reading
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.monitor.pass_summary import LastCatalogue, LastDisk, LastPass, Totals
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind, UnreachableGuest
from plimsoll_agent.store.refresh_state import Calls
from plimsoll_agent.store.state import CorruptState, State, StateError
from plimsoll_agent.util.frozen import of_tuple, replace
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name, a_varied_pass
from tests.unit.values import examples_of, possible_limits

OF_VERSION_3 = Path(__file__).parents[2] / "data" / "pass-version-3.json"
"""``a_varied_pass`` as commit 69686fe saved it."""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    """The examples share it."""
    return State(tmp_path_factory.mktemp("state"), boot="b1")


@pytest.fixture(scope="module")
def whole(state: State) -> dict[str, Any]:
    """A pass as it is written."""
    pass_summary_file.save(state, a_varied_pass())
    value: dict[str, Any] = json.loads(state.last_pass.read_text())
    return value


# --- what is written comes back

texts = st.text(max_size=12)
counts = st.integers(0, 2**63)
numbers = st.floats(0, 1e18)
offsets = st.sampled_from([UTC, timezone(timedelta(hours=9)), timezone(timedelta(minutes=-210))])
times = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=offsets)
facts = st.dictionaries(texts.filter(lambda name: name != "code"), texts | st.integers() | st.none(), max_size=2)
reasons = st.builds(Reason, st.sampled_from(Code), facts)
shares = st.dictionaries(texts, numbers, max_size=2)


@st.composite
def names(draw: st.DrawFn) -> DiskName:
    uuid = draw(texts.filter(lambda text: "/" not in text))
    others = {name: draw(texts) for name in ("guest_name", "target", "pool", "image")}
    others |= {name: draw(st.none() | texts) for name in ("project", "volume_id")}
    return DiskName(key=f"{uuid}/{draw(texts)}", guest_uuid=uuid, **others)


disks = st.builds(
    LastDisk,
    named=names(),
    volume_type=st.none() | texts,
    flavor=st.none() | texts,
    cluster=st.none() | texts,
    kind=st.sampled_from(Kind),
    reason=reasons,
    actual=st.none() | possible_limits(),
    desired=st.none() | possible_limits(),
    drifted=st.booleans(),
    corrected=counts,
    attachment=texts,
    reading=st.none()
    | st.builds(
        Reading,
        numbers,
        st.tuples(counts, counts, counts, counts, st.none() | counts).map(partial(of_tuple, BlockStats)),
    ),
    rates=st.none() | st.tuples(*[numbers] * 5, st.none() | numbers).map(partial(of_tuple, Rates)),
    shares=shares,
    allowed=shares,
    server=st.none() | texts,
    project_name=st.none() | texts,
    is_new=st.booleans(),
    acknowledged=st.none() | reasons,
    held_until=st.none() | times,
    since=st.none() | times,
)
passes = st.builds(
    LastPass,
    version=texts,
    boot=texts,
    started=times,
    ended=times,
    grade=st.sampled_from(Grade),
    enforcing=st.booleans(),
    trouble=texts,
    looked=st.none() | times,
    last_good=st.none() | times,
    phases=shares,
    interval=st.none() | numbers,
    disks=st.lists(disks, max_size=3).map(tuple),
    unreachable=st.lists(st.builds(UnreachableGuest, st.builds(GuestRef, texts, texts), reasons), max_size=2).map(
        tuple
    ),
    guests=counts,
    notes=st.lists(reasons, max_size=2).map(tuple),
    paused=st.none() | reasons,
    braked=st.none() | texts,
    braked_disks=counts,
    holds=counts,
    guests_to_probe=counts,
    sources=st.dictionaries(texts, st.booleans(), max_size=4),
    catalogue=st.none() | st.builds(LastCatalogue, st.none() | times, texts, counts),
    calls=st.builds(Calls, counts, counts, st.dictionaries(texts, counts, max_size=2)),
    busy=counts,
    totals=st.builds(
        Totals,
        passes=st.dictionaries(st.sampled_from(Grade), counts),
        outcomes=st.dictionaries(st.sampled_from(Kind), counts),
        corrected=st.dictionaries(texts, counts, max_size=2),
        light=st.dictionaries(st.tuples(texts, texts), st.builds(Wait, numbers, numbers), max_size=2),
    ),
    missing=st.lists(st.builds(a_name, st.integers(1, 9)), max_size=2).map(tuple),
    wrong_since=st.dictionaries(texts, times, max_size=2),
)


@examples_of(100)  # each waits for the disk
@given(last=passes)
@example(last=a_varied_pass())
def test_all_of_a_pass_comes_back(state: State, last: LastPass) -> None:
    pass_summary_file.save(state, last)
    assert pass_summary_file.load(state) == last


def test_before_the_first_pass_there_is_none(tmp_path: Path) -> None:
    assert pass_summary_file.load(State(tmp_path)) is None


def test_others_than_the_group_do_not_read_what_tenants_have(tmp_path: Path) -> None:
    pass_summary_file.save(State(tmp_path), a_varied_pass())
    assert State(tmp_path).last_pass.stat().st_mode & 0o777 == 0o640


def test_a_disk_is_a_line_so_that_a_person_can_search_the_file(tmp_path: Path) -> None:
    last = a_varied_pass()
    pass_summary_file.save(State(tmp_path), last)
    _, *lines = State(tmp_path).last_pass.read_text().splitlines()
    for disk in last.disks:
        assert len([line for line in lines if f'"{disk.named.guest_uuid}"' in line and disk.kind in line]) == 1


def test_where_nothing_can_be_written_one_line_says_which_file(tmp_path: Path) -> None:
    gone = State(tmp_path / "gone")
    with pytest.raises(StateError, match=r"pass\.json: cannot be written: No such file") as raised:
        pass_summary_file.save(gone, a_last_pass())
    assert "\n" not in str(raised.value)


# --- what is not a pass


def read(state: State, content: bytes) -> LastPass | None:
    """What it is read as; None for a ``StateError``. All else passes through."""
    state.last_pass.write_bytes(content)
    try:
        return pass_summary_file.load(state)
    except StateError as error:
        complaint = str(error)
    assert complaint.startswith(f"{state.last_pass}: "), "it names the file"
    assert len(complaint) < 10_000, "and does not repeat it"
    assert complaint.isprintable(), "nor shows what a terminal would obey"
    return None


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (2, "written by an older version; the next pass replaces it"),
        (7, "written by a newer version; the next pass here replaces it"),
    ],
)
def test_a_file_of_another_version_is_skew_and_not_damage(
    state: State, whole: dict[str, Any], version: int, said: str
) -> None:
    state.last_pass.write_text(json.dumps(whole | {"version": version}))
    with pytest.raises(StateError, match=f"^{state.last_pass}: {said}$") as raised:
        pass_summary_file.load(state)
    assert not isinstance(raised.value, CorruptState), "it is a good one, for whom it was written"


def test_of_the_version_before_the_next_pass_tells_what_is_new(state: State, whole: dict[str, Any]) -> None:
    def shorter(numbers: list[object] | None, by: int) -> list[object] | None:
        return None if numbers is None else numbers[:-by]

    disks = [
        disk | {"reading": shorter(disk["reading"], 2), "rates": shorter(disk["rates"], 1)} for disk in whole["disks"]
    ]
    state.last_pass.write_text(json.dumps(whole | {"version": 3, "disks": disks}))
    last = a_varied_pass()
    before = tuple(
        replace(
            disk,
            reading=disk.reading
            and replace(disk.reading, stats=replace(disk.reading.stats, nanoseconds=None, flushes=None)),
            rates=disk.rates and replace(disk.rates, latency=None),
        )
        for disk in last.disks
    )
    assert pass_summary_file.load(state) == replace(last, disks=before)


def test_of_version_5_all_but_the_number_of_flushes_is_read(state: State, whole: dict[str, Any]) -> None:
    disks = [disk | {"reading": disk["reading"] and disk["reading"][:-1]} for disk in whole["disks"]]
    state.last_pass.write_text(json.dumps(whole | {"version": 5, "disks": disks}))
    last = pass_summary_file.load(state)
    assert last is not None
    stats = [disk.reading.stats for disk in last.disks if disk.reading]
    told = [disk.reading.stats for disk in a_varied_pass().disks if disk.reading]
    assert stats == [replace(each, flushes=None) for each in told]
    assert stats != told


def test_a_file_as_the_version_before_wrote_it_is_read(state: State) -> None:
    content = OF_VERSION_3.read_bytes()
    last, written = read(state, content), json.loads(content)
    assert written["version"] == 3
    assert last is not None
    assert last.last_good == datetime.fromisoformat(written["last_good"])
    assert {name: at.isoformat() for name, at in last.wrong_since.items()} == written["wrong_since"]
    assert dict(last.totals.corrected) == written["totals"]["corrected"]
    assert last.servers == {}, "it did not tell them"


def test_a_damaged_file_is_called_corrupt(state: State) -> None:
    state.last_pass.write_text("{")
    with pytest.raises(CorruptState, match=r"pass\.json: is corrupt"):
        pass_summary_file.load(state)


def test_a_file_without_end_is_not_read_to_its_end(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    pass_summary_file.save(state, a_last_pass(a_last_disk()))
    assert pass_summary_file.load(state) is not None
    monkeypatch.setattr(pass_summary_file, "MOST_BYTES", state.last_pass.stat().st_size - 5)
    with pytest.raises(CorruptState):
        pass_summary_file.load(state)


def test_limits_that_qemu_would_refuse_make_the_file_corrupt(state: State, whole: dict[str, Any]) -> None:
    first, *others = whole["disks"]
    impossible = first | {"actual": {"total_iops_sec": 5, "read_iops_sec": 5}}
    assert read(state, json.dumps(whole | {"disks": [impossible, *others]}).encode()) is None


def test_each_part_left_out_makes_the_file_corrupt_or_is_a_plain_fact(state: State, whole: dict[str, Any]) -> None:
    # Without them the first reading after a gap has no averages, no guest is known to be paused or to hang, and none
    # is to be probed.
    later = {"unread", "paused_guests", "hung_guests", "guests_to_probe", "healthy", "position", "stage", "ceilings"}
    for name in whole:
        without = json.dumps({key: whole[key] for key in whole if key != name}).encode()
        assert (read(state, without) is None) == (name not in later)


@pytest.mark.parametrize("part", ["rates", "reading", "light"])
def test_numbers_that_are_too_few_or_too_many_are_not_taken_for_others(
    state: State, whole: dict[str, Any], part: str
) -> None:
    rows: dict[str, list[Any]] = {"rates": [1.0] * 6, "reading": [1] * 7, "light": ["c", "p", 1.5, 2.0]}
    for row in (rows[part][:-2], [*rows[part], 1]):
        content = json.loads(json.dumps(whole))
        if part == "light":
            content["totals"]["light"] = [row]
        else:
            content["disks"][0][part] = row
        assert read(state, json.dumps(content).encode()) is None
