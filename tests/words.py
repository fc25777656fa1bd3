"""Finds words that the glossary avoids: ``python -m tests.words``, which ``script/test lint`` runs.

It reads documentation, samples, units, alerts and Ansible's YAML as text. Of Python it reads strings and docstrings,
and of tests their names; any other identifier is never found.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Word(NamedTuple):
    """One row of the table: ``avoid`` is as people read it, ``pattern`` finds it."""

    avoid: str
    instead: str
    pattern: str


_SERVICE = "(?:(?-i:Cinder|Nova|Keystone|Ceph|libvirt|QEMU|Prometheus)|the guest|the agent|the node)"
"""``ceph tell`` is a command."""
WORDS = (
    Word("wanted", "desired", "wanted"),
    Word("is to have", "desired limits", "(?:is|are) to have"),
    Word("otherwise than, other than", "differs from, except", "other(?:wise)? than"),
    Word(
        "waits for approval, kept back, held back",
        "deferred",
        "(?:waits? for approval|(?:kept|keeps?|held|holds?) back)",
    ),
    Word(
        "somebody, somebody else, somebody else's hand",
        "operator, tenant; external change",
        "(?:somebody|someone)(?: else)?",
    ),
    Word("another's hand", "external change", "(?:another's|other|else's) hands?"),
    Word("nobody, nobody knows", "no operator, no rule, no process; unknown", "nobody"),
    Word("put back", "reverted (a limit), restored (a file)", "put(?:s|ting)? back"),
    Word("put in force", "set", "puts? (?:it |them )?in(?:to)? force"),
    Word("loosen, tighten", "raise, lower", "(?:loosen|tighten)(?:s|ed|ing)?"),
    Word("lift (a limit)", "remove", "lift(?:s|ed|ing)?"),
    Word("let go", "remove, release", "lets? go"),
    Word("at the wall", "at limit", "at (?:the |its |their )?wall"),
    Word("edition", "revision", "editions?"),
    Word("grave, gravely", "large; by a factor", "grave(?:ly)?"),
    Word("not known", "unknown, with the reason and since when", "not known"),
    Word("overlooked, does not let itself be looked at", "unreachable", "(?:overlooked|lets? itself be \\w+)"),
    Word("Cinder says, Cinder told", "the catalogue has; Cinder returned", f"{_SERVICE} (?:says?|said|tells?|told)"),
    Word("Cinder's word, whose word", "the source", "(?:Cinder's|Nova's|whose|its) word"),
    Word("heard nothing", "stale", "heard nothing"),
    Word("sighting", "attachment", "sightings?"),
    Word("goes by, gone by", "uses", "(?:goes|gone|go|going) by"),
    Word("hangs on", "depends on", "hangs? on"),
    Word("what came of it, what becomes of it", "result", "(?:came|become|becomes|became) of"),
    Word("told of", "reported", "told of"),
    Word("unwell, not well", "unhealthy, with what is wrong", "(?:unwell|not well)"),
    Word("behind libvirt's back", "over QMP, not through libvirt", "behind libvirt's back"),
    Word("anew", "again, new", "anew"),
    Word("by now", "since, now; or the time", "by now"),
    Word("meanwhile", "since, during; or the time", "meanwhile"),
    Word("as they were", "unchanged; the limits before", "as they were"),
    Word("left to them", "kept", "left to them"),
    Word("at the most, at the least", "at most, at least", "at the (?:most|least)"),
    Word("VM, virtual machine", "guest", "(?:(?-i:VMs?)|virtual machines?)"),
)

# How numbers, times and headings are printed, beside the words above.
STYLES = (
    Word("20..29, 20 s..29 s", "20–29, 20–29 s", r"\d ?\.\.\.? ?\d|\d (?:[nµm]?s|%|min|h)\.\."),
    Word("1,500", "1500", r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])"),
    Word("30%", "30 %", r"\d%"),
    Word("× 1.00", "1.00×", r"×\s\d+\.\d"),
    Word("3.3 ×", "3.3×", r"\d ×(?! ?\d)"),
    Word("58k, 1.5M", "58 KiB, 1500 IOPS", r"(?<![-=\w.:\[])(?<!: )\d+(?:\.\d+)?(?-i:[kKMG])(?![\w/])"),
    Word("iops, io/s", "IOPS", r"(?<![-_\w/?'])(?-i:iops|io/s|IO/s)(?![-_\w])"),
    Word("late (a probe)", "overdue", r"(?-i:\bLATE\b)"),
)
_PRINTED = re.compile(
    "|".join(f"(?P<w{number}>{style.pattern})" for number, style in enumerate(STYLES)), re.IGNORECASE
)
_ESCAPES = re.compile(r"\x1b\[[?\d;]*[A-Za-z]")
_CLOCK = re.compile(r"\b[012]\d:[0-5]\d(?::[0-5]\d)?\b")
_ZONE = re.compile(r"UTC|\dZ|\d[+-]\d\d:?\d\d\b")
_FOR_PROGRAMS = re.compile(r"\s*[\[{<#]|-{1,3} ?|\w+:\s|[^\n]*,[^\n ]*,|usage: ")

# Exceptions: path, what is found there, the reason.
_OLD_NAMES = "names in the record of 0.1.0"
EXEMPT: tuple[tuple[str, str, str], ...] = (
    ("docs/reference/glossary.rst", "virtual machine", "it defines guest"),
    ("agent/plimsoll_agent/store/record.py", "edition", _OLD_NAMES),
    ("agent/plimsoll_agent/store/record.py", "tighten", _OLD_NAMES),
    ("agent/plimsoll_agent/store/record.py", "loosen", _OLD_NAMES),
    ("agent/plimsoll_agent/store/record.py", "lift", _OLD_NAMES),
)

# Paths that are not clean yet. The list only becomes shorter: a path where nothing is found must go.
NOT_YET_CLEAN: tuple[str, ...] = ()

TEXTS = (
    "CONTRIBUTING.md",
    "README.md",
    "docs/**/*.rst",
    "etc/*.sample",
    "etc/*.yaml",
    "etc/prometheus/*.yaml",
    "etc/nagios/*",
    "systemd/*",
    "ansible/**/*.yml",
    "ansible/**/*.j2",
    "ansible/**/*.md",
    "packaging/*",
)
PYTHON = ("agent", "probes", "monitoring", "insight", "packaging", "ansible/plugins")
_TEST = re.compile(r"^ *def (test_\w+)", re.MULTILINE)
_TABLE = "   * - Avoid\n     - Say instead\n"
"""Begins the glossary's own table of these words, with which that page ends."""
_FIND = re.compile(
    "|".join(
        rf"(?P<w{number}>(?<![\w`/.-]){word.pattern}(?![\w`-]))".replace(" ", r"\s+")
        for number, word in enumerate(WORDS)
    ),
    re.IGNORECASE,
)


