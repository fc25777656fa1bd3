"""Changes and what operators did, as fields in systemd's journal: for a site's log pipeline, beside the record.

Each is one datagram in the journal's native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL). Nothing waits for it:
where there is no journal, or it does not keep up, the record has it all the same.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

SOCKET = Path("/run/systemd/journal/socket")


class Journal:
    """Sends entries to the journal, as long as it takes them."""

    def __init__(self, path: Path = SOCKET) -> None:
        self._path = path

    def send(self, *entries: Mapping[str, str]) -> None:
        """``entries`` by the names of fields: capital letters, digits and ``_``."""
        if not entries or not self._path.exists():
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
                to.setblocking(False)
                for entry in entries:
                    to.sendto(datagram(entry), str(self._path))
        except OSError:  # full, gone, or larger than it takes
            return


def datagram(fields: Mapping[str, str]) -> bytes:
    """An entry as the journal reads it: ``NAME=value``, or with its length where the value has lines."""
    parts: list[bytes] = []
    for name, value in fields.items():
        content = value.encode("utf-8", "backslashreplace")
        if b"\n" in content:
            parts.append(name.encode("ascii") + b"\n" + len(content).to_bytes(8, "little") + content + b"\n")
        else:
            parts.append(name.encode("ascii") + b"=" + content + b"\n")
    return b"".join(parts)
