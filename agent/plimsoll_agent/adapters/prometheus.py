"""The site's Prometheus: instant queries over its HTTP API, all of them within one deadline, of bounded length."""

from __future__ import annotations

import ipaddress
import json
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import requests
import urllib3

from plimsoll_agent import files
from plimsoll_agent.adapters.deadline import Deadlines
from plimsoll_agent.adapters.network import chained, plain_url, why
from plimsoll_agent.errors import ConfigError, PlimsollError, Rejected, Unanswered, Unreachable
from plimsoll_agent.promql import Series
from plimsoll_agent.report import printable

_MOST_BYTES = 64 * 2**20
_MOST_TOKEN = 2**16
_CHUNK = 65536
_WORDS = 200
_ELSEWHERE = "; look there, or name another: [prometheus] url, or --prometheus URL"


class Prometheus:
    """Answers queries within ``deadline`` seconds, all of them together and as of one moment of its own clock.

    The token goes over TLS, or to this very host, and nowhere else. Raises ``ConfigError`` for an address, a token
    or a CA file that cannot be used.
    """

    def __init__(self, url: str, *, token_file: Path | None, ca_file: Path | None, deadline: float) -> None:
        parts = _address(url)
        self._url = url.rstrip("/") + "/api/v1/query"
        self._name = printable(plain_url(url))
        self._deadline = deadline
        self._end = time.monotonic() + deadline
        self._guard = Deadlines(deadline, at_once=1)
        self._credentials = None if token_file is None else _credentials(token_file)
        self._session = requests.Session()
        self._session.headers["User-Agent"] = "plimsoll"
        # With each request: what the session has yields to REQUESTS_CA_BUNDLE.
        self._verify: bool | str = True if ca_file is None else _checked(ca_file)
        if _here(parts):
            self._session.trust_env = False  # a proxy of the environment is not this host
        elif self._credentials and parts.scheme != "https":
            raise ConfigError(
                f"{self._name}: is no https address, and the token of [prometheus] token_file goes over https only;"
                " correct [prometheus] url, or leave token_file empty"
            )
        self._at: float | None = None
        self.warnings: tuple[str, ...] = ()
        """What it said of answers that are not whole, safe to show."""

    def now(self) -> float:
        """What its clock says (seconds since 1970). From then on queries are answered as of that moment.

        Raises as ``query`` does.
        """
        if self._at is None:
            told = self._asked("time()")
            try:
                self._at = _number(told["result"][1])
            except (ValueError, TypeError, LookupError) as error:
                raise self._garbled() from error
        return self._at

    def query(self, promql: str) -> Sequence[Series]:
        """The series of an instant vector. Raises ``Unreachable``, ``Unanswered``, ``Rejected``."""
        told = self._asked(promql, time=f"{self.now():.3f}")
        try:
            return [_series(row) for row in told["result"]]
        except (ValueError, TypeError, LookupError) as error:
            raise self._garbled() from error

    def _asked(self, promql: str, **more: str) -> dict[str, Any]:
        """The ``data`` of a good answer."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._late()
        self._guard.seconds = left
        form = {"query": promql, "timeout": f"{left:.3f}", **more}
        try:
            # In a thread that can be left: a server that sends a byte a second holds requests for ever.
            status, content = self._guard.call("Prometheus", lambda: self._posted(form, left))
        except Unanswered as error:
            raise self._late() from error
        except PlimsollError:
            raise
        except requests.TooManyRedirects as error:
            raise Rejected(f"{self._name}: sends us around in circles{_ELSEWHERE}") from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            if isinstance(error, requests.Timeout):
                raise self._late() from error
            raise Unreachable(f"{self._name}: {why(chained(error), self._deadline)}{_ELSEWHERE}") from error
        return self._data(status, content)

    def _posted(self, form: dict[str, str], seconds: float) -> tuple[int, bytes]:
        with self._session.post(
            self._url,
            data=form,
            auth=self._authorized,
            timeout=seconds,
            stream=True,
            verify=self._verify,
            allow_redirects=False,  # the token would go along
        ) as answer:
            content = bytearray()
            for chunk in answer.iter_content(_CHUNK):
                content += chunk
                if len(content) > _MOST_BYTES:
                    raise Rejected(f"{self._name}: its answer is longer than {_MOST_BYTES} bytes; ask for less")
            return answer.status_code, bytes(content)

    def _authorized(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        # There without a token too: else requests takes a password for the host from ~/.netrc.
        if self._credentials:
            request.headers["Authorization"] = self._credentials
        return request

    def _data(self, status: int, content: bytes) -> dict[str, Any]:
        try:
            told = json.loads(content)
        except (ValueError, RecursionError):
            told = None
        if status != 200:
            raise self._refused(status, told)
        match told:
            case {"status": "success", "data": {"resultType": str()} as data}:
                self._warned(told.get("warnings"))
                return dict(data)
            case _:
                raise self._garbled()

    def _warned(self, warnings: object) -> None:
        if isinstance(warnings, list):
            words = [f"{self._name}: the answer is not whole{_detail(one)}" for one in warnings]
            self.warnings = tuple(dict.fromkeys([*self.warnings, *words]))

    def _refused(self, status: int, told: object) -> PlimsollError:
        """An error of Prometheus, or of what stands before it."""
        kind, detail = None, ""
        if isinstance(told, dict):
            kind, detail = told.get("errorType"), _detail(told.get("error"))
        if 300 <= status < 400:
            return Rejected(f"{self._name}: sends us elsewhere ({status}), where no token is carried{_ELSEWHERE}")
        if status in (401, 403):
            token = "the token of [prometheus] token_file" if self._credentials else "us without a token"
            return Rejected(f"{self._name}: does not let in {token} ({status}); correct [prometheus] token_file")
        if status == 404:
            return Rejected(f"{self._name}: has no /api/v1/query (404), so it is no Prometheus{_ELSEWHERE}")
        if kind in ("timeout", "canceled"):
            return self._late()
        if status == 422:
            return Rejected(f"{self._name}: cannot answer (422){detail}")
        if status == 429 or status >= 500:
            return Unreachable(f"{self._name}: is in trouble ({status}){detail}; try again later")
        return Rejected(f"{self._name}: says no ({status}){detail}")

    def _late(self) -> Unanswered:
        return Unanswered(
            f"{self._name}: no answer within {self._deadline:g} s; ask for less (--region, --node), or raise"
            " [prometheus] deadline"
        )

    def _garbled(self) -> Rejected:
        return Rejected(f"{self._name}: what it answers is not what a Prometheus answers{_ELSEWHERE}")


def _address(url: str) -> SplitResult:
    """Raises ``ConfigError`` for what is no address of a Prometheus."""
    name = printable(plain_url(url))
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"{name}: is no address of a Prometheus; write it like http://prometheus.example:9090")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            f"{name}: an address has no password, query or fragment here; what is secret goes into the file"
            " [prometheus] token_file"
        )
    return parts


def _here(parts: SplitResult) -> bool:
    """Whether what is sent there stays on this host."""
    host = (parts.hostname or "").lower()
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _credentials(file: Path) -> str:
    """The value of ``Authorization``: that of the file if it has two words (``Basic …``), else its one is a token.

    Raises ``ConfigError``, which does not have them.
    """
    where = f"[prometheus] token_file {file}"
    try:
        words = files.read_whole(file, _MOST_TOKEN, follow=True).decode("ascii").split()
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        words = []
    if len(words) not in (1, 2) or not all(word.isprintable() for word in words):
        raise ConfigError(f"{where}: has no token in it: one word is expected, or two such as Basic and its value")
    return " ".join(words if len(words) == 2 else ["Bearer", *words])


def _checked(file: Path) -> str:
    where = f"[prometheus] ca_file {file}"
    try:
        ssl.create_default_context(cafile=file)
    except ssl.SSLError as error:
        raise ConfigError(f"{where}: has no certificate in PEM that can be read") from error
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror or error}") from error
    return str(file)


def _series(row: Any) -> Series:
    """Raises ``ValueError``, ``TypeError`` or ``LookupError`` for what is none."""
    labels, (_, value) = row["metric"], row["value"]
    if not isinstance(labels, dict) or not all(isinstance(one, str) for one in labels.values()):
        raise ValueError("no labels")
    return Series(labels, _number(value))


def _number(value: object) -> float:
    """Prometheus sends numbers as text, ``NaN`` and ``+Inf`` among them. Raises ``ValueError``."""
    if not isinstance(value, str):
        raise ValueError("no text")
    return float(value)


def _detail(words: object) -> str:
    text = " ".join(words.split()) if isinstance(words, str) else ""
    return f": {printable(text[:_WORDS])}" if text else ""
