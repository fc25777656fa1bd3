"""script/wheelhouse on machines that lack something; what it makes, the tests of packages build on."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1", "plimsoll needs 3.11 or later"),
        (
            '[ "$2" = -c ] && case $3 in *ensurepip*) exit 1 ;; esac',
            "install Debian's and Ubuntu's package python3-venv",
        ),
        ("case $3 in *sysconfig*) echo /nonexistent ;; esac", "has no headers: install python3-dev"),
    ],
)
def test_a_machine_that_cannot_build_is_told_what_to_install(tmp_path: Path, script: str, words: str) -> None:
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    done = subprocess.run(
        [str(ROOT / "script/wheelhouse"), "--python", str(python), "--output", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("missing", "words"),
    [("libvirt", "install libvirt-dev"), ("cc gcc", "install gcc"), ("pkg-config", "pkg-config is")],
)
def test_a_missing_compiler_or_header_is_named(tmp_path: Path, missing: str, words: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "cat", "cc", "dirname", "gcc", "pkg-config", "printf", "env", "ls", "mkdir"):
        found = shutil.which(tool)
        if found and tool not in missing.split():
            (tools / tool).symlink_to(found)
    environment = {"PATH": str(tools)}
    if missing == "libvirt":
        environment["PKG_CONFIG_LIBDIR"] = str(tmp_path)
    done = subprocess.run(
        [str(ROOT / "script/wheelhouse"), "--output", str(tmp_path)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert words in done.stderr
