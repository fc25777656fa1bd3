"""How much of each package the tests executed, and whether that is enough: python script/floors.py DIRECTORY

DIRECTORY has the parts that ``coverage`` wrote for each process of every group of tests. What a killed process left
unfinished is left out. Prints one table, and of a package below its floor the lines that no test executed; then the
exit status is 1.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from coverage import Coverage, CoverageData
from coverage.exceptions import CoverageException

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Floor:
    """At least this percentage of the lines and branches below ``folder``, without those of another floor."""

    name: str
    folder: str
    percent: float


# The longest folder first: a file belongs to the first that it lies in. Each stands a point or two below what is so.
FLOORS = (
    Floor("plimsoll_agent.cli", "agent/plimsoll_agent/cli", 94),
    Floor("plimsoll_agent.terminal", "agent/plimsoll_agent/terminal", 94),
    Floor("plimsoll_agent.daemon", "agent/plimsoll_agent/daemon", 92),
    Floor("plimsoll_agent.app", "agent/plimsoll_agent/app", 94),
    Floor("plimsoll_agent.adapters", "agent/plimsoll_agent/adapters", 92),
    Floor("plimsoll_agent, the rest", "agent/plimsoll_agent", 98),
    Floor("plimsoll_probes.cli", "probes/plimsoll_probes/cli", 97),
    Floor("plimsoll_probes.app", "probes/plimsoll_probes/app", 97),
    Floor("plimsoll_probes, the rest", "probes/plimsoll_probes", 97.5),
    Floor("plimsoll_monitoring.cli", "monitoring/plimsoll_monitoring/cli", 94),
    Floor("plimsoll_monitoring, the rest", "monitoring/plimsoll_monitoring", 97),
    Floor("plimsoll_insight", "insight/plimsoll_insight", 95),
    # They run on hosts too, with a Python that measures nothing: this is what unit tests alone execute.
    Floor("Ansible modules", "ansible/plugins/modules", 25),
    Floor("Ansible, other plugins", "ansible/plugins", 95),
)


def combined(directory: Path, root: Path, floors: Sequence[Floor]) -> tuple[Coverage, int]:
    """All parts in one, and how many were unusable. A source file that no process imported counts too, as nothing."""
    unusable = 0
    for part in directory.glob("part.*"):
        try:
            with closing(CoverageData(str(part))) as data:  # else its SQLite file stays open
                data.read()
        except (CoverageException, sqlite3.Error):
            part.unlink()
            unusable += 1
    whole = directory / "part"
    whole.unlink(missing_ok=True)
    coverage = Coverage(data_file=str(whole), config_file=str(ROOT / "setup.cfg"))
    coverage.combine([str(directory)], strict=True, keep=True)
    sources = [path for floor in floors for path in (root / floor.folder).rglob("*.py")]
    coverage.get_data().touch_files([str(source) for source in sources])
    return coverage, unusable


def by_floor(coverage: Coverage, root: Path, floors: Sequence[Floor]) -> dict[Floor, list[dict[str, Any]]]:
    """What coverage tells of each file, as in its JSON report."""
    report = Path(coverage.get_data().data_filename()).with_name("report.json")
    coverage.json_report(outfile=str(report), include=[f"{root / floor.folder}/*" for floor in floors])
    found: dict[Floor, list[dict[str, Any]]] = {floor: [] for floor in floors}
    for name, told in json.loads(report.read_text())["files"].items():
        path = Path(name).absolute().relative_to(root)
        floor = next(floor for floor in floors if path.is_relative_to(floor.folder))
        found[floor].append({"path": path, **told})
    return found


def percentage(files: list[dict[str, Any]]) -> float:
    def total(*counts: str) -> int:
        return sum(file["summary"][count] for file in files for count in counts)

    return 100 * total("covered_lines", "covered_branches") / total("num_statements", "num_branches")


def ranges(lines: list[int]) -> str:
    """1-3, 7"""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(lines), key=lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def main(directory: Path, root: Path = ROOT, floors: Sequence[Floor] = FLOORS) -> int:
    coverage, unusable = combined(directory, root, floors)
    found = by_floor(coverage, root, floors)
    below = []
    print(f"{'':26}lines  executed  at least")
    for floor, files in found.items():
        percent = percentage(files)
        lines = sum(file["summary"]["num_statements"] for file in files)
        print(f"{floor.name:26}{lines:5}   {percent:5.1f} %   {floor.percent:5.1f} %")
        if percent < floor.percent:
            below.append(floor)
    if unusable:
        print(f"Left out, since a killed process wrote only a part of them: {unusable} files.")
    for floor in below:
        print(f"{floor.name} is below its floor. No test executes:")
        for file in found[floor]:
            if file["missing_lines"]:
                print(f"  {file['path']}: {ranges(file['missing_lines'])}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
