"""What each part of setup starts can be imported with what that part installs, and each command with no extra at all.

A machine that runs the tests has every extra, so no other test would miss one.
"""

from __future__ import annotations

import ast
import configparser
import functools
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab import commandserver

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = {
    "plimsoll_agent": "agent",
    "plimsoll_probes": "probes",
    "plimsoll_monitoring": "monitoring",
    "plimsoll_insight": "insight",
}
PRODUCT = tuple(FOLDERS)
SCRIPTS = {path.stem for path in (ROOT / "script").glob("*.py")}
# Files that other Pythons run: of OpenStack's environment, of Debian, of the oldest nodes, of the lab's guests.
OTHER_PYTHONS = ("lab.cloud.services", "lab.cloud.bindings")
# Beside Python's own library: pip, and what a test makes, or has only where Debian's Python runs it.
NOT_INSTALLED = {"ansible_collections", "pkg_resources"}


class Import(NamedTuple):
    """What a module imports, and the line at which it does."""

    name: str
    line: int


def parts() -> dict[str, tuple[list[str], list[str]]]:
    """Extras and entry modules of each part."""
    lines = (ROOT / "script/parts.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: (_words(extras), _words(modules)) for name, _, extras, _, modules in rows}


def _words(column: str) -> list[str]:
    return [] if column == "-" else column.split(",")


@functools.cache
def file_of(module: str) -> Path | None:
    """None for a module of others."""
    top = module.partition(".")[0]
    if top in SCRIPTS:
        return ROOT / f"script/{top}.py"
    base = ROOT / FOLDERS.get(top, "") / module.replace(".", "/")
    if base.with_suffix(".py").is_file():
        return base.with_suffix(".py")
    return base / "__init__.py" if (base / "__init__.py").is_file() else None


def below(package: str) -> Iterator[str]:
    """The module itself, and all that a package holds."""
    file = file_of(package)
    if file is None:
        folder = ROOT / package.replace(".", "/")
        assert folder.is_dir(), f"script/parts.txt: there is no module {package}"
    else:
        yield package
        folder = file.parent if file.name == "__init__.py" else Path("/nonexistent")
    for path in sorted(folder.rglob("*.py")):
        inner = path.relative_to(folder).with_suffix("").parts
        yield ".".join((package, *(part for part in inner if part != "__init__")))


@functools.cache
def imports(module: str, lazy: bool) -> tuple[Import, ...]:
    """Of functions too where ``lazy``."""
    file = file_of(module)
    assert file is not None
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(_imports(ast.parse(file.read_bytes()).body, package, lazy))


def _imports(body: Sequence[ast.AST], package: str, lazy: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports(node.orelse, package, lazy)
        elif isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                yield Import(inner if file_of(inner) else origin, node.lineno)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or lazy:
            yield from _imports(list(ast.iter_child_nodes(node)), package, lazy)


def needed(entries: Sequence[str]) -> dict[str, str]:
    """Modules of others that these need, with the place of the first import of each.

    A function of the product may import what an extra brings: then it says which one (see the end of this file).
    """
    places: dict[str, str] = {}
    known, waiting = set(entries), list(entries)
    while waiting:
        module = waiting.pop()
        for name, line in imports(module, lazy=module.partition(".")[0] not in PRODUCT):
            steps = name.split(".")
            ours = {".".join(steps[:end]) for end in range(1, len(steps) + 1)}
            ours = {each for each in ours if file_of(each)}
            if not ours and file_of(steps[0]) is None and not (ROOT / steps[0]).is_dir():
                places.setdefault(name, f"{module}:{line}")
            waiting += ours - known
            known |= ours
    return places


@functools.cache
def requirements() -> dict[str, str]:
    """By the name of an extra; ``""`` has what is always installed."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return {"": parser["options"]["install_requires"], **parser["options.extras_require"]}


def installed(extras: Sequence[str]) -> set[str]:
    """The distributions that come with these extras, and what they require."""
    waiting = [Requirement(line) for extra in ("", *extras) for line in requirements()[extra].split("\n") if line]
    known: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in known:
            continue
        known.add(key)
        try:
            further = [Requirement(text) for text in requires(requirement.name) or ()]
        except PackageNotFoundError:
            continue
        chosen = [{"extra": extra} for extra in ("", *requirement.extras)]
        waiting += [each for each in further if not each.marker or any(map(each.marker.evaluate, chosen))]
    return {name for name, _ in known}


def lacking(entries: Sequence[str], extras: Sequence[str]) -> list[str]:
    brought, owners = installed(extras), packages_distributions()
    faults = []
    for name, place in sorted(needed(entries).items()):
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in NOT_INSTALLED:
            continue
        if not brought & {canonicalize_name(owner) for owner in owners.get(top, ())}:
            faults.append(f"{place} imports {name}")
    return faults


def commands() -> list[str]:
    """The modules behind the console scripts and the commands of plimsoll."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    points = parser["options.entry_points"]
    groups = ("console_scripts", "plimsoll.commands")
    return sorted({module for group in groups for module in re.findall(r"= ([\w.]+):", points[group])})


@pytest.mark.parametrize("part", parts())
def test_a_part_of_setup_installs_all_that_its_modules_import(part: str) -> None:
    extras, modules = parts()[part]
    entries = [module for package in modules for module in below(package) if not module.startswith(OTHER_PYTHONS)]
    forked = [*commands(), *(name for name in commandserver.LATE if file_of(name))]
    assert entries
    assert lacking([*entries, *forked], extras) == []


def test_what_setup_runs_before_there_is_an_environment_needs_pythons_own_library_alone() -> None:
    names = {name.partition(".")[0] for name in needed(["lab.cloud.kept"])}
    assert names - sys.stdlib_module_names == set()


def test_each_command_is_imported_without_any_extra() -> None:
    assert lacking(commands(), []) == []


def test_a_lazy_import_counts_for_the_lab_and_not_for_the_product() -> None:
    """Else what only an extra brings would be found nowhere, or everywhere."""
    assert "libvirt" in needed(["lab.observer"])
    assert "tooz" not in needed(["plimsoll_probes.adapters.slots"])
    assert lacking(["lab.demo.plot"], []) != []
