"""Changes in the journal: a real socket that reads the native protocol strictly, and a journal that is not there."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from plimsoll_agent.adapters import journal
from plimsoll_agent.adapters.journal import SystemJournal, datagram
from plimsoll_agent.app import audit
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.entries import Conclusion, Ending, Event, Happening
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.util.frozen import replace
from tests.unit.values import GUEST, NOON, PROJECT, VOLUME, a_disk

Fields = dict[str, bytes]
RULE = because(Code.RULE, rule="gold", why="ticket 4711")
CHANGE = Change(
    disk=a_disk(),
    before=Limits(total_iops_sec=500),
    after=Limits(),
    direction=Direction.REMOVE,
    reason=RULE,
    cause=Code.DESIRED_CHANGED,
)


def parsed(message: bytes) -> Fields:
    """As journald reads it (journald-native.c), and nothing that it would drop."""
    fields: Fields = {}
    while message:
        line, end, message = message.partition(b"\n")
        assert end
        name, equals, value = line.partition(b"=")
        if not equals:
            size = int.from_bytes(message[:8], "little")
            value, message = message[8 : 8 + size], message[8 + size :]
            assert message[:1] == b"\n"
            message = message[1:]
        key = name.decode("ascii")
        assert key.replace("_", "").isalnum()
        assert key == key.upper()
        assert key[0].isalpha()
        assert len(key) <= 64
        assert key not in fields
        fields[key] = value
    return fields


class Received:
    """Where journald listens."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)

    def entries(self) -> list[Fields]:
        found = []
        while True:
            try:
                found.append(parsed(self.socket.recv(2**20)))
            except BlockingIOError:
                return found


@pytest.fixture
def journald(tmp_path: Path) -> Iterator[Received]:
    received = Received(tmp_path / "socket")
    yield received
    received.socket.close()


@pytest.fixture
def record(tmp_path: Path, journald: Received) -> Record:
    return Record(tmp_path / "record.sqlite", partial(audit.tell, SystemJournal(journald.path)))


def test_a_change_is_told_with_who_what_and_why_once_its_result_is_known(record: Record, journald: Received) -> None:
    (id_,) = record.intend([CHANGE], NOON, "root (ann)", "5d1f0c")
    assert journald.entries() == []
    record.conclude([Conclusion(id_, Ending.DONE)], NOON)
    (told,) = journald.entries()
    message = told.pop("MESSAGE").decode()
    assert message.startswith("instance-00000001 vdb  500 IOPS → unlimited"), message
    assert message.endswith("; done   by root (ann)")
    assert told == {
        "MESSAGE_ID": audit.CHANGE.encode(),
        "PRIORITY": b"5",
        "SYSLOG_IDENTIFIER": b"plimsoll",
        "PLIMSOLL_BEFORE": b'{"total_iops_sec": 500}',
        "PLIMSOLL_AFTER": b"{}",
        "PLIMSOLL_DIRECTION": b"remove",
        "PLIMSOLL_CAUSE": b"desired-changed",
        "PLIMSOLL_WHO": b"root (ann)",
        "PLIMSOLL_REVISION": b"5d1f0c",
        "PLIMSOLL_RESULT": b"done",
        "PLIMSOLL_RECORD_ID": b"1",
        "PLIMSOLL_REASON": b"rule",
        "PLIMSOLL_WHY": b'rule "gold" (ticket 4711)',
        "PLIMSOLL_GUEST": b"instance-00000001",
        "PLIMSOLL_GUEST_UUID": GUEST.encode(),
        "PLIMSOLL_PROJECT": PROJECT.encode(),
        "PLIMSOLL_DISK": b"vdb",
        "PLIMSOLL_VOLUME": VOLUME.encode(),
        "PLIMSOLL_POOL": b"volumes",
        "PLIMSOLL_IMAGE": f"volume-{VOLUME}".encode(),
    }


