"""A Keystone, Cinder and Nova of a few lines, for what real ones do not do when asked: to fail in a given way."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

PASSWORD = "s3cret-in-the-file"
TOKEN = "gAAAA-token"

Fault = Callable[["Handler"], None]


class Answering(BaseHTTPRequestHandler):
    """How the servers of these tests answer."""

    def say(
        self,
        status: int,
        content: bytes,
        headers: dict[str, str] | None = None,
        *,
        kind: str = "application/json",
        length: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)


class Handler(Answering):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815  # http.server's names

    def _answer(self) -> None:
        cloud = self.server.cloud
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        url = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(url.query).items()}
        cloud.asked.append(f"{self.command} {self.path}")
        for path, faults in cloud.faults.items():
            if url.path.startswith(path) and faults:
                fault = faults[0] if faults[-1] is ... else faults.pop(0)
                if fault is not None:
                    fault(self)
                    return
        if url.path.startswith("/identity"):
            self._identity(cloud, url.path)
        elif self.headers.get("X-Auth-Token") not in cloud.tokens:
            self.say(401, b"Unauthorized", kind="text/plain")
        else:
            self._service(cloud, url.path)

    def _identity(self, cloud: Cloud, path: str) -> None:
        if not path.endswith("/auth/tokens"):
            links = [{"rel": "self", "href": f"{cloud.url}/identity/v3/"}]
            self.say_json(200, {"version": {"id": "v3.14", "status": "stable", "links": links}})
        elif PASSWORD.encode() not in self.body:
            self.say_json(401, {"error": {"message": "The request you have made requires authentication."}})
        else:
            cloud.logins += 1
            token = f"{TOKEN}-{cloud.logins}"
            cloud.tokens = {token}
            self.say_json(201, {"token": cloud.token()}, {"X-Subject-Token": token})

    def _service(self, cloud: Cloud, path: str) -> None:
        match path.removeprefix("/volume/v3").removeprefix("/compute/v2.1").split("/")[1:]:
            case ["qos-specs"]:
                self.say_json(200, {"qos_specs": cloud.specs})
            case ["types"]:
                self.say_json(200, {"volume_types": cloud.types})
            case ["volumes", "detail"]:
                self.say_json(200, cloud.page("volumes", cloud.volumes, self.query, f"{cloud.url}/volume/v3"))
            case ["servers", "detail"]:
                self.say_json(200, cloud.page("servers", cloud.servers, self.query, f"{cloud.url}/compute/v2.1"))
            case ["volumes", volume]:
                found = [one for one in cloud.volumes if one["id"] == volume]
                if found:
                    self.say_json(200, {"volume": found[0]})
                else:
                    self.say_json(404, {"itemNotFound": {"message": f"Volume {volume} could not be found."}})
            case _:
                self.say_json(404, {"itemNotFound": {"message": "no such thing"}})

    def say_json(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
        self.say(status, json.dumps(value).encode(), headers)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    cloud: Cloud

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave are what is tested."""


@dataclass
class Cloud:
    """What the services know, and how they fail: per start of a path a list of faults, None for a good answer;
    with ``...`` after it the first goes on for ever."""

    url: str = ""
    specs: list[dict[str, Any]] = field(default_factory=list)
    types: list[dict[str, Any]] = field(default_factory=list)
    volumes: list[dict[str, Any]] = field(default_factory=list)
    servers: list[dict[str, Any]] = field(default_factory=list)
    most: int = 1000
    faults: dict[str, list[Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    logins: int = 0

    def token(self) -> dict[str, Any]:
        services = (("identity", "/identity"), ("volumev3", "/volume/v3"), ("compute", "/compute/v2.1"))
        return {
            "methods": ["password"],
            "user": {"id": "u1", "name": "reader", "domain": {"id": "default", "name": "Default"}},
            "project": {"id": "p1", "name": "service", "domain": {"id": "default", "name": "Default"}},
            "roles": [{"id": "r1", "name": "admin"}],
            "issued_at": "2026-11-21T10:00:00.000000Z",
            "expires_at": "2036-11-21T10:00:00.000000Z",
            "catalog": [
                {
                    "id": kind,
                    "type": kind,
                    "name": kind,
                    "endpoints": [
                        {
                            "id": f"{kind}-1",
                            "interface": "public",
                            "region": "R",
                            "region_id": "R",
                            "url": self.url + path,
                        }
                    ],
                }
                for kind, path in services
            ],
        }

    def page(self, key: str, entries: list[dict[str, Any]], query: dict[str, str], base: str) -> dict[str, Any]:
        """As Cinder pages (cinder/api/common.py); the id filter takes a Python list of an admin.

        Without ``all_tenants`` also an admin gets what is of the token's project; here all is of tenants.
        """
        if query.get("all_tenants") != "1":
            entries = []
        if "id" in query:
            desired = query["id"]
            entries = [one for one in entries if f"'{one['id']}'" in desired or one["id"] == desired]
        ids = [one["id"] for one in entries]
        start = ids.index(query["marker"]) + 1 if "marker" in query else 0
        limit = min(int(query.get("limit", self.most)), self.most)
        page = entries[start : start + limit]
        answer: dict[str, Any] = {key: page}
        if len(page) == limit:
            answer[f"{key}_links"] = [{"rel": "next", "href": f"{base}/{key}/detail?marker={page[-1]['id']}"}]
        return answer

    def services_asked(self) -> list[str]:
        """Calls but for authentication and discovery."""
        return [line for line in self.asked if " /identity" not in line]


@contextmanager
def cloud_server() -> Iterator[Cloud]:
    server = Server(("127.0.0.1", 0), Handler)
    server.cloud = Cloud(url=f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.cloud
    finally:
        server.shutdown()
        server.server_close()


def credentials(directory: Path, auth_url: str, password: str = PASSWORD) -> Path:
    """A file of credentials for it."""
    path = directory / "openstack.conf"
    path.write_text(
        f"[openstack]\nauth_type = password\nauth_url = {auth_url}\nusername = reader\npassword = {password}\n"
        "user_domain_id = default\nproject_name = service\nproject_domain_id = default\nregion_name = R\n"
    )
    path.chmod(0o600)
    return path


# --- ways to fail ---------------------------------------------------------------------------------------


def status(code: int, value: object = None, headers: dict[str, str] | None = None) -> Fault:
    return lambda handler: handler.say_json(code, value or {"error": {"message": "in trouble"}}, headers)


def html(handler: Handler) -> None:
    handler.say(200, b"<html><body>It works!</body></html>", kind="text/html")


def half(handler: Handler) -> None:
    """Half a page of JSON, as a proxy leaves it whose backend died: its length is right."""
    handler.say(200, b'{"qos_specs": [{"id": "s1", "na')


def cut(handler: Handler) -> None:
    """A body that ends before its length."""
    handler.say(200, b'{"qos_specs": [', length=500)
    handler.close_connection = True


def hang(handler: Handler) -> None:
    time.sleep(20)


def trickle(handler: Handler) -> None:
    """A byte now and then, each in time for a client that only waits for the next one."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    for _ in range(200):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.1)


def huge(handler: Handler) -> None:
    """Without a length, for as long as somebody reads."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.close_connection = True
    try:
        for _ in range(4096):
            handler.wfile.write(b" " * 65536)
    except OSError:
        return


def redirect(where: str) -> Fault:
    return lambda handler: handler.say(302, b"", {"Location": where})
