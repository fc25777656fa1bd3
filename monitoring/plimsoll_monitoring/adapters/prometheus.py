"""Queries to the site's Prometheus, all within one deadline, with answers of bounded length."""

from __future__ import annotations

import ipaddress
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec
import requests

from plimsoll_agent.adapters.http import Answer as HttpAnswer
from plimsoll_agent.adapters.http import Http
from plimsoll_agent.adapters.network import plain_url
from plimsoll_agent.errors import ConfigError, PlimsollError, Rejected, Unreachable
from plimsoll_agent.monitor.site_labels import SiteLabels
from plimsoll_agent.util import files
from plimsoll_agent.util.text import printable
from plimsoll_monitoring.region.answers import Series, TimeSeries

_MOST_BYTES = 64 * 2**20
_MOST_TOKEN = 2**16
_MOST_TEXT = 1000
_WORDS = 200
_NO_TENANT = "no org id"
_ELSEWHERE = "; check it, or name another: in [prometheus] url, or by an option of this command"
_LATE = "; ask for less (--region, --node), or raise [prometheus] deadline"

Column = TypeVar("Column")


class _Row(msgspec.Struct):
    metric: dict[str, str]
    values: msgspec.Raw


class _Rows(msgspec.Struct):
    result: list[_Row]


class _Matrix(msgspec.Struct):
    status: str
    data: _Rows | None = None
    warnings: object = None
    partial: object = msgspec.field(default=None, name="isPartial")


