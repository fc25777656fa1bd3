"""``plimsoll probe report``: what it reads, where it writes, and what it says when it cannot."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.cli import report
from plimsoll_probes.cli.report import ProbeReport
from plimsoll_probes.model.finding import Why
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Postponed
from plimsoll_probes.output.report import page  # noqa: F401 - matplotlib looks for fonts once: here, where programs may run
from plimsoll_probes.store.history import History
from tests.unit.person import Person, Terminal
from tests.unit.probes.output.report.test_gathered import FAILED, SHORT, run
from tests.unit.results import a_subject


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a page, and test_report_plots sees it."""
    for name in ("guest_svg", "type_svg"):
        monkeypatch.setattr(f"plimsoll_probes.output.report.page.{name}", lambda *_: b"<svg/>")


class Shell(Person):
    """A person at a node with a history of probes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.history = History(directory / "probes.sqlite")
        self.stderr: type[io.StringIO] = io.StringIO

    def run(self, command: type, *words: str) -> int:
        settings = replace(config.load([], []), state_dir=self.directory)
        return self.types(command, *words, settings=settings, stderr=self.stderr())


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "report.html"


def add(shell: Shell, hours_ago: float, *arguments: object, **other: object) -> None:
    """A run so long before now."""
    began = datetime.now(UTC) - timedelta(hours=hours_ago)
    shell.history.add(run(1, *arguments, started=began, **other))  # type: ignore[arg-type]


def test_it_writes_the_page_and_says_in_one_line_what_is_in_it(shell: Shell, output: Path) -> None:
    add(shell, 5, SHORT)
    add(shell, 4, FAILED)
    add(shell, 3, guest="b")
    assert shell.run(ProbeReport, "-o", str(output)) == 0
    assert shell.out == ""
    assert re.fullmatch(rf"{output}: 3 runs of 2 guests, \d+ KiB\n", shell.err)
    assert "1 of 2 guests does not get what was promised" in output.read_text()


def test_what_began_before_is_left_out(shell: Shell, output: Path) -> None:
    add(shell, 30)
    add(shell, 3)
    assert shell.run(ProbeReport, "--since", "1d", "-o", str(output)) == 0
    assert ": 1 run of 1 guest," in shell.err
    assert shell.run(ProbeReport, "-o", str(output)) == 0
    assert ": 2 runs of 1 guest," in shell.err


def test_a_guest_and_a_job_can_be_chosen_for_every_part_of_the_page(shell: Shell, output: Path) -> None:
    add(shell, 5, SHORT, "a")
    add(shell, 4, SHORT, "b")
    add(shell, 3, SHORT, "a", job=JobName.WRITE)
    for uuid in ("a", "b"):
        shell.history.postpone(
            Postponed(
                at=datetime.now(UTC),
                node="node1",
                guest_uuid=uuid,
                guest_name=f"instance-{uuid}",
                directory="/var/tmp",
                why=Why.PAUSED,
                facts={},
            )
        )
    assert shell.run(ProbeReport, "--guest", "instance-b", "-o", str(output)) == 0
    assert ": 1 run of 1 guest," in shell.err
    assert "instance-a" not in output.read_text()
    assert "1 probe is postponed" in output.read_text()
    assert shell.run(ProbeReport, "--job", "write", "-o", str(output)) == 0
    assert ": 1 run of 1 guest," in shell.err


def test_a_server_is_chosen_for_every_part_of_the_page_unless_two_have_its_name(
    shell: Shell, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = {uuid: a_subject(guest_uuid=uuid, guest_name=f"instance-{uuid}", display_name="web-1") for uuid in "ab"}
    add(shell, 5, SHORT, subject=servers["a"])
    shell.history.postpone(
        Postponed(
            at=datetime.now(UTC),
            node="node1",
            guest_uuid="a",
            guest_name="instance-a",
            directory="/var/tmp",
            why=Why.PAUSED,
            facts={},
        )
    )
    assert shell.run(ProbeReport, "--guest", "web-1", "-o", str(output)) == 0
    assert "1 probe is postponed" in output.read_text()
    assert "web-1" in output.read_text()
    add(shell, 4, SHORT, subject=servers["b"])
    assert shell.run(ProbeReport, "--guest", "web-1", "-o", str(output)) == 64
    assert "instance-a" in caplog.text
    assert "instance-b" in caplog.text


def test_runs_are_read_in_parts_and_each_is_counted_once(
    shell: Shell, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among them more that began at one moment than a part holds."""
    monkeypatch.setattr(report, "_AT_ONCE", 2)
    for hours_ago in (9, 8, 7, 5, 5, 5, 5, 5, 3):
        add(shell, hours_ago)
    assert shell.run(ProbeReport, "-o", str(output)) == 0
    assert ": 9 runs of 1 guest," in shell.err


