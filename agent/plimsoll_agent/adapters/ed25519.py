"""Signs files with ed25519. Keys are PEM; a signature is base64, inside the file or beside it."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from plimsoll_agent.errors import ConfigError, PlimsollError
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen

_LONGEST_KEY = 2**16
_SEAL = re.compile(rb'\{"signature": "([A-Za-z0-9+/=]*)",\n')


class BadSignature(PlimsollError):
    """The content was changed, or signed with another key."""


@frozen
class PublicKey:
    """The key that a node trusts."""

    key: Ed25519PublicKey
    path: Path

    def verify(self, content: bytes, signature: bytes, where: str) -> None:
        """Raises ``BadSignature``."""
        try:
            raw = base64.b64decode(signature.strip(), validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadSignature(f"{where}.sig: is not a signature") from error
        try:
            self.key.verify(raw, content)
        except InvalidSignature as error:
            raise BadSignature(
                f"{where}: the signature is not that of {self.path}: the file was changed, or signed with another key"
            ) from error


@frozen
class PrivateKey:
    """The key that the region's machine signs with."""

    key: Ed25519PrivateKey
    path: Path

    def sign(self, content: bytes) -> bytes:
        """The signature as a line of text."""
        return base64.b64encode(self.key.sign(content)) + b"\n"

    def seal(self, content: bytes) -> bytes:
        """A JSON object with its signature as the first entry, on its own line: one file, so one atomic write.

        ``content`` begins with the brace of an object that is not empty.
        """
        return sealed(content, self.sign(content))

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.key.public_key(), self.path)


def sealed(content: bytes, signature: bytes) -> bytes:
    """As ``PrivateKey.seal``, with a signature that was made before."""
    return b'{"signature": "' + signature.strip() + b'",\n' + content[1:]


def unsealed(content: bytes) -> tuple[bytes, bytes | None]:
    """What was signed, and its signature; None where the signature is in a file beside it."""
    seal = _SEAL.match(content)
    return (content, None) if seal is None else (b"{" + content[seal.end() :], seal[1])


def read_public(path: Path) -> PublicKey:
    """Raises ``ConfigError``."""
    try:
        key = load_pem_public_key(_content(path))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: is not a public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{path}: is not an ed25519 key; openssl pkey -in KEY -pubout makes it of the private one")
    return PublicKey(key, path)


def read_private(path: Path) -> PrivateKey:
    """Raises ``ConfigError``, also for a key that every user may read."""
    content = _content(path)
    if stat.S_IMODE(os.stat(path).st_mode) & 0o007:  # noqa: PTH116
        raise ConfigError(f"{path}: every user may read or change it; run chmod 640 {path}")
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError as error:
        raise ConfigError(f"{path}: needs a passphrase; use a key without one") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: is not a private key in PEM") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path}: is not an ed25519 key; openssl genpkey -algorithm ed25519 makes one")
    return PrivateKey(key, path)


def _content(path: Path) -> bytes:
    try:
        return files.read_whole(path, _LONGEST_KEY, follow=True)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
