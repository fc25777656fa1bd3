"""Signatures over files: ed25519, keys in PEM, a signature as base64 in what it is for, or beside it."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from plimsoll_agent import files
from plimsoll_agent.errors import ConfigError, PlimsollError

_LONGEST_KEY = 2**16
_SEAL = re.compile(rb'\{"signature": "([A-Za-z0-9+/=]*)",\n')


class BadSignature(PlimsollError):
    """What was signed, or with which key, is something else."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """Whom a node trusts."""

    key: Ed25519PublicKey
    path: Path

    def verify(self, content: bytes, signature: bytes, where: str) -> None:
        """Raises ``BadSignature``."""
        try:
            raw = base64.b64decode(signature.strip(), validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadSignature(f"{where}.sig: is no signature") from error
        try:
            self.key.verify(raw, content)
        except InvalidSignature as error:
            raise BadSignature(
                f"{where}: the signature is not that of {self.path}: the file was changed, or signed with another key"
            ) from error


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """With what the region's machine signs."""

    key: Ed25519PrivateKey
    path: Path

    def sign(self, content: bytes) -> bytes:
        """A line of text."""
        return base64.b64encode(self.key.sign(content)) + b"\n"

    def seal(self, content: bytes) -> bytes:
        """A JSON object with its signature as the first entry, on a line of its own: file and signature are one, so
        that no crash comes between them. ``content`` begins with the brace of an object that is not empty.
        """
        return b'{"signature": "' + self.sign(content).strip() + b'",\n' + content[1:]

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.key.public_key(), self.path)


def unsealed(content: bytes) -> tuple[bytes, bytes | None]:
    """What was signed, and the signature; None where the content is not sealed: it stands beside it."""
    seal = _SEAL.match(content)
    return (content, None) if seal is None else (b"{" + content[seal.end() :], seal[1])


def read_public(path: Path) -> PublicKey:
    """Raises ``ConfigError``."""
    try:
        key = load_pem_public_key(_content(path))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: is no public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{path}: is no ed25519 key; openssl pkey -in KEY -pubout makes it of the private one")
    return PublicKey(key, path)


def read_private(path: Path) -> PrivateKey:
    """Raises ``ConfigError``, also for a key that others than its owner and group may read."""
    content = _content(path)
    if stat.S_IMODE(os.stat(path).st_mode) & 0o007:  # noqa: PTH116  # no Path has told us more
        raise ConfigError(f"{path}: others than its owner and group may read or change it; chmod 640 {path}")
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError as error:
        raise ConfigError(f"{path}: needs a passphrase, which nobody is there to give") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: is no private key in PEM") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path}: is no ed25519 key; openssl genpkey -algorithm ed25519 makes one")
    return PrivateKey(key, path)


def _content(path: Path) -> bytes:
    try:
        return files.read_whole(path, _LONGEST_KEY, follow=True)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
