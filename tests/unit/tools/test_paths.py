"""Whether a file is there is asked with ``util.files``: what cannot be found out is not taken for "no"."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# They answer "no", or find nothing, where rights are missing or a disk fails: those of Path from Python 3.14 on.
OF_PATH = {"exists", "is_file", "is_dir", "is_fifo", "is_socket", "is_mount", "glob", "rglob"}
OF_OS_PATH = {"exists", "lexists", "isfile", "isdir", "ismount"}
ELSEWHERE = {
    "agent/plimsoll_agent/util/files.py": "of a name that is free; what follows fails if it is not",
    "agent/plimsoll_agent/app/node_setup.py": "systemd's directories, which every user may read",
    "insight/plimsoll_insight/cli/drill_sources.py": "Ceph's, of which none need be on this machine",
}


def guesses(tree: ast.Module) -> Iterator[int]:
    """The lines at which a file is asked for, and an error taken for an answer."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner, name = node.func.value, node.func.attr
        of_os_path = (
            isinstance(owner, ast.Attribute) and owner.attr == "path" and getattr(owner.value, "id", "") == "os"
        )
        if (name in OF_OS_PATH) if of_os_path else (name in OF_PATH and getattr(owner, "id", "") != "files"):
            yield node.lineno


def modules() -> dict[str, Path]:
    return {
        str(path.relative_to(ROOT)): path
        for package in (
            "agent/plimsoll_agent",
            "probes/plimsoll_probes",
            "monitoring/plimsoll_monitoring",
            "insight/plimsoll_insight",
        )
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def test_no_module_takes_missing_rights_for_a_missing_file() -> None:
    found = {name: list(guesses(ast.parse(path.read_bytes()))) for name, path in modules().items()}
    assert [f"{name}:{line}" for name, lines in found.items() if name not in ELSEWHERE for line in lines] == []
    assert all(found[name] for name in ELSEWHERE), "no exception is needless"


def test_no_module_makes_an_address_with_pathlib() -> None:
    """From Python 3.14 on that imports an HTTP client and TLS, which no pass may have."""
    assert [name for name, path in modules().items() if "as_uri" in path.read_text().replace("Path.as_uri", "")] == []


@pytest.mark.parametrize("text", ["Path(name).exists()", "self.path.is_dir()", "os.path.lexists(a)", "a.glob('*')"])
def test_a_guess_is_found(text: str) -> None:
    assert list(guesses(ast.parse(text)))


def test_an_answer_is_no_guess() -> None:
    assert not list(guesses(ast.parse("files.exists(path) and database.is_there() and os.path.join(a, b)")))
