"""The file of the last pass: all of it comes back, and a damaged one is a clear error, with nothing made up."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.monitor.pass_summary import LastPass
from plimsoll_agent.store.state import CorruptState, State, StateError
from plimsoll_agent.util.frozen import replace
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name, a_varied_pass
from tests.unit.values import NOON

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


def test_all_of_a_pass_comes_back(state: State) -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(minutes=-210)))
    varied = a_varied_pass()
    first, *others = varied.disks
    known = because(Code.REJECTED, detail="\ud800", at=None)
    last = replace(
        varied,
        disks=(replace(first, acknowledged=known, since=elsewhere, is_new=True, corrected=2**63), *others),
        looked=elsewhere,
        missing=(a_name(7),),
        kernel_mapped=("instance-00000001 vdz",),
        unseen={"g": 3},
        wrong_since={"paused": elsewhere},
    )
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
    # Without them the first reading after a gap has no averages, no guest is known to be paused or to hang, none is
    # to be probed, and no disk is known that the kernel maps.
    later = {"unread", "paused_guests", "hung_guests", "guests_to_probe", "healthy", "position", "stage", "ceilings"}
    later |= {"kernel_mapped"}
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
