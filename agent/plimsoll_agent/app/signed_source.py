"""Reads a signed file from a path or a web server, and checks its signature, which is in it or beside it."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from plimsoll_agent.catalogue.model import CatalogueError
from plimsoll_agent.errors import ConfigError, DeadlineExceeded
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen

SIGNATURE = ".sig"
LONGEST_SIGNATURE = 1024
# If the signature is in a file of its own, a read may come between the writes of the two files.
_TRIES = 4
_BETWEEN = 0.5


@frozen(kw_only=True)
class SignedSource:
    """Where the file is, and how it is read."""

    where: str
    """An absolute path, or an https URL."""
    key: Path
    """The public key."""
    deadline: float
    """Seconds."""
    most: int
    """Bytes."""


@frozen(kw_only=True)
class Signed:
    """A file with a valid signature of its ``content``."""

    content: bytes
    sealed: bytes
    """With the signature in it."""
    digest: str
    """SHA-256 of the whole file, as it was fetched."""
    etag: str | None
    modified: str | None


def check(where: str, setting: str) -> None:
    """Raises ``ConfigError``."""
    if not _is_address(where) and not Path(where).is_absolute():
        raise ConfigError(f"{setting}: {where}: must be an absolute path or an https URL")


def signed(source: SignedSource, etag: str | None = None, last_modified: str | None = None) -> Signed | None:
    """The file, if its signature is valid; None if the web server has no other one than that of ``etag`` or
    ``last_modified``. Raises ``PlimsollError``.
    """
    # Imported here: nodes without a signed file do not need it.
    from plimsoll_agent.adapters.ed25519 import BadSignature, read_public, sealed, unsealed

    key = read_public(source.key)
    read = _Remote(source) if _is_address(source.where) else _Local(source)
    bad: BadSignature | None = None
    for _ in range(_TRIES):
        if bad is not None:
            time.sleep(_BETWEEN)
        try:
            page = read.file(etag, last_modified)
            if page is None:
                return None
            content, signature = unsealed(page.content)
            signature = read.signature() if signature is None else signature
            key.verify(content, signature, shown(source.where))
        except BadSignature as error:
            bad = error
        except DeadlineExceeded:
            if bad is None:
                raise
            break
        else:
            digest = hashlib.sha256(page.content).hexdigest()
            return Signed(
                content=content,
                sealed=sealed(content, signature),
                digest=digest,
                etag=page.etag,
                modified=page.modified,
            )
    raise bad or AssertionError


@frozen
class _Page:
    """A file as it was read."""

    content: bytes
    etag: str | None = None
    modified: str | None = None


class _Local:
    def __init__(self, source: SignedSource) -> None:
        self._path, self._most = Path(source.where), source.most

    def file(self, _: str | None, __: str | None) -> _Page | None:
        return _Page(self._read(self._path, self._most))

    def signature(self) -> bytes:
        return self._read(self._path.with_name(self._path.name + SIGNATURE), LONGEST_SIGNATURE)

    @staticmethod
    def _read(path: Path, most: int) -> bytes:
        try:
            content = files.read_whole(path, most + 1, follow=True)
        except OSError as error:
            raise CatalogueError(f"{path}: cannot be read: {error.strerror}") from error
        if len(content) > most:
            raise CatalogueError(f"{path}: is longer than {most} bytes")
        return content


class _Remote:
    def __init__(self, source: SignedSource) -> None:
        from plimsoll_agent.adapters.https import Web, check_address

        check_address(source.where)
        self._url, self._most = source.where, source.most
        self._web = Web(source.deadline)

    def file(self, etag: str | None, last_modified: str | None) -> _Page | None:
        page = self._web.fetch(self._url, self._most, etag=etag, last_modified=last_modified)
        return None if page is None else _Page(page.content, page.etag, page.modified)

    def signature(self) -> bytes:
        path, mark, query = self._url.partition("?")
        page = self._web.fetch(f"{path}{SIGNATURE}{mark}{query}", LONGEST_SIGNATURE)
        return page.content if page is not None else b""


def _is_address(where: str) -> bool:
    return "://" in where


def shown(where: str) -> str:
    """The path or address, without what could be a secret."""
    from plimsoll_agent.adapters.network import plain_url

    return plain_url(where) if _is_address(where) else where