def test_without_a_history_the_page_says_what_to_do_and_no_history_is_made(shell: Shell, output: Path) -> None:
    assert shell.run(ProbeReport, "-o", str(output)) == 0
    assert shell.err.splitlines()[0] == "No probe has run on this node yet; see: plimsoll probe run"
    assert "No probes in this time" in output.read_text()
    assert not shell.history.path.exists()


def test_stdout_gets_the_page_alone_in_letters_of_any_locale(shell: Shell) -> None:
    add(shell, 3, SHORT, subject=a_subject(display_name="批处理"))
    assert shell.run(ProbeReport, "-o", "-") == 0
    assert shell.out.startswith("<!DOCTYPE html>")
    assert shell.out.rstrip().endswith("</html>")
    assert shell.out.isascii()
    assert "&#25209;" in shell.out
    assert shell.err.startswith("-: 1 run of 1 guest,")


# --- where it must not write


def test_a_directory_is_refused_before_anything_is_read(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    assert shell.run(ProbeReport, "-o", str(shell.directory)) == 64
    assert caplog.messages == [f"-o {shell.directory} is a directory; name the file in it"]


def test_a_device_or_a_pipe_is_never_replaced_by_a_file(
    shell: Shell, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As root, ``-o /dev/null`` would take it from the whole machine."""
    os.mkfifo(output)
    assert shell.run(ProbeReport, "-o", str(output)) == 64
    assert caplog.messages == [f"-o {output} is not a regular file; -o - writes to stdout"]
    assert stat.S_ISFIFO(output.stat().st_mode)


def test_a_place_that_is_not_there_is_one_clear_line(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    nowhere = shell.directory / "nowhere" / "report.html"
    assert shell.run(ProbeReport, "-o", str(nowhere)) == 1
    assert caplog.messages == [f"{nowhere}: cannot be written: No such file or directory"]


def test_an_earlier_report_is_replaced_as_a_whole(shell: Shell, output: Path) -> None:
    output.write_text("old" * 10**6)
    assert shell.run(ProbeReport, "-o", str(output)) == 0
    assert "old" * 2 not in output.read_text()
    left = [each.name for each in shell.directory.iterdir() if each.name.startswith(".")]
    assert left == []


@pytest.mark.parametrize("moment", ["2100-01-01", "soon", ""])
def test_a_moment_that_cannot_be_meant_is_a_mistake_on_the_command_line(
    shell: Shell, output: Path, moment: str
) -> None:
    assert shell.run(ProbeReport, "--since", moment, "-o", str(output)) == 64
    assert not output.exists()


def test_a_moment_before_all_computers_makes_no_endless_page(shell: Shell, output: Path) -> None:
    add(shell, 3, SHORT)
    assert shell.run(ProbeReport, "--since", "0001-01-01", "-o", str(output)) == 0
    assert "2000-01-01" in output.read_text()


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_what_is_not_installed_is_named_with_the_way_to_get_it(
    shell: Shell, output: Path, missing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    for ours in ("page", "plots", "drawing"):
        monkeypatch.delitem(sys.modules, f"plimsoll_probes.output.report.{ours}", raising=False)
    monkeypatch.delattr("plimsoll_probes.output.report.page")
    assert shell.run(ProbeReport, "-o", str(output)) == 1
    (said,) = caplog.messages
    assert missing in said
    assert said.endswith("pip install 'plimsoll-agent[report]'")
    assert not output.exists()


def test_a_terminal_is_told_how_far_it_has_come_and_a_log_is_not(
    shell: Shell, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_TOLD_EVERY", 1)
    add(shell, 3)
    assert shell.run(ProbeReport, "-o", str(output)) == 0
    assert "\r" not in shell.err
    shell.stderr = Terminal
    assert shell.run(ProbeReport, "-o", str(output)) == 0
    assert shell.err.startswith("\r1 runs read\r\x1b[K")
