"""The textfile: whole, readable by others, without timestamps; and what is said where it cannot be written."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll_agent.monitor import textfile
from plimsoll_agent.monitor.metrics import Metric
from plimsoll_agent.monitor.prometheus_text import Family, counter, gauge
from plimsoll_agent.monitor.textfile import TextfileError
from tests.unit.nobody import as_nobody, umask


def some() -> Iterator[Family]:
    yield gauge(Metric("plimsoll_depth", "How deep", "ship"), [(['a"b\\c'], 1.5)])
    yield counter(Metric("plimsoll_waves_total", "How many"), [([], 3)])


TEXT = r"""# HELP plimsoll_depth How deep
# TYPE plimsoll_depth gauge
plimsoll_depth{ship="a\"b\\c"} 1.5
# HELP plimsoll_waves_total How many
# TYPE plimsoll_waves_total counter
plimsoll_waves_total 3.0
"""


def test_each_producer_has_a_file_of_its_own_with_names_escaped_and_no_timestamp(tmp_path: Path) -> None:
    textfile.write(tmp_path, "ship", some())
    textfile.write(tmp_path, "tide", [])
    assert (tmp_path / "plimsoll-ship.prom").read_text() == TEXT
    assert (tmp_path / "plimsoll-tide.prom").read_text() == ""


def test_node_exporter_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    with umask(0o077):
        textfile.write(tmp_path, "ship", some())
    assert (tmp_path / "plimsoll-ship.prom").stat().st_mode & 0o777 == 0o644


def test_families_that_fail_leave_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    textfile.write(tmp_path, "ship", some())

    def failing() -> Iterator[Family]:
        yield from some()
        raise LookupError

    with pytest.raises(LookupError):
        textfile.write(tmp_path, "ship", failing())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("plimsoll-ship.prom", TEXT)]


def test_what_a_killed_writer_left_is_removed_and_was_never_a_file_for_node_exporter(tmp_path: Path) -> None:
    left = tmp_path / ".plimsoll-ship.prom.abcd1234"
    left.touch()
    os.utime(left, (time.time() - 86400,) * 2)
    others = tmp_path / ".plimsoll-tide.prom.abcd1234"
    others.touch()
    textfile.write(tmp_path, "ship", some())
    assert sorted(path.name for path in tmp_path.iterdir()) == [others.name, "plimsoll-ship.prom"]


def test_a_directory_that_is_not_there_is_one_line_that_names_it_and_the_setting(tmp_path: Path) -> None:
    with pytest.raises(TextfileError) as error:
        textfile.write(tmp_path / "none", "ship", some())
    assert str(error.value) == (
        f"{tmp_path}/none/plimsoll-ship.prom: the metrics cannot be written: No such file or directory;"
        " see textfile_dir in [metrics]"
    )
    assert not (tmp_path / "none").exists(), "node_exporter reads another one"


@pytest.mark.parametrize("in_the_way", ["the directory", "the file"])
def test_what_is_in_the_way_is_one_line(tmp_path: Path, in_the_way: str) -> None:
    directory = tmp_path / "metrics"
    if in_the_way == "the directory":
        directory.touch()
    else:
        (directory / "plimsoll-ship.prom").mkdir(parents=True)
    with pytest.raises(TextfileError, match=r"/plimsoll-ship\.prom: the metrics cannot be written: \w+ a directory;"):
        textfile.write(directory, "ship", some())
    assert [*directory.glob(".*")] == []


def test_a_directory_that_we_may_not_write_is_one_line_and_the_old_file_stays() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "plimsoll-ship.prom").write_text("old\n")
        directory.chmod(0o555)
        with as_nobody(), pytest.raises(TextfileError, match="cannot be written: Permission denied; see"):
            textfile.write(directory, "ship", some())
        assert (directory / "plimsoll-ship.prom").read_text() == "old\n"
        directory.chmod(0o755)
