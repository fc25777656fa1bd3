"""Opening a file that may be compressed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.distribution import needs
from plimsoll_agent.util.text import printable

_GZIP, _ZSTD, _XZ, _BZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zX", b"BZh"
COMPRESSED = (_GZIP, _ZSTD, _XZ, _BZIP)
"""How such files begin."""
_STEP = 1 << 16
"""Bytes that are lost at most where zstd finds damage."""
_ENDED = "the compressed data end before their end mark"


class UnreadableLog(PlimsollError):
    """A file cannot be read, or has not what it is read for."""


@contextmanager
def opened(path: Path, on_damage: Callable[[str], None] | None = None, place: int = 0) -> Iterator[BinaryIO]:
    """The file's bytes from ``place`` on, decompressed where it begins as gzip, xz, bzip2 or zstd do.

    Raises ``UnreadableLog``.

    Where compressed data are damaged or cut, ``on_damage`` is told why, and what was before can be read; without it,
    reading raises.
    """
    try:
        if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):
            raise UnreadableLog(f"{_shown(path)}: not a regular file, and it is read twice; save it in a file first")
        with path.open("rb") as file:
            begin = file.read(4)
            file.seek(0)
            if begin.startswith(_GZIP):
                with gzip.open(file) as inside:
                    yield _Unpacked(inside.read1, (EOFError, OSError, zlib.error), None, on_damage).at(place)
            elif begin.startswith((_XZ, _BZIP)):
                with lzma.open(file) if begin == _XZ else bz2.open(file) as inside:
                    errors = EOFError, OSError, lzma.LZMAError
                    yield _Unpacked(inside.read1, errors, None, on_damage).at(place)
            elif begin == _ZSTD:
                yield _zstd(path, file, on_damage).at(place)
            else:
                file.seek(place)
                yield file
    except (OSError, _Damaged) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreadableLog(f"{_shown(path)}: {words}") from error


class _Damaged(Exception):
    """Compressed data are not whole."""


class _Unpacked:
    """What can be decompressed of a file."""

    def __init__(
        self,
        read: Callable[[int], bytes],
        errors: tuple[type[Exception], ...],
        is_whole: Callable[[], bool] | None,
        on_damage: Callable[[str], None] | None,
    ) -> None:
        self._read, self._errors, self._is_whole, self._on_damage = read, errors, is_whole, on_damage
        self._ended = False

    def at(self, place: int) -> BinaryIO:
        """What is before is decompressed too."""
        while place > 0 and (part := self.read(min(place, _STEP))):
            place -= len(part)
        return cast(BinaryIO, self)

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        length = 0
        while not self._ended and (size < 0 or length < size):
            part = self._part(_STEP if size < 0 else min(size - length, _STEP))
            length += len(part)
            parts.append(part)
        return b"".join(parts)

    def _part(self, size: int) -> bytes:
        try:
            part = self._read(size)
        except self._errors as error:
            self._end(_ENDED if isinstance(error, EOFError) else getattr(error, "strerror", None) or str(error))
            return b""
        if not part:
            self._end(None if self._is_whole is None or self._is_whole() else _ENDED)
        return part

    def _end(self, why: str | None) -> None:
        self._ended = True
        if why is None:
            return
        if self._on_damage is None:
            raise _Damaged(why)
        self._on_damage(why)


def _zstd(path: Path, file: BinaryIO, on_damage: Callable[[str], None] | None) -> _Unpacked:
    try:
        import zstandard
    except ImportError as error:
        raise UnreadableLog(f"{_shown(path)}: to read zstd unpack it with zstd -d, or {needs('insight')}") from error

    def is_whole() -> bool:
        """zstandard reads a frame that is cut as one that has ended."""
        file.seek(0, 2)
        return _frames_end(file, zstandard) == file.seek(0, 2)

    inside = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=False)
    return _Unpacked(inside.read, (zstandard.ZstdError,), is_whole, on_damage)


def _frames_end(file: BinaryIO, zstandard: Any) -> int:
    """Where the frames end by what they say of themselves (RFC 8878): beyond the file where it is cut."""
    end, size = 0, file.seek(0, 2)
    while end < size:
        file.seek(end)
        head = file.read(18)
        if head[1:4] == b"\x2a\x4d\x18":  # a frame to skip
            end += 8 + int.from_bytes(head[4:8], "little")
            continue
        if len(head) < 6:
            return size + 1
        checksum = 4 if zstandard.get_frame_parameters(head).has_checksum else 0
        end += zstandard.frame_header_size(head)
        last = 0
        while not last:
            if end + 3 > size:
                return size + 1
            file.seek(end)
            block = int.from_bytes(file.read(3), "little")
            last, kind = block & 1, block >> 1 & 3
            end += 3 + (1 if kind == 1 else block >> 3)  # of kind 1, one byte stands for all
        end += checksum
    return end


def _shown(path: Path) -> str:
    return printable(str(path))
