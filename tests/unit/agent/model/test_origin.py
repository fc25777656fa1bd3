"""The table of what gives limits: complete, and of no harm where a file names something else."""

from __future__ import annotations

import re
from pathlib import Path

import plimsoll_agent
from plimsoll_agent.model.origin import ORIGINS, Origin, edited, origin_of
from plimsoll_agent.model.reason import Code, because


def test_all_that_desires_limits_has_its_row() -> None:
    modules = Path(plimsoll_agent.__file__).parent.rglob("*.py")
    found = {code for path in modules for code in re.findall(r"Desired\(.*because\(Code\.(\w+)", path.read_text())}
    assert {"COMMAND_LINE", "NODE_DEFAULT", "QOS_SPEC", "FLAVOR"} <= found, "what this test looks for is found"
    assert found <= {Code(code).name for code in ORIGINS if code}


def test_a_code_out_of_a_file_that_was_edited_has_no_traits() -> None:
    assert [origin_of(code) for code in (None, "paused", "no code")] == [Origin()] * 3
    assert edited(because(Code.PAUSED)) == "paused"
