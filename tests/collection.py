"""The Ansible collection's Python, imported as Ansible imports it: below ``ansible_collections.plimsoll.cloud``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1] / "ansible"


def plugin(name: str) -> ModuleType:
    """``modules.release``, ``module_utils.limit_writers`` and so on; the collection need not be installed."""
    for package, path in (("plimsoll", []), ("plimsoll.cloud", [str(ROOT)])):
        known = sys.modules.setdefault(f"ansible_collections.{package}", ModuleType(package))
        known.__path__ = path
    return importlib.import_module(f"ansible_collections.plimsoll.cloud.plugins.{name}")
