"""Which tests the change since BASE can reach: ``python -m tests.changed BASE`` prints them.

A test is reached by what it, or a conftest.py beside or above it, imports, directly or through others. Files that
nothing imports (samples, roles, pages) reach the tests that name them or a folder that they are in; changed
commands reach the functional tests that run ``plimsoll``. The lab's tests import much: of these, those that changed
or have the path of what did. For the inner loop only: a test may depend on what no import tells.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path, PurePath

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("plimsoll_agent", "plimsoll_probes", "plimsoll_monitoring", "plimsoll_insight", "lab", "tests")
# Below these, the names of modules begin.
SOURCES = ("agent/", "probes/", "monitoring/", "insight/", "")
LAB = "tests.lab."
GROUPS = ("tests.unit.", "tests.functional.", LAB)
COMMANDS = ("plimsoll_agent.cli.", "plimsoll_probes.cli.", "plimsoll_monitoring.cli.", "plimsoll_insight.cli.")
# All tests name these, for what they import.
OUR_FOLDERS = {"tests", "unit", "functional", "lab"}
RUNS_COMMANDS = re.compile(r"\bplimsoll: ")


def reached(changed: Iterable[str], graph: grimp.ImportGraph, texts: Mapping[str, str]) -> set[str]:
    """Of the modules of tests whose ``texts`` are given, those that the changed files can reach."""
    known = graph.modules
    own = {path: _module(path, known) for path in changed}
    names: set[str] = set()
    modules: set[str] = set()
    for path, module in own.items():
        if module is None:
            names |= {PurePath(path).name.removesuffix(".py"), *PurePath(path).parent.parts} - OUR_FOLDERS
        else:
            modules |= {module, *graph.find_downstream_modules(module)}
    named = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b") if names else None
    commands = any(module.startswith(COMMANDS) for module in modules)

    def is_reached(test: str, text: str) -> bool:
        if test.startswith(LAB):
            return test in own.values() or any(path in text for path in own)
        return bool(
            modules & {test, *_conftests(test)}
            or (named and named.search(text))
            or (commands and test.startswith("tests.functional.") and RUNS_COMMANDS.search(text))
        )

    return {test for test, text in texts.items() if is_reached(test, text)}


def _conftests(test: str) -> Iterator[str]:
    """Beside the test and in each folder above it."""
    folder = test
    while folder := folder.rpartition(".")[0]:
        yield f"{folder}.conftest"


def _module(path: str, known: Set[str]) -> str | None:
    for source in SOURCES:
        if path.startswith(source) and path.endswith(".py"):
            module = path.removeprefix(source).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if module in known:
                return module
    return None


def changed_files(base: str) -> list[str]:
    """Since that commit, with what is not committed yet."""
    listings = (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"])
    return [
        name
        for words in listings
        for name in subprocess.check_output(["git", "-C", str(ROOT), *words], text=True).splitlines()
    ]


def main(base: str) -> None:
    sys.path[:0] = [str(ROOT / source) for source in SOURCES]
    graph = grimp.build_graph(*PACKAGES)
    paths = {module: ROOT / f"{module.replace('.', '/')}.py" for module in graph.modules if module.startswith(GROUPS)}
    texts = {module: path.read_text() for module, path in paths.items() if path.name.startswith("test_")}
    for test in sorted(reached(changed_files(base), graph, texts)):
        print(paths[test].relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1])
