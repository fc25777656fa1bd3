"""Golden files: what plimsoll makes of many cases, a section each, to be read as a whole.

A change of words changes the file: ``PLIMSOLL_GOLDEN=write pytest FILE`` writes it, and ``git diff`` shows each line
that differs. Look at each: a golden file holds what is right, not what came out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

DATA = Path(__file__).parent / "unit" / "data"
_HEAD = "# Written by PLIMSOLL_GOLDEN=write pytest {}. Look at each line that differs before you keep it.\n"


def text_of(test: str, cases: Mapping[str, str]) -> str:
    """A text of one line stands beside the name of its case, one of more below it."""
    parts = [
        f"\n{name}\n" + "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())
        if "\n" in text
        else f"{name} -> {text}\n"
        for name, text in cases.items()
    ]
    return _HEAD.format(test) + "".join(parts)


def check(name: str, test: str, cases: Mapping[str, str]) -> None:
    """Whether the golden file has these cases, in this order; ``test`` is the file of the test, from the root."""
    path, text = DATA / name, text_of(Path(test).relative_to(DATA.parents[2]).as_posix(), cases)
    compare(path, path.read_text(encoding="utf-8") if path.is_file() else "", text)


def compare(path: Path, before: str, after: str) -> None:
    if os.environ.get("PLIMSOLL_GOLDEN") == "write":
        path.write_text(after, encoding="utf-8")
        return
    assert after == before, "PLIMSOLL_GOLDEN=write writes it; look at each line that differs"


def transcript(name: str, answer: Callable[[str, str], str]) -> None:
    """Whether each input of the file has its answer below it, indented.

    An input is a line ``KIND> TEXT``, where ``⏎`` stands for an end of line; ``answer`` gets both.
    """
    path = DATA / name
    before = path.read_text(encoding="utf-8")
    lines = []
    for line in before.splitlines():
        if line.startswith("    "):
            continue
        lines.append(line)
        kind, mark, text = line.partition("> ")
        if mark and not line.startswith("#"):
            lines += (f"    {each}" for each in answer(kind, text.replace("⏎", "\n")).splitlines() or ["nothing"])
    compare(path, before, "".join(f"{line}\n" for line in lines))
