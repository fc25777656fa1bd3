"""The Ansible collection, where tests and Ansible find it under its name, though it need not be installed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1] / "ansible"


def plugin(name: str) -> ModuleType:
    """``modules.release``, ``filter.batches`` and so on, imported by the name that Ansible gives it."""
    for package, path in (("plimsoll", []), ("plimsoll.cloud", [str(ROOT)])):
        known = sys.modules.setdefault(f"ansible_collections.{package}", ModuleType(package))
        known.__path__ = path
    return importlib.import_module(f"ansible_collections.plimsoll.cloud.plugins.{name}")


def link(collections: Path) -> None:
    """Make ``collections`` a directory for ``ANSIBLE_COLLECTIONS_PATH`` in which the checkout's collection is."""
    below = collections / "ansible_collections/plimsoll"
    below.mkdir(parents=True)
    (below / "cloud").symlink_to(ROOT)
