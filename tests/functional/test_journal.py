"""Changes and events in a real journald, in a mount namespace of its own, as journalctl finds them there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from plimsoll_agent.app import audit
from tests.unit.values import GUEST, VOLUME

ROOT = Path(__file__).parents[2]
JOURNALD = """
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal
/lib/systemd/systemd-journald > /run/journald.log 2>&1 &
journald=$!
trap 'kill $journald; wait $journald' EXIT
until [ -S /run/systemd/journal/socket ] || ! kill -0 $journald; do sleep 0.02; done
cd "$1" && "$2" -c "$3" "$4" || exit
journalctl --sync || exit
journalctl --directory /run/log/journal --no-pager -o json SYSLOG_IDENTIFIER=plimsoll
"""
WRITER = """
import sys
from pathlib import Path
from plimsoll_agent.app.audit import to_journal
from plimsoll_agent.model.entries import Conclusion, Event, Happening, Ending
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.store.record import Record
from tests.unit.agent.store.test_record import NOON, a_change
record = Record(Path(sys.argv[1]), to_journal)
(id_,) = record.intend([a_change()], NOON, "root (ann)")
record.conclude([Conclusion(id_, Ending.REFUSED, "not\\nso")], NOON)
why = because(Code.OPERATOR, why="moving racks")
record.note([Event(at=NOON, by="ann", what=Happening.PAUSED, reason=why)])
"""


def test_journalctl_finds_a_change_by_its_volume_and_an_event_by_its_id(tmp_path: Path) -> None:
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", JOURNALD, "sh", ROOT, sys.executable, WRITER, tmp_path / "record.sqlite"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    told = {entry["MESSAGE_ID"]: entry for entry in map(json.loads, ran.stdout.splitlines())}
    assert set(told) == {audit.CHANGE, audit.EVENT}
    change, paused = told[audit.CHANGE], told[audit.EVENT]
    assert (change["PLIMSOLL_VOLUME"], change["PLIMSOLL_GUEST_UUID"]) == (VOLUME, GUEST)
    assert (change["PLIMSOLL_WHO"], change["PLIMSOLL_RESULT"]) == ("root (ann)", "refused")
    assert change["PLIMSOLL_DETAIL"] == "not\nso"
    assert json.loads(change["PLIMSOLL_AFTER"])["total_iops_sec"] == 250
    assert (paused["PLIMSOLL_WHAT"], paused["PLIMSOLL_WHY"]) == ("paused", "moving racks")
