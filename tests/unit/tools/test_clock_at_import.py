"""No test takes the time when it is imported: it may run a quarter of an hour later, on another day."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
CLOCKS = {
    "now": ("datetime",),
    "utcnow": ("datetime",),
    "today": ("date", "datetime"),
    "time": ("time",),
    "time_ns": ("time",),
    "monotonic": ("time",),
    "localtime": ("time",),
    "gmtime": ("time",),
}


def clocks_at_import(tree: ast.Module) -> Iterator[int]:
    """The lines at which the clock is read while the module is imported: at its level, in decorators and defaults."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name in CLOCKS.get(node.func.attr, ()):
                yield node.lineno
        waiting += ast.iter_child_nodes(node)


def test_no_module_of_tests_reads_the_clock_when_it_is_imported() -> None:
    places = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in clocks_at_import(ast.parse(path.read_bytes()))
    ]
    assert places == []


@pytest.mark.parametrize(
    "text",
    [
        "NOW = datetime.now(UTC)",
        "NOW = int(time.time())",
        "class Case:\n    at = datetime.datetime.now(UTC)",
        "def f(at=time.time()): ...",
        "@pytest.mark.parametrize('at', [date.today()])\ndef test_it(at): ...",
    ],
)
def test_a_clock_that_is_read_at_import_is_found(text: str) -> None:
    assert list(clocks_at_import(ast.parse(text)))


@pytest.mark.parametrize("text", ["def f():\n    return time.time()", "NOW = lambda: time.time()", "time.sleep(1)"])
def test_a_clock_that_is_read_by_a_test_is_its_own(text: str) -> None:
    assert not list(clocks_at_import(ast.parse(text)))
