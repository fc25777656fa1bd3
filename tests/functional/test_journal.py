"""Changes and events in a real journald, in a mount namespace of its own, as plimsoll reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from plimsoll_agent.app import audit
from tests.functional.conftest import Ran
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
for form in json short-iso short; do
    journalctl --directory /run/log/journal --no-pager -o $form SYSLOG_IDENTIFIER=plimsoll > "${4%/*}/$form" || exit
done
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


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the journal in several forms."""
    home = tmp_path_factory.mktemp("shipped")
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", JOURNALD, "sh", ROOT, sys.executable, WRITER, home / "record.sqlite"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return home


def test_journalctl_finds_a_change_by_its_volume_and_an_event_by_its_id(shipped: Path) -> None:
    told = {entry["MESSAGE_ID"]: entry for entry in map(json.loads, (shipped / "json").read_text().splitlines())}
    assert set(told) == {audit.CHANGE, audit.EVENT}
    change, paused = told[audit.CHANGE], told[audit.EVENT]
    assert (change["PLIMSOLL_VOLUME"], change["PLIMSOLL_GUEST_UUID"]) == (VOLUME, GUEST)
    assert (change["PLIMSOLL_WHO"], change["PLIMSOLL_RESULT"]) == ("root (ann)", "refused")
    assert change["PLIMSOLL_DETAIL"] == "not\nso"
    assert json.loads(change["PLIMSOLL_AFTER"])["total_iops_sec"] == 250
    assert (paused["PLIMSOLL_WHAT"], paused["PLIMSOLL_WHY"]) == ("paused", "moving racks")


@pytest.mark.parametrize("form", ["json", "short-iso", "short"])
def test_a_region_s_record_reads_what_journalctl_prints(
    plimsoll: Callable[..., Ran], shipped: Path, form: str
) -> None:
    ran = plimsoll("region", "record", "--from", str(shipped / form), "-f", "json")
    change, paused = json.loads(ran.out)
    assert (change["guest"], change["disk"], change["by"]) == ("instance-00000001", "vdb", "root (ann)")
    assert (change["change"], change["volume"]) == (
        "unlimited → 250 IOPS (burst 500 IOPS for 30 s)",
        VOLUME if form == "json" else None,
    )
    assert (paused["what"], paused["why"], paused["by"]) == ("paused", "moving racks", "ann")


def test_an_entry_in_several_forms_is_listed_once(plimsoll: Callable[..., Ran], shipped: Path) -> None:
    files = [str(shipped / form) for form in ("short-iso", "json", "short")]
    ran = plimsoll("region", "record", "--from", *files, "--volume", VOLUME, "-f", "json")
    assert [(row["source"], row["by"]) for row in json.loads(ran.out)] == [("fields", "root (ann)")]
