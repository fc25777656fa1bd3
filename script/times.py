"""Where the time of a run of tests went: python script/times.py DIRECTORY [GROUP=SECONDS...]

DIRECTORY has a file of each pytest, as ``tests/times.py`` writes it; GROUP=SECONDS is a group without one. Prints the
seconds of each beside its budget, its ten slowest tests, and last which tests passed at their second try only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

BUDGET = Path(__file__).resolve().parents[1] / "tests/budget.txt"
SLOWEST = 10
TOLERANCE = 4 / 3
"""A run on a machine that does other things, too, is no news."""


@dataclass(frozen=True)
class Part:
    """What one pytest did: its seconds, and those of each test."""

    name: str
    seconds: float
    tests: Mapping[str, float]
    flaked: tuple[str, ...] = ()


def read(directory: Path) -> list[Part]:
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.json"))]
    parts.sort(key=lambda part: part["began"])
    return [Part(part["name"], part["seconds"], part["tests"], tuple(part["flaked"])) for part in parts]


def budget(text: str) -> dict[str, float]:
    """By the name of a part, in seconds."""
    rows = (line.split("#")[0].split() for line in text.splitlines())
    return {row[0]: float(row[1]) for row in rows if row}


def lines(parts: Iterable[Part], budgets: Mapping[str, float]) -> Iterable[str]:
    parts = list(parts)
    for part in parts:
        allowed = budgets.get(part.name)
        yield f"{part.name}: {part.seconds:.0f} s" + ("" if allowed is None else f", budget {allowed:.0f} s")
        slowest = sorted(part.tests.items(), key=lambda pair: -pair[1])[:SLOWEST]
        yield from (f"  {seconds:6.1f} s  {test}" for test, seconds in slowest)
    for part in parts:
        allowed = budgets.get(part.name)
        if allowed is not None and part.seconds > TOLERANCE * allowed:
            over = 100 * (part.seconds / allowed - 1)
            yield f"warning: {part.name} took {part.seconds:.0f} s, {over:.0f} % over its budget (tests/budget.txt)"
    flaked = sorted({test for part in parts for test in part.flaked})
    yield from (f"  {test}" for test in flaked)
    yield f"flaked: {len(flaked)}"


def main(directory: Path, others: Iterable[str]) -> None:
    more = (pair.partition("=") for pair in others)
    parts = [*(Part(name, float(seconds), {}) for name, _, seconds in more), *read(directory)]
    for line in lines(parts, budget(BUDGET.read_text(encoding="utf-8"))):
        print(line)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
