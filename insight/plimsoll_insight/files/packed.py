"""Opening a file that may be compressed."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from plimsoll_agent.errors import PlimsollError

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class UnreadableLog(PlimsollError):
    """A file cannot be read, or has not what it is read for."""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed where they begin as gzip or zstd do. Raises ``UnreadableLog``."""
    try:
        with path.open("rb") as file:
            begin = file.read(4)
            file.seek(0)
            if begin.startswith(_GZIP):
                with gzip.open(file) as inside:
                    yield cast(BinaryIO, inside)
            elif begin == _ZSTD:
                yield _zstd(path, file)
            else:
                yield file
    except (OSError, EOFError, zlib.error) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreadableLog(f"{path}: {words}") from error


def _zstd(path: Path, file: BinaryIO) -> BinaryIO:
    try:
        import zstandard
    except ImportError as error:
        raise UnreadableLog(
            f"{path}: to read zstd: pip install 'plimsoll-agent[insight]', or unpack it with zstd -d"
        ) from error
    return cast(BinaryIO, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
