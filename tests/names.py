"""Finds variables and parameters that are lone participles: ``python -m tests.names``, in ``script/test lint`` too.

A value is a noun: ``told`` may be anything, ``status`` is one thing. ``LEFT`` has how many each room had before; that
only becomes less. A parameter that is a ``bool`` may be one (``paused``), and so may a field, which stands beside its
owner (``last.paused``). ``desired`` is the glossary's word for desired limits.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("agent", "probes", "monitoring", "insight")
IRREGULAR = """
    become begun bent bought broken brought built caught chosen done drawn driven fallen felt forgiven forgotten
    found given gone grown heard held hidden kept known laid left lost made meant met paid proven said seen sent shown
    shut sold spent spoken stolen stuck taken taught thought thrown told understood withheld won written
"""
NOUNS = """
    bed bound deed desired embed exceed feed hundred need proceed red seed shed shred speed succeed weed
"""
_PARTICIPLE = re.compile(rf"(?!(?:{'|'.join(NOUNS.split())})$)(?:[a-z]+ed|{'|'.join(IRREGULAR.split())})")

LEFT: Mapping[str, int] = {}
"""By room: a folder of a package."""


class Found(NamedTuple):
    path: str
    line: int
    name: str

    @property
    def room(self) -> str:
        return self.path.rpartition("/")[0]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name} is a participle: name the value with a noun"


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Variables and parameters, where they are bound: the names and the lines."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    fields = {line.target for node in classes for line in node.body if isinstance(line, ast.AnnAssign)}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            if not (isinstance(node.annotation, ast.Name) and node.annotation.id == "bool"):
                yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            yield node.id, node.lineno


def in_python(path: str, source: str) -> Iterator[Found]:
    for name, line in names(ast.parse(source)):
        if _PARTICIPLE.fullmatch(name.strip("_")):
            yield Found(path, line, name)


def found(root: Path = ROOT) -> Iterator[Found]:
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            yield from in_python(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))


def judged(every: list[Found], left: Mapping[str, int] = LEFT) -> Iterator[str]:
    """A line for each name of a room with more than it may have, and for each room that may have fewer now."""
    by_room: dict[str, list[Found]] = {room: [] for room in left}
    for one in every:
        by_room.setdefault(one.room, []).append(one)
    for room, here in by_room.items():
        allowed = left.get(room, 0)
        if len(here) > allowed:
            yield from map(str, here)
            yield f"{room}: {len(here)} of them, and {allowed} were there before"
        elif len(here) < allowed:
            yield f"{room}: only {len(here)} are left: write that number into LEFT in tests/names.py"


if __name__ == "__main__":
    wrong = list(judged(list(found())))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))
