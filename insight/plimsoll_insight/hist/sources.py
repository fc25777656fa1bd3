"""Which logs there are, and whose they are: files, the files of a directory, their guests and groups."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from plimsoll_agent.errors import UsageError
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

_LOG = re.compile(
    r"(?P<guest>.*?)_?(?P<kind>clat|slat|lat)_hist(?P<job>(?:\.\d+)?)\.log"
    r"(?:\.(?!(?:gz|zst|fz)$)(?P<host>.+?))?(?:\.gz|\.zst|\.fz)?",
    re.DOTALL,
)
"""With the name of a host at the end, as ``fio --client`` writes it."""
_JSON = re.compile(r"(?P<guest>.*)\.json(?:\.gz|\.zst)?", re.DOTALL)


@frozen(kw_only=True)
class LogSource:
    """One file. Times in it begin at ``offset_ms``."""

    path: Path
    guest: str
    group: str
    offset_ms: int = 0


@frozen
class FileChoice:
    """How files are chosen from directories and put together."""

    groups: Mapping[str, str]
    """The name of each group, and a shell pattern of guests or file names."""
    offsets_ms: Mapping[str, int]
    """A shell pattern, and by how much the times of its files are moved."""


def sources(paths: Iterable[Path], choice: FileChoice) -> list[LogSource]:
    """A file is taken as it is. Of a directory, what has the name of a histogram log; JSON only where there is none,
    since fio tells of the same requests in both; ``lat`` and ``slat`` only where there is no ``clat`` of them.

    The guest is the directory below the one that was given, else the host of ``fio --client``, else the file's name
    before ``_clat_hist``.
    Raises ``UsageError``.
    """
    logs = []
    for path in paths:
        if stat.S_ISDIR(_status(path).st_mode):
            below = _files(path)
            inside = _one_kind(_matching(_LOG, below)) or _matching(_JSON, below)
            if not inside:
                raise UsageError(
                    f"{_name(path)}: no histogram logs in it; they are named NAME_clat_hist.N.log, or NAME.json"
                )
            logs += [_source(each, _guest(each, path), choice) for each in inside]
        else:
            logs.append(_source(path, _guest(path, path.parent), choice))
    _refuse_twice([source.path for source in logs])
    return logs


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except FileNotFoundError as error:
        raise UsageError(f"{_name(path)}: no such file") from error
    except OSError as error:
        raise UsageError(f"{_name(path)}: {error.strerror}") from error


def _files(top: Path) -> list[Path]:
    try:
        return files.regular_below(top)
    except OSError as error:
        why = f"{error.strerror}; what is in it would not be counted"
        raise UsageError(f"{_name(Path(error.filename))}: {why}") from error


def _one_kind(logs: list[Path]) -> list[Path]:
    """Of latencies of the same requests, those that fio counts from the submission to the completion."""
    kinds: dict[tuple[Path, str, str, str | None], set[str]] = {}
    matches = [(path, match) for path in logs if (match := _LOG.fullmatch(path.name))]
    for path, match in matches:
        kinds.setdefault(_run(path, match), set()).add(match["kind"])
    best = {run: next(each for each in ("clat", "lat", "slat") if each in names) for run, names in kinds.items()}
    return [path for path, match in matches if best[_run(path, match)] == match["kind"]]


def _run(path: Path, match: re.Match[str]) -> tuple[Path, str, str, str | None]:
    return path.parent, match["guest"], match["job"], match["host"]


def is_of_client(path: Path) -> bool:
    """Whether ``fio --client`` wrote it, by its name."""
    match = _LOG.fullmatch(path.name)
    return bool(match and match["host"])


def _refuse_twice(paths: Iterable[Path]) -> None:
    first: dict[object, Path] = {}
    for path in paths:
        status = _status(path)
        plain = path.with_suffix("") if path.suffix in (".gz", ".zst") else path
        keys = ((status.st_dev, status.st_ino), plain.absolute())
        for same in keys:
            if same in first:
                raise UsageError(
                    f"{_name(path)} has the requests of {_name(first[same])}, which would count twice;"
                    " give one of the two"
                )
        first.update(dict.fromkeys(keys, path))


def _name(path: Path) -> str:
    return printable(str(path))


def _matching(form: re.Pattern[str], paths: Iterable[Path]) -> list[Path]:
    return [each for each in paths if form.fullmatch(each.name)]


def _guest(path: Path, top: Path) -> str:
    below = path.relative_to(top).parts
    if len(below) > 1:
        return below[0]
    log = _LOG.fullmatch(path.name)
    if log:
        return log["host"] or log["guest"] or path.name
    match = _JSON.fullmatch(path.name)
    return (match and match["guest"]) or path.name


def _source(path: Path, guest: str, choice: FileChoice) -> LogSource:
    def matches(pattern: str) -> bool:
        return fnmatchcase(guest, pattern) or fnmatchcase(path.name, pattern)

    group = next((name for name, pattern in choice.groups.items() if matches(pattern)), "others")
    offset = next((shift for pattern, shift in choice.offsets_ms.items() if matches(pattern)), 0)
    return LogSource(path=path, guest=guest, group=group, offset_ms=offset)