class Found(NamedTuple):
    path: str
    line: int
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text!r} (say: {self.instead})"


def in_text(path: str, text: str, first_line: int = 1) -> Iterator[Found]:
    for match in _FIND.finditer(text):
        word = WORDS[int(str(match.lastgroup)[1:])]
        yield Found(path, first_line + text.count("\n", 0, match.start()), " ".join(match[0].split()), word.instead)


def in_python(path: str, source: str) -> Iterator[Found]:
    for node in ast.walk(ast.parse(source)):
        # A string without a space is a key, a code or a name.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from in_text(path, node.value, node.lineno)


def in_names(path: str, source: str) -> Iterator[Found]:
    """A test's name is a claim, so it is read as one."""
    for match in _TEST.finditer(source):
        yield from in_text(path, match[1].replace("_", " "), source.count("\n", 0, match.start(1)) + 1)


def in_output(text: str) -> Iterator[str]:
    """What a command printed for people that is not in the project's words or style, each with what to print."""
    text = _ESCAPES.sub("", text)
    if not text or _FOR_PROGRAMS.match(text):
        return
    for one in in_text("printed", text):
        yield str(one)
    for match in _PRINTED.finditer(text):
        yield f"printed: {match[0]!r} (print: {STYLES[int(str(match.lastgroup)[1:])].instead})"
    clock = _CLOCK.search(text)
    if clock and not _ZONE.search(text):
        yield f"printed: {clock[0]!r} without its zone (print: UTC)"
    for line in text.splitlines():
        yield from _heads(line)


def _heads(line: str) -> Iterator[str]:
    """Columns of a line of headings that are not."""
    cells = re.split(r" {2,}", line.strip())
    heads = [cell for cell in cells if re.fullmatch(r"[A-Z][A-Z0-9 /%.+-]+", cell)]
    if len(heads) >= 3 and len(heads) * 2 > len(cells):
        yield from (
            f"printed: a heading {cell!r} (print: {cell.upper()})" for cell in cells if re.fullmatch(r"[a-z ]+", cell)
        )


def found(root: Path = ROOT) -> Iterator[Found]:
    for pattern in TEXTS:
        for file in sorted(root.glob(pattern)):
            if file.is_file() and not file.is_symlink() and "_build" not in file.parts:
                path = file.relative_to(root).as_posix()
                yield from in_text(path, file.read_text(encoding="utf-8").partition(_TABLE)[0])
    for folder in PYTHON:
        for file in sorted((root / folder).rglob("*.py")):
            yield from in_python(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))
    for file in sorted((root / "tests").rglob("*.py")):
        yield from in_names(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))


def judged(all_found: list[Found]) -> Iterator[str]:
    """A line for each word found that neither list allows, and for each entry of the lists that allows nothing."""
    exempt = {(path, text.lower()) for path, text, _ in EXEMPT}
    bad = [one for one in all_found if (one.path, one.text.lower()) not in exempt]
    yield from (str(one) for one in bad if not one.path.startswith(NOT_YET_CLEAN))
    for path in NOT_YET_CLEAN:
        if not any(one.path.startswith(path) for one in bad):
            yield f"{path}: clean, so take it off NOT_YET_CLEAN in tests/words.py"
    for path, text, _ in EXEMPT:
        if not any((one.path, one.text.lower()) == (path, text.lower()) for one in all_found):
            yield f"{path}: nothing there says {text!r}, so take it off EXEMPT in tests/words.py"


if __name__ == "__main__":
    wrong = list(judged(list(found())))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))
