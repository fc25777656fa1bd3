"""How much the tests executed is counted from what each process wrote, and a package below its floor is told."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from coverage import CoverageData
from floors import Floor, main, ranges

FLOORS = (Floor("the commands", "pkg/cli", 80), Floor("the rest", "pkg", 75))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two files of four lines each, and below ``parts`` what processes executed: three lines of each."""
    for name in ("pkg/cli/a.py", "pkg/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one = 1\ntwo = 2\nthree = 3\nfour = 4\n")
    (tmp_path / "parts").mkdir()
    execute(tmp_path, "first", "pkg/cli/a.py", [(-1, 1), (1, 2)])
    execute(tmp_path, "second", "pkg/cli/a.py", [(2, 3)])
    execute(tmp_path, "another", "pkg/b.py", [(-1, 1), (1, 2), (2, 3)])
    return tmp_path


def execute(root: Path, process: str, file: str, arcs: list[tuple[int, int]]) -> None:
    with closing(CoverageData(str(root / "parts" / f"part.{process}"))) as part:
        part.add_arcs({str(root / file): arcs})
        part.write()


def test_a_package_below_its_floor_fails_with_the_lines_that_no_test_executes(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(root / "parts", root, FLOORS) == 1
    _, commands, rest, *told = capsys.readouterr().out.splitlines()
    assert commands.split() == ["the", "commands", "4", "75.0", "%", "80.0", "%"]
    assert rest.split() == ["the", "rest", "4", "75.0", "%", "75.0", "%"]
    assert told == ["the commands is below its floor. No test executes:", "  pkg/cli/a.py: 4"]


def test_all_above_their_floors_is_well(root: Path) -> None:
    execute(root, "third", "pkg/cli/a.py", [(3, 4)])
    assert main(root / "parts", root, FLOORS) == 0
    assert main(root / "parts", root, FLOORS) == 0, "a second look counts the same"


def test_a_file_that_no_process_imported_counts_as_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "pkg/c.py").write_text("one = 1\ntwo = 2\n")
    assert main(root / "parts", root, FLOORS) == 1
    assert "  pkg/c.py: 1-2" in capsys.readouterr().out


def test_what_a_killed_process_wrote_in_part_is_left_out(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    execute(root, "third", "pkg/cli/a.py", [(3, 4)])
    whole = (root / "parts/part.third").read_bytes()
    for number, size in enumerate((0, 4096, len(whole) - 4096)):
        (root / f"parts/part.killed{number}").write_bytes(whole[:size])
    assert main(root / "parts", root, FLOORS) == 0
    assert "Left out" in capsys.readouterr().out


def test_lines_in_a_row_are_told_by_the_first_and_the_last() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"
