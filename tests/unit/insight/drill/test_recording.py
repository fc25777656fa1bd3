"""The file of a drill, also where it was cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_insight.drill.recording import (
    DrillSample,
    ProbeJob,
    RecordingError,
    RecordingWriter,
    job_line,
    read,
    sample_line,
)
from tests.unit.insight.drill.recorded import BEGAN, drill, status, write


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "drill"
    writer = RecordingWriter.begin(file, BEGAN, "node-1", 2.0)
    writer.write(BEGAN, {"disk": [0, "instance-1", "uuid", "vdb"]})
    writer.write(
        BEGAN + 1,
        sample_line(
            DrillSample(time=0, numbers=[0], ends=[-0.25], seconds=[1.5], requests=[30], latency=[None], unknown=[4])
        ),
    )
    writer.write(BEGAN + 0.5, {"event": {"who": "mon.a", "number": 7, "level": "INF", "text": "osd.1 boot"}})
    writer.write(BEGAN + 3, {"gap": "ceph", "since": BEGAN + 1, "why": "no answer"})
    writer.write(BEGAN + 4, {"change": "500 → 3000 IOPS"})
    probed = ProbeJob(
        began=BEGAN + 1.5, ended=BEGAN + 4.5, guest="instance-1", latency=((64, 3), (900, 1)), slowest=7_000_000
    )
    writer.write(probed.ended, job_line(probed))
    writer.write(BEGAN + 4.5, {"store": 64_000_000})
    writer.write(BEGAN + 5, {"end": "stopped"})
    found = read(file)
    assert (found.probed, found.stores) == ([probed], [64_000_000])
    assert (found.began, found.node, found.interval, found.ended, found.last) == (
        BEGAN, "node-1", 2.0, "stopped", BEGAN + 5,
    )  # fmt: skip
    assert found.done == [
        DrillSample(
            time=BEGAN + 1, numbers=[0], ends=[-0.25], seconds=[1.5], requests=[30], latency=[None], unknown=[4]
        )
    ]
    assert found.disks[0].words == "instance-1 vdb"
    assert [(line.time, line.text) for line in found.events] == [(BEGAN + 0.5, "osd.1 boot")]
    assert [(gap.source, gap.until - gap.since, gap.why) for gap in found.gaps] == [("ceph", 2, "no answer")]
    assert [note.text for note in found.changes] == ["500 → 3000 IOPS"]
    assert found.damaged == 0


@pytest.mark.parametrize("cut", [1, 20, 150])
def test_a_recording_that_was_killed_has_all_whole_lines_and_takes_marks(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "drill"
    write(file, drill(), end=False)
    whole = read(file)
    file.write_bytes(file.read_bytes()[:-cut])
    found = read(file)
    assert (found.ended, found.damaged) == (None, 1 if cut > 1 else 0)
    assert found.statuses == whole.statuses[: len(found.statuses)]
    assert len(whole.done) - 2 <= len(found.done) <= len(whole.done)
    RecordingWriter.more(file).write(BEGAN + 1000, {"mark": "OSD started", "by": "root"})
    assert [(note.text, note.by) for note in read(file).marks] == [("OSD started", "root")]
    assert read(file).statuses == found.statuses


def test_a_mark_after_the_end_makes_a_drill_no_longer(tmp_path: Path) -> None:
    file = tmp_path / "drill"
    write(file, [(100.0, status())] * 5)
    RecordingWriter.more(file).write(BEGAN + 1000, {"mark": "later", "by": "root"})
    assert read(file).last == BEGAN + 5


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "drill").write_text("mine")
    with pytest.raises(RecordingError, match="there is such a file"):
        RecordingWriter.begin(tmp_path / "drill", BEGAN, "node-1", 1.0)
    assert (tmp_path / "drill").read_text() == "mine"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "not a recording"), ("hello\n", "not a recording"), ('{"t": 1}\n', "not a recording"),
        ('{"t":1,"plimsoll_drill":4,"node":"a","interval":1}\n', "has format 4, this plimsoll knows 3 and before"),
    ],
)  # fmt: skip
def test_what_is_no_recording_is_refused_and_not_marked(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "file").write_text(content)
    with pytest.raises(RecordingError, match=complaint):
        read(tmp_path / "file")
    with pytest.raises(RecordingError, match=complaint):
        RecordingWriter.more(tmp_path / "file")
    assert (tmp_path / "file").read_text() == content
    with pytest.raises(RecordingError, match="no such file"):
        read(tmp_path / "none")


def test_lines_that_are_not_understood_are_counted_and_left_out(tmp_path: Path) -> None:
    file = tmp_path / "drill"
    write(file, drill(), end=False)
    whole = read(file)
    with file.open("ab") as stream:
        stream.write(b'\xff\n[]\n{"t": "x"}\n{"t": 1, "new": 2}\n{"t": 1, "ceph": {"up": 1}}\n')
    found = read(file)
    assert found.damaged == 5
    assert (found.statuses, found.last) == (whole.statuses, whole.last)


@pytest.mark.parametrize("version", [1, 2])
def test_a_recording_of_a_version_before_is_read_and_takes_marks(tmp_path: Path, version: int) -> None:
    file = tmp_path / "drill"
    write(file, drill())
    file.write_text(file.read_text().replace('"plimsoll_drill":3', f'"plimsoll_drill":{version}'))
    RecordingWriter.more(file).write(BEGAN, {"mark": "stop", "by": "root"})
    found = read(file)
    assert (found.ended, len(found.marks), found.damaged, found.probed, found.stores) == ("over", 1, 0, [], [])
