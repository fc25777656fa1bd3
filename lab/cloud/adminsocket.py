"""Ceph's admin sockets: they answer while the monitor does not."""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from typing import Any


def ask(path: Path, command: str, timeout: float = 5, **words: object) -> Any:
    """What the daemon answers to, say, `status`. Raises OSError or ValueError when it does not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(str(path))
        connection.sendall(json.dumps({"prefix": command} | words).encode() + b"\0")
        stream = connection.makefile("rb")
        header = stream.read(4)
        if len(header) != 4:
            raise ValueError(f"{path}: no answer")
        (length,) = struct.unpack(">I", header)
        return json.loads(stream.read(length))