class Prometheus:
    """All queries together take at most ``deadline`` seconds, and are as of one time of Prometheus' clock.

    Queries and answers are in plimsoll's names of labels; ``labels`` are the site's.

    The token is sent only over TLS or to this host. Raises ``ConfigError`` for an address, a token or a CA file that
    cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        token_file: Path | None,
        ca_file: Path | None,
        deadline: float,
        labels: SiteLabels = SiteLabels(),  # noqa: B008  # a value that does not change
    ) -> None:
        parts = _address(url)
        self._labels = labels
        self._url = url.rstrip("/") + "/api/v1/query"
        self._name = printable(plain_url(url))
        self._http = Http(deadline, late=_LATE, unreachable=_ELSEWHERE)
        self._credentials = None if token_file is None else _credentials(token_file)
        # Sent with each request: REQUESTS_CA_BUNDLE overrides the session's.
        self._verify: bool | str = True if ca_file is None else _check(ca_file)
        if _here(parts):
            self._http.session.trust_env = False  # no proxy: it would be another host
        elif self._credentials and parts.scheme != "https":
            raise ConfigError(
                f"{self._name}: not an https address, and the token of [prometheus] token_file is sent over https"
                " only; correct [prometheus] url, or leave token_file empty"
            )
        self._at: float | None = None
        self.warnings: tuple[str, ...] = ()
        """Its warnings about incomplete answers, safe to show."""

    def now(self) -> float:
        """The time by its clock (seconds since 1970), which all later queries are as of. Raises as ``query``."""
        if self._at is None:
            data = self._ask("time()")
            try:
                # VictoriaMetrics answers with a vector where Prometheus has a scalar.
                sample = data["result"] if data["resultType"] == "scalar" else data["result"][0]["value"]
                at = _number(sample[1])
                datetime.fromtimestamp(at, UTC)  # raises for what is no time
            except (ValueError, TypeError, LookupError, OverflowError, OSError) as error:
                raise self._bad_answer() from error
            self._at = at
        return self._at

    def as_of(self, at: float) -> None:
        """Have all later queries be as of this time (seconds since 1970)."""
        self._at = at

    def query(self, promql: str) -> Sequence[Series]:
        """The series of an instant vector. Raises ``Unreachable``, ``DeadlineExceeded``, ``Rejected``."""
        data = self._ask(promql, time=f"{self.now():.3f}")
        try:
            return [self._series(row) for row in data["result"]]
        except (ValueError, TypeError, LookupError) as error:
            raise self._bad_answer() from error

    def over(self, promql: str, window: int, step: int) -> Sequence[TimeSeries]:
        """The values of the last ``window`` seconds: one every ``step`` seconds, back from the present second. Raises
        as ``query``.
        """
        end = int(self.now())
        start = end - (window // step - 1) * step
        data = self._ask(promql, "_range", **_grid(start, end, step))
        try:
            return [self._line(row) for row in data["result"]]
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            raise self._bad_answer() from error

    def columns(
        self, promql: str, first: int, last: int, step: int, parse: Callable[[bytes], Column]
    ) -> list[tuple[Mapping[str, str], Column]]:
        """As ``over``, for many values: ``parse`` reads those of a series from JSON, or raises ``ValueError``. Raises
        as ``query``.
        """
        answer = self._post(promql, "_range", **_grid(first, last, step))
        if answer.status != 200:
            self._data(answer.status, answer.content or b"")  # raises
        try:
            matrix = msgspec.json.decode(answer.content or b"", type=_Matrix)
            if matrix.status != "success" or matrix.data is None:
                raise ValueError("no data")
            rows = [(self._labels.from_site(row.metric), parse(bytes(row.values))) for row in matrix.data.result]
        except (ValueError, msgspec.MsgspecError) as error:
            raise self._bad_answer() from error
        self._warn(matrix.warnings, matrix.partial)
        return rows

    def renew(self) -> None:
        """Have the deadline begin now: for a command whose queries may take long together."""
        self._http.renew()

    def _ask(self, promql: str, of: str = "", **more: str) -> dict[str, Any]:
        """The ``data`` of a good answer."""
        answer = self._post(promql, of, **more)
        return self._data(answer.status, answer.content or b"")

    def _post(self, promql: str, of: str, **more: str) -> HttpAnswer:
        form = {"query": self._labels.to_site(promql), "timeout": f"{self._http.left:.3f}", **more}
        answer = self._http.ask(
            self._name, "POST", self._url + of, _MOST_BYTES, data=form, auth=self._authorize, verify=self._verify
        )
        if answer.content is None:
            raise Rejected(f"{self._name}: its answer is longer than {_MOST_BYTES} bytes; ask for less")
        return answer

    def _series(self, row: Any) -> Series:
        """Raises ``ValueError``, ``TypeError`` or ``LookupError``."""
        _, value = row["value"]
        return Series(self._labels_of(row), _number(value))

    def _line(self, row: Any) -> TimeSeries:
        """Raises ``ValueError``, ``TypeError``, ``LookupError`` or ``OverflowError``."""
        return TimeSeries(self._labels_of(row), {float(at): _number(value) for at, value in row["values"]})

    def _labels_of(self, row: Any) -> Mapping[str, str]:
        labels = row["metric"]
        if not isinstance(labels, dict) or not all(isinstance(one, str) for one in labels.values()):
            raise ValueError("no labels")
        return self._labels.from_site(labels)

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        # There without a token too: else requests takes a password for the host from ~/.netrc.
        if self._credentials:
            request.headers["Authorization"] = self._credentials
        return request

    def _data(self, status: int, content: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        if status != 200:
            raise self._refusal(status, content if answer is None else answer)
        match answer:
            case {"status": "success", "data": {"resultType": str()} as data}:
                self._warn(answer.get("warnings"), answer.get("isPartial"))
                return dict(data)
            case _:
                raise self._bad_answer()

    def _warn(self, warnings: object, partial: object) -> None:
        """``partial`` is what VictoriaMetrics has in the place of warnings."""
        # Before 2.54, and in Thanos, notes on a query that is well answered are among them (prometheus PR 14327).
        its = warnings if isinstance(warnings, list) else []
        causes = [one for one in its if not str(one).startswith("PromQL info")]
        if partial is True:
            causes.append("a storage node did not answer")
        words = [f"{self._name}: the answer is incomplete{_detail(one)}" for one in causes]
        self.warnings = tuple(dict.fromkeys([*self.warnings, *words]))

    def _refusal(self, status: int, answer: object) -> PlimsollError:
        """An error of Prometheus, or of a proxy before it, which may answer with bytes that are no JSON."""
        kind, detail = None, ""
        if isinstance(answer, dict):
            kind, detail = answer.get("errorType"), _detail(answer.get("error"))
        elif isinstance(answer, bytes) and not answer.lstrip().startswith(b"<"):
            detail = _detail(answer[:_MOST_TEXT].decode(errors="replace"))
        if 300 <= status < 400:
            return Rejected(f"{self._name}: redirects ({status}), and a token is not sent there{_ELSEWHERE}")
        if status == 401 and _NO_TENANT in detail:  # Mimir and Cortex, also where they require no token
            return Rejected(
                f"{self._name}: requires a tenant (401){detail}; give the address of a gateway that adds the"
                " header X-Scope-OrgID, in [prometheus] url or by an option of this command"
            )
        if status in (401, 403):
            what = "refuses the token" if self._credentials else "requires a token"
            return Rejected(f"{self._name}: {what} ({status}){detail}; correct [prometheus] token_file")
        if status == 404:
            return Rejected(f"{self._name}: has no /api/v1/query (404), so it is not Prometheus{_ELSEWHERE}")
        if kind in ("timeout", "canceled"):
            return self._http.late(self._name)
        if status == 422:
            return Rejected(f"{self._name}: cannot answer (422){detail}")
        if status == 429 or status >= 500:
            kind = "too many requests" if status == 429 else "server error"
            return Unreachable(f"{self._name}: {kind} ({status}){detail}; try again later")
        return Rejected(f"{self._name}: request refused ({status}){detail}")

    def _bad_answer(self) -> Rejected:
        return Rejected(f"{self._name}: the answer is not Prometheus'{_ELSEWHERE}")


def _grid(first: int, last: int, step: int) -> dict[str, str]:
    # Without "nocache" VictoriaMetrics answers for multiples of the step, from 50 of them on.
    return {"start": str(first), "end": str(last), "step": str(step), "nocache": "1"}


def _address(url: str) -> SplitResult:
    """Raises ``ConfigError`` for an address that cannot be Prometheus'."""
    name = printable(plain_url(url))
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"{name}: not an address of Prometheus; write it like http://prometheus.example:9090")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            f"{name}: the address must not have a password, query or fragment; write secrets into the file"
            " [prometheus] token_file"
        )
    return parts


