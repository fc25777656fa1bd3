"""What is shipped: a subpackage that setup.cfg does not name would be silently absent from the wheel."""

from __future__ import annotations

import configparser
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_every_package_is_named_in_setup_cfg() -> None:
    named = set(_setup()["options"]["packages"].split())
    found = {
        ".".join(file.parent.relative_to(ROOT / top).parts)
        for top in ("agent", "probes")
        for file in (ROOT / top).rglob("__init__.py")
    }
    assert named == found


def test_every_entry_point_can_be_loaded() -> None:
    ours = distribution("plimsoll-agent").entry_points
    assert {"plimsoll.commands", "console_scripts", "oslo.config.opts"} <= {point.group for point in ours}
    for point in ours:
        point.load()