def test_a_change_that_is_refused_each_pass_is_told_once(record: Record, journald: Received) -> None:
    for detail in ("no", "no", "no", "still no"):
        (id_,) = record.intend([CHANGE], NOON, "root")
        record.conclude([Conclusion(id_, Ending.REFUSED, detail)], NOON)
    told = [(entry["PLIMSOLL_DETAIL"], entry["PLIMSOLL_RESULT"]) for entry in journald.entries()]
    assert told == [(b"no", b"refused"), (b"still no", b"refused")]


def test_what_an_operator_did_is_told_with_the_reason_that_they_gave(record: Record, journald: Received) -> None:
    why = because(Code.OPERATOR, why="moving racks\nPLIMSOLL_WHO=eve")
    record.note(
        [
            Event(at=NOON, by="root (ann)", what=Happening.PAUSED, reason=why),
            Event(at=NOON, by="ann", what=Happening.RESUMED, reason=None),
        ]
    )
    paused, resumed = journald.entries()
    assert paused["PLIMSOLL_WHO"] == b"root (ann)"
    assert (paused["PLIMSOLL_WHAT"], paused["MESSAGE_ID"]) == (b"paused", audit.EVENT.encode())
    assert b"moving racks" in paused["PLIMSOLL_WHY"]
    assert resumed["PLIMSOLL_WHAT"] == b"resumed"


def test_nothing_is_told_that_is_not_in_the_record(record: Record, journald: Received) -> None:
    (id_,) = record.intend([CHANGE], NOON, "root")
    with pytest.raises(StateError):
        record.conclude([Conclusion(id_, Ending.DONE), Conclusion(99, Ending.DONE)], NOON)
    assert journald.entries() == []


def test_a_limit_that_is_lowered_without_a_record_is_in_the_journal_before_the_call(
    tmp_path: Path, journald: Received
) -> None:
    lowered = replace(CHANGE, direction=Direction.LOWER, after=Limits(total_iops_sec=5))
    node_store = NodeStore(State(tmp_path / "gone"), "root", tell=partial(audit.tell, SystemJournal(journald.path)))
    with pytest.raises(StateError):
        node_store.intend([CHANGE, lowered], NOON, "5d1f0c")
    (told,) = journald.entries()
    assert (told["PLIMSOLL_RESULT"], told["PLIMSOLL_AFTER"]) == (b"not-recorded", b'{"total_iops_sec": 5}')
    assert "PLIMSOLL_RECORD_ID" not in told


def test_values_with_lines_and_odd_bytes_come_through_whole() -> None:
    fields = {"MESSAGE": "a\nb=c\n", "PLIMSOLL_WHO": "ann\udcff", "PLIMSOLL_WHY": ""}
    assert parsed(datagram(fields)) == {"MESSAGE": b"a\nb=c\n", "PLIMSOLL_WHO": b"ann\\udcff", "PLIMSOLL_WHY": b""}


def test_without_a_journal_an_entry_is_a_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", journal.LOG.name)
    entries = [{"MESSAGE": "a\nb", "PLIMSOLL_WHO": "ann"}, {"MESSAGE": "c"}]
    SystemJournal(tmp_path / "none").send(*entries)
    assert [json.loads(line) for line in caplog.messages] == entries
    assert not any("\n" in line for line in caplog.messages)


def test_a_command_does_not_log_what_it_prints(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A person would read each change twice."""
    caplog.set_level("INFO")
    SystemJournal(tmp_path / "none").send({"MESSAGE": "x"})
    assert not caplog.messages


def test_a_journal_that_is_none_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    SystemJournal(tmp_path / "plain").send({"MESSAGE": "x"})


def test_a_journal_that_does_not_read_holds_up_nothing(journald: Received) -> None:
    entries = [{"MESSAGE": f"{number}"} for number in range(5000)]
    SystemJournal(journald.path).send(*entries)
    told = [entry["MESSAGE"].decode() for entry in journald.entries()]
    assert told == [str(number) for number in range(len(told))]
    assert 0 < len(told) < 5000
