"""Copies entries of the record to systemd's journal, as fields for a site's log pipeline.

Each is one datagram in the journal's native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL). A datagram that the
journal does not take at once is dropped: the record has the entry. Where there is no journal, as in a container, an
entry is a line of the log, which goes to where the site collects that of containers.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Mapping
from pathlib import Path

LOG = logging.getLogger(__name__)
LOG.setLevel(logging.WARNING)  # commands print what they do; the daemon, which does not, lowers it

SOCKET = Path("/run/systemd/journal/socket")


class SystemJournal:
    def __init__(self, path: Path = SOCKET) -> None:
        self._path = path

    def send(self, *entries: Mapping[str, str]) -> None:
        """Each entry is by field name: capital letters, digits and ``_``."""
        if not entries:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
                to.setblocking(False)
                for entry in entries:
                    to.sendto(datagram(entry), str(self._path))
        except FileNotFoundError:
            for entry in entries:
                LOG.info("%s", json.dumps(entry))
        except OSError:  # full, gone, or the entry is too large
            return


def datagram(fields: Mapping[str, str]) -> bytes:
    """An entry as the journal reads it: ``NAME=value``, or with a length where the value has several lines."""
    parts: list[bytes] = []
    for name, value in fields.items():
        content = value.encode("utf-8", "backslashreplace")
        if b"\n" in content:
            parts.append(name.encode("ascii") + b"\n" + len(content).to_bytes(8, "little") + content + b"\n")
        else:
            parts.append(name.encode("ascii") + b"=" + content + b"\n")
    return b"".join(parts)
