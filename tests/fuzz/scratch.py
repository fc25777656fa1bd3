"""A file for readers that take a path."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def directory() -> Path:
    """Of this process; it is removed at its end."""
    made = tempfile.mkdtemp(prefix="plimsoll-fuzz-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def file(name: str, content: bytes) -> Path:
    path = directory() / name
    path.write_bytes(content)
    return path
