"""Which logs there are, and whose they are: files, the files of a directory, their guests and groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from plimsoll_agent.errors import UsageError
from plimsoll_agent.util.frozen import frozen

_LOG = re.compile(r"(?P<guest>.*?)_?(?:clat|slat|lat)_hist(?:\.\d+)?\.log(?:\.gz|\.zst)?", re.DOTALL)
_JSON = re.compile(r"(?P<guest>.*)\.json(?:\.gz|\.zst)?", re.DOTALL)


@frozen
class Source:
    """One file. Times in it begin at ``offset_ms``."""

    path: Path
    guest: str
    group: str
    offset_ms: int = 0


@frozen
class Chosen:
    """How files are chosen from directories and put together."""

    groups: Mapping[str, str]
    """The name of each group, and a shell pattern of guests or file names."""
    offsets_ms: Mapping[str, int]
    """A shell pattern, and by how much the times of its files are moved."""


def sources(given: Iterable[Path], chosen: Chosen) -> list[Source]:
    """A file is taken as it is. Of a directory, what has the name of a histogram log; JSON only where there is none,
    since fio tells of the same requests in both.

    The guest is the directory below the one that was given, else the file's name before ``_clat_hist``.
    Raises ``UsageError``.
    """
    found = []
    for path in given:
        if path.is_dir():
            files = [each for each in sorted(path.rglob("*")) if each.is_file()]
            inside = _matching(_LOG, files) or _matching(_JSON, files)
            if not inside:
                raise UsageError(
                    f"{path}: no histogram logs in it; they are named NAME_clat_hist.N.log, or NAME.json"
                )
            found += [_source(each, _guest(each, path), chosen) for each in inside]
        elif path.exists():
            found.append(_source(path, _guest(path, path.parent), chosen))
        else:
            raise UsageError(f"{path}: no such file")
    return found


def _matching(form: re.Pattern[str], files: Iterable[Path]) -> list[Path]:
    return [each for each in files if form.fullmatch(each.name)]


def _guest(path: Path, top: Path) -> str:
    below = path.relative_to(top).parts
    if len(below) > 1:
        return below[0]
    match = _LOG.fullmatch(path.name) or _JSON.fullmatch(path.name)
    return (match and match["guest"]) or path.name


def _source(path: Path, guest: str, chosen: Chosen) -> Source:
    def meant(pattern: str) -> bool:
        return fnmatchcase(guest, pattern) or fnmatchcase(path.name, pattern)

    group = next((name for name, pattern in chosen.groups.items() if meant(pattern)), "others")
    offset = next((moved for pattern, moved in chosen.offsets_ms.items() if meant(pattern)), 0)
    return Source(path, guest, group, offset)