def _here(parts: SplitResult) -> bool:
    """Whether the address is this host."""
    host = (parts.hostname or "").lower()
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _credentials(file: Path) -> str:
    """The value of ``Authorization`` from a file with two words (``Basic …``), or with one, the token.

    Raises ``ConfigError``, which does not repeat them.
    """
    where = f"[prometheus] token_file {file}"
    try:
        words = files.read_whole(file, _MOST_TOKEN, follow=True).decode("ascii").split()
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        words = []
    if len(words) not in (1, 2) or not all(word.isprintable() for word in words):
        raise ConfigError(f"{where}: has no token: write one word, or two such as Basic and its value")
    return " ".join(words if len(words) == 2 else ["Bearer", *words])


def _check(file: Path) -> str:
    where = f"[prometheus] ca_file {file}"
    try:
        ssl.create_default_context(cafile=file)
    except ssl.SSLError as error:
        raise ConfigError(f"{where}: has no readable certificate in PEM") from error
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror or error}") from error
    return str(file)


def _number(value: object) -> float:
    """Prometheus sends numbers as text, ``NaN`` and ``+Inf`` among them. Raises ``ValueError``."""
    if not isinstance(value, str):
        raise ValueError("no text")
    return float(value)


def _detail(words: object) -> str:
    text = " ".join(words.split()) if isinstance(words, str) else ""
    return f": {printable(text[:_WORDS])}" if text else ""
