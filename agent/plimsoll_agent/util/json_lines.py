"""A record that is a JSON object a line: a line is on the disk before what it tells is done.

A process that is killed while it writes leaves a part of a line, of what it had not done yet: that part is not read,
and the next line replaces it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util import files
from plimsoll_agent.util.decoding import UNREADABLE, complaint


class JsonLines:
    """``most`` are bytes; ``when`` says when a larger file may be moved away: ``while no return is under way``.

    ``parts`` of lines are left out in the middle too: releases before gave those of a return an end of line.
    """

    def __init__(self, path: Path, most: int, error: type[PlimsollError], when: str, *, parts: bool = False) -> None:
        self._path, self._most, self._error, self._when = path, most, error, when
        self._parts = parts

    def read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each object with the number of its line, from 1. Raises the error for any other line, as it may count."""
        whole = files.read_bounded(self._path, self._most, self._error, f"move it away {self._when}") or b""
        *lines, _ = whole.split(b"\n")
        for number, line in enumerate(lines, 1):
            content = line.strip(b"\0")  # which a failure of power may leave
            if self._parts and (not content or (content.startswith(b"{") and not content.endswith(b"}"))):
                continue
            try:
                yield number, dict(json.loads(content))
            except UNREADABLE as fault:
                raise self.corrupt(number, fault) from None

    def corrupt(self, number: int, fault: Exception) -> PlimsollError:
        return self._error(f"{self._path}:{number}: is corrupt: {complaint(fault)}")

    def append(self, entry: Mapping[str, object], mode: int = 0o640) -> None:
        """Raises the error."""
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        try:
            self._cut()
            files.append(self._path, line, mode, durable=True)
        except OSError as fault:
            raise self._error(f"{self._path}: cannot be written: {files.reason(fault)}") from fault

    def _cut(self) -> None:
        """Remove a part of a line. Raises ``OSError``."""
        try:
            handle = files.open_regular(self._path, os.O_RDWR)
        except FileNotFoundError:
            return
        with os.fdopen(handle, "r+b") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
            if file.read(1) not in (b"", b"\n"):
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
