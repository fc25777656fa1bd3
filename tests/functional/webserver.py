"""A web server over TLS with a certificate of its own making, which fails in given ways."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from tests.functional.cloudserver import Answering, Server


def key_pair(directory: Path, name: str = "region") -> tuple[Path, Path]:
    """A private and a public ed25519 key in PEM, as openssl makes them."""
    private = ed25519.Ed25519PrivateKey.generate()
    secret, public = directory / f"{name}.key", directory / f"{name}.pub"
    secret.touch(0o600)
    secret.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    public.write_bytes(
        private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return secret, public


def certificate(directory: Path) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = directory / "web.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return path


@dataclass
class Web:
    """What it serves: the files of a directory; and how it fails, as ``cloudserver.Cloud`` does."""

    url: str
    files: Path
    ca: Path
    faults: dict[str, list[Any]] = field(default_factory=dict)
    answered: list[tuple[str, int]] = field(default_factory=list)


class Handler(Answering):
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""

    def do_GET(self) -> None:  # noqa: N802  # as http.server calls it
        web: Web = self.server.cloud  # type: ignore[assignment]  # the same server, with something else to serve
        faults = web.faults.get(self.path, [])
        if faults:
            fault = faults[0] if faults[-1] is ... else faults.pop(0)
            if fault is not None:
                web.answered.append((self.path, 0))
                fault(self)
                return
        path = web.files / self.path.lstrip("/")
        content = path.read_bytes() if path.is_file() else None
        etag = None if content is None else f'"{hashlib.md5(content).hexdigest()}"'
        status = 404 if content is None else 304 if self.headers.get("If-None-Match") == etag else 200
        web.answered.append((self.path, status))
        self.say(status, content if status == 200 and content else b"", {"ETag": etag} if etag else {})


@contextmanager
def web_server(directory: Path) -> Iterator[Web]:
    files = directory / "www"
    files.mkdir()
    ca = certificate(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca)
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    web = Web(f"https://127.0.0.1:{server.server_address[1]}", files, ca)
    server.cloud = web  # type: ignore[assignment]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
