"""The libraries that this project is built on are imported by what it installs, not by its tests alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("agent", "probes")


@pytest.mark.parametrize("library", ["libvirt", "openstack", "oslo_config", "prometheus_client", "nagiosplugin"])
def test_each_library_is_imported_on_the_products_path(library: str) -> None:
    imported = {
        name.split(".")[0]
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("plimsoll_*/**/*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }
    assert library in imported
