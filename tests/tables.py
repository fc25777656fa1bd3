"""Tables in the documentation that are made from the code: ``python -m tests.tables`` writes them into their pages.

They stand there as text, so that a page can be read as a plain file. A test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from plimsoll_agent.model.limits import PARAMETERS, Parameter
from plimsoll_agent.store import state
from plimsoll_insight.slow.blame import STATES, Blame
from tests import slips, trust, words
from tests.lab.faults import table as faults

REFERENCE = Path(__file__).parents[1] / "docs/reference"


class Table(NamedTuple):
    page: str
    header: Sequence[str]
    widths: Sequence[int]
    rows: Callable[[], Iterable[Sequence[str]]]

    @property
    def text(self) -> str:
        lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, self.widths))}", ""]
        for row in (self.header, *self.rows()):
            lines += [f"   {'*' if number == 0 else ' '} - {cell}" for number, cell in enumerate(row)]
        return "\n".join(lines) + "\n"


def _limits() -> Iterator[Sequence[str]]:
    for parameter in PARAMETERS:
        nova = "yes" if parameter.nova else "no"
        yield f"``{parameter.name}``", _unit(parameter), _meaning(parameter), f"``{parameter.qmp}``", nova


def _unit(parameter: Parameter) -> str:
    return {"length": "s", "size": "bytes"}.get(parameter.role, f"{parameter.unit}/s")


def _meaning(parameter: Parameter) -> str:
    if parameter.role == "size":
        return "size from which one request counts as several"
    what = {"total": "reads and writes together", "read": "reads", "write": "writes"}[parameter.scope or "total"]
    name = parameter.name
    match parameter.role:
        case "base":
            return f"limit of {what}"
        case "max":
            return f"burst: what ``{name.removesuffix('_max')}`` may rise to for a short while"
        case _:
            return f"how long the burst ``{name.removesuffix('_length')}`` may last; 1 unless given"


def _slow_states() -> Iterator[Sequence[str]]:
    words = {
        Blame.OWN: "its own disk or queue",
        Blame.LOCK: "a lock",
        Blame.REPLICA: "other OSDs",
        Blame.NETWORK: "the network",
        Blame.UNKNOWN: "unknown",
    }
    for each in STATES:
        if each.place:
            yield f"``{each.words}``", words[each.blame], each.means, f"``{each.place}``", each.releases


def _state_files() -> Iterator[Sequence[str]]:
    for file in state.FILES:
        version = "none" if file.version is None else str(file.version)
        yield f"``{file.name}``", file.owner, version, file.what, file.corrupt, file.missing


def _words() -> Iterator[Sequence[str]]:
    for word in words.WORDS:
        yield word.avoid, word.instead


def _faults() -> Iterator[Sequence[str]]:
    for row in faults.ROWS:
        served = "reverted after the fault" if row.served is None else f"reverted within {row.served:g} s"
        yield row.name, row.happens, served, f"{row.measured} (at most {row.back:g} s)"


def _faults_elsewhere() -> Iterator[Sequence[str]]:
    for row in faults.ELSEWHERE:
        yield row.fault, row.happens, f"``{row.test.partition('::')[0]}``"


def _trust() -> Iterator[Sequence[str]]:
    for row in trust.ROWS:
        yield row.who, row.can or "nothing", row.cannot, f"``{row.test.partition('::')[0]}``"


TABLES = (
    Table(
        "faults.rst",
        ("Fault", "What happens", "External change of another guest", "All limits right again after"),
        (25, 35, 20, 20),
        _faults,
    ),
    Table("faults.rst", ("Fault that another test tries", "What happens", "Test"), (30, 40, 30), _faults_elsewhere),
    Table(
        "limits.rst",
        ("Parameter", "Unit", "What it is", "In QMP", "Nova passes it on"),
        (32, 12, 40, 18, 12),
        _limits,
    ),
    Table(
        "state.rst",
        ("File", "Written by", "Version", "What it is", "When it is corrupt", "When it is missing"),
        (15, 15, 8, 18, 25, 19),
        _state_files,
    ),
    Table("trust.rst", ("Who", "Can", "Cannot", "Test"), (20, 30, 30, 20), _trust),
    Table(
        "../guide/slow-requests.rst",
        ("State", "Waits for", "Why", "Set in", "Printed"),
        (26, 14, 30, 16, 14),
        _slow_states,
    ),
    Table("glossary.rst", ("Avoid", "Say instead"), (50, 50), _words),
)

SLIPS = (
    Table(
        "slips.rst",
        ("Slip", "1 disk", "3", "30", "300", "Region", "Why it goes through"),
        (30, 8, 8, 8, 8, 8, 30),
        slips.slips,
    ),
    Table("slips.rst", ("Edit", "1 disk", "3", "30", "300", "Region"), (50, 10, 10, 10, 10, 10), slips.everyday),
)
"""Tables that take some seconds, of which a test of their own knows."""


def standing(table: Table) -> str:
    """The table of this header in its page."""
    text = (REFERENCE / table.page).read_text(encoding="utf-8")
    first = re.escape(f"   * - {table.header[0]}\n     - {table.header[1]}\n")
    found = re.search(rf"^\.\. list-table::\n(?:   :.*\n)*\n{first}(?:   .+\n)*", text, re.MULTILINE)
    return found[0] if found else ""


def main() -> None:
    for table in (*TABLES, *SLIPS):
        page = REFERENCE / table.page
        page.write_text(page.read_text(encoding="utf-8").replace(standing(table), table.text), encoding="utf-8")


if __name__ == "__main__":
    main()
