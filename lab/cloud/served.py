"""What the APIs were asked: read back from the log that services/accesslog.py writes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

# A UUID with or without its dashes.
_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")


@dataclass(frozen=True)
class Request:
    """One request that was answered. ``began`` is in seconds since the epoch; ``status`` 0: it raised."""

    service: str
    method: str
    path: str
    query: str
    status: int
    began: float
    seconds: float
    agent: str  # the client's User-Agent

    @property
    def call(self) -> str:
        """The method and the path with `ID` for each id in it, to be counted: `GET /v3/ID/qos-specs`."""
        return f"{self.method} {_ID.sub('ID', self.path)}"


class AccessLog:
    def __init__(self, file: Path) -> None:
        self.file = file

    def mark(self) -> int:
        """Here and now, for ``since``."""
        return self.file.stat().st_size if self.file.exists() else 0

    def since(self, mark: int) -> list[Request]:
        """In the order in which they were answered."""
        if not self.file.exists():
            return []
        with self.file.open("rb") as file:
            file.seek(mark)
            return [Request(**json.loads(line)) for line in file.read().splitlines()]
