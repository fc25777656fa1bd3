"""Finds names to avoid: ``python -m tests.names``, in ``script/test lint`` too.

A value is a noun, no lone participle: ``told`` may be anything, ``status`` is one thing. A parameter that
is a ``bool`` may be one (``paused``), and so may a field, which stands beside its owner (``last.paused``).
``desired`` is the glossary's word for desired limits.

Two public classes of one name meet in one traceback, or in one file of imports. A class that extends one of its name
in a lower package (``class DiskExplain(disk.DiskExplain)``) is the same thing.

A value of seven fields or more is made by their names: else nothing tells neighbours of one type apart.
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
MOST_BY_PLACE = 3
ROWS = """
    Measure Metric
    RequestColumns SlowRequest Operation WrappedEntry LogExtent FlowWindows RankDid
    Node ProbeTarget ProbeRow RegionDisk TypeStatus
"""
"""Made by place all the same: rows of a table, what is made for each line of a log, and what begins with a key."""
_PARTICIPLE = re.compile(rf"(?!(?:{'|'.join(NOUNS.split())})$)(?:[a-z]+ed|{'|'.join(IRREGULAR.split())})")


class Found(NamedTuple):
    path: str
    line: int
    name: str
    fault: str = "is a participle: name the value with a noun"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name} {self.fault}"


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


def twins(sources: Mapping[str, str]) -> Iterator[Found]:
    """Of sources by path: each public class whose name an earlier path has."""
    first: dict[str, str] = {}
    for path, source in sources.items():
        for node in ast.parse(source).body:
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            if any(isinstance(base, ast.Attribute) and base.attr == node.name for base in node.bases):
                continue
            if first.setdefault(node.name, path) != path:
                fault = f"is a class of {first[node.name]} too: name it by what tells the two apart"
                yield Found(path, node.lineno, node.name, fault)


def by_place(path: str, source: str) -> Iterator[Found]:
    """Classes of ``frozen`` with too many fields for that."""
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef) or node.bases or node.name in ROWS.split():
            continue
        decorators = [ast.unparse(each) for each in node.decorator_list]
        fields = sum(isinstance(line, ast.AnnAssign) for line in node.body)
        if "frozen" in {each.partition("(")[0] for each in decorators if "kw_only" not in each} and (
            fields > MOST_BY_PLACE
        ):
            yield Found(path, node.lineno, node.name, f"has {fields} fields: say frozen(kw_only=True)")


def found(root: Path = ROOT) -> Iterator[Found]:
    files = [file for package in PACKAGES for file in sorted((root / package).rglob("*.py"))]
    sources = {file.relative_to(root).as_posix(): file.read_text(encoding="utf-8") for file in files}
    for path, source in sources.items():
        yield from in_python(path, source)
        yield from by_place(path, source)
    yield from twins(sources)


if __name__ == "__main__":
    wrong = list(found())
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))
