"""The oldest ansible-core with which the collection is tested, beside that of the virtual environment.

``script/setup`` installs it, once. What it needs it has from the virtual environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from lab.wheelhouses import cache

OLDEST = "2.17.0"
"""As ``requires_ansible`` in ansible/meta/runtime.yml has it.

With 2.16 a file that is validated loses its suffix, by which apt recognises the form of a source of packages.
"""
PYTHON = Path(__file__).resolve().parents[1] / ".venv/bin/python"


def kept(place: Path) -> Path:
    return place / f"ansible-core-{OLDEST}"


def install(place: Path) -> Path:
    """Raises ``subprocess.CalledProcessError``."""
    home = kept(place)
    if not home.is_dir():
        work = home.with_name(f".{home.name}.{os.getpid()}")
        words = ["--quiet", "--disable-pip-version-check", "--no-deps", f"--target={work}", f"ansible-core=={OLDEST}"]
        try:
            subprocess.run([PYTHON, "-m", "pip", "install", *words], check=True)
            work.rename(home)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return home


def environment() -> Mapping[str, str]:
    """Variables with which Ansible's programs of the virtual environment are that version."""
    home = kept(cache())
    assert home.is_dir(), f"there is no {home}: run script/setup"
    return {"PYTHONPATH": str(home)}
