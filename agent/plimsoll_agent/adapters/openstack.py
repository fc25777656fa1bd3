"""OpenStack's APIs as one user: JSON in and out, a deadline on each call, errors of one line without a secret.

It imports keystoneauth1, and openstacksdk for ``storage`` alone, so no module of a pass may import it.
"""

from __future__ import annotations

import email.utils
import json
import random
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import requests
import urllib3
from keystoneauth1 import exceptions, session

from plimsoll_agent.adapters import credentials
from plimsoll_agent.adapters.credentials import Login
from plimsoll_agent.adapters.deadline import Deadlines
from plimsoll_agent.adapters.http import Session, bounded
from plimsoll_agent.adapters.listing import PagedList
from plimsoll_agent.adapters.network import chained, plain_url, why
from plimsoll_agent.catalogue.api import BLOCK_STORAGE, COMPUTE, Refused
from plimsoll_agent.errors import ConfigError, DeadlineExceeded, PlimsollError, Rejected, Unreachable
from plimsoll_agent.util.distribution import needs
from plimsoll_agent.util.text import printable

_NAMES = {BLOCK_STORAGE: "Cinder", COMPUTE: "Nova"}
_VERSIONS = {BLOCK_STORAGE: ((3,), (3, "latest")), COMPUTE: ((2, 1), (2, "latest"))}
_PASSING = frozenset({429, 502, 503, 504})
_UNPROCESSED = frozenset({429, 503})
_ATTEMPTS = 4
_FIRST_PAUSE = 0.5
# A page of 1000 volumes is some 2 MiB, a page of servers some 5.
_LONGEST_ANSWER = 64 * 2**20
_NETWORK = (
    exceptions.ConnectionError,
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    urllib3.exceptions.HTTPError,
)
_POLICY = re.compile(r"Policy doesn't allow (\S+) to be performed")


class _TooLong(Exception):
    """An answer is longer than ``_LONGEST_ANSWER``."""


class _Http(Session):
    """Reads answers of bounded length, keeps the last address, and counts the calls to a service."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = ""
        self.status: int | None = None
        """Of the last answer; None until there is one."""
        self.counted: tuple[str, str] | None = None
        """The address to count, and under which name; all others are authentication and discovery."""
        self.calls: Counter[str] = Counter()

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        self.asked, self.status = request.url or "", None
        if self.counted is not None and self.asked.partition("?")[0] == self.counted[0]:
            self.calls[self.counted[1]] += 1
        answer = super().send(request, **(kwargs | {"stream": True, "allow_redirects": False}))
        self.status = answer.status_code
        content = bounded(answer, _LONGEST_ANSWER)
        if content is None:
            raise _TooLong
        answer._content = content
        answer._content_consumed = True  # type: ignore[attr-defined]  # what requests sets itself without stream
        return answer


class OpenStack:
    def __init__(self, login: Login, *, deadline: float, total: float | None, attempts: int = _ATTEMPTS) -> None:
        self.name = login.name
        self._login = login
        self._deadline = deadline
        self._end = None if total is None else time.monotonic() + total
        self._attempts = attempts
        self._http = _Http()
        self._session = session.Session(
            auth=login.auth,
            session=self._http,
            verify=login.verify,
            cert=login.cert,
            redirect=False,
            app_name="plimsoll",
        )
        self._guard = Deadlines(deadline, at_once=1)
        self._endpoints: dict[str, str] = {}

    @property
    def calls(self) -> Counter[str]:
        """How often each kind of resource (``types``, ``volumes`` …) was requested, every attempt counted.

        Authentication and discovery are left out.
        """
        return self._http.calls

    def get(
        self, service: str, path: str, params: Mapping[str, str] | None = None, *, microversion: str | None = None
    ) -> Any:
        """As ``call``."""
        return self.call("GET", service, path, params, microversion=microversion)

    def pages(
        self,
        service: str,
        path: str,
        key: str,
        params: Mapping[str, str] | None = None,
        *,
        microversion: str | None = None,
    ) -> Iterator[list[Any]]:
        """The entries below ``key``, page after page; an entry may come twice. Raises as ``get``."""
        listing = PagedList(
            f"{_NAMES[service]}: {path}",
            key,
            lambda more: self.get(service, path, {**(params or {}), **more}, microversion=microversion),
        )
        while listing.more:
            yield listing.page()

    @cached_property
    def storage(self) -> Any:
        """Cinder by openstacksdk's proxy, whose methods raise as ``get``. Raises ``ConfigError``."""
        try:
            from plimsoll_agent.adapters.block_storage import storage
        except ImportError as error:
            raise ConfigError(
                f"openstacksdk cannot be used ({error}); plimsoll qos needs 4.17 or later: {needs('openstack')}"
            ) from error
        return storage(self)

    # --- one call ---------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        service: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: object = None,
        microversion: str | None = None,
    ) -> Any:
        """The parsed answer, None where it is empty.

        Raises ``Unreachable``, ``DeadlineExceeded``, ``Rejected`` (also ``Refused``).
        """
        for attempt in range(1, self._attempts + 1):
            pause = _FIRST_PAUSE * 2**attempt * random.uniform(0.5, 1)  # noqa: S311  # need not be unpredictable
            try:
                answer = self._guarded(
                    service, lambda: self._asked(method, service, path, params, body, microversion)
                )
            except _Passing as trouble:
                # A write whose answer was lost may have been done, so it is not repeated: the caller checks.
                if attempt == self._attempts or method != "GET" or not self._pauses(pause):
                    raise trouble.error from trouble.__cause__
                continue
            again = _PASSING if method == "GET" else _UNPROCESSED
            if answer.status_code not in again or attempt == self._attempts:
                break
            if not self._pauses(max(pause, _asked_to_wait(answer.headers.get("Retry-After", "")))):
                break
        return self._read(answer, method, service, path)

    def _guarded(self, service: str, call: Callable[[], requests.Response]) -> requests.Response:
        """Runs it in a thread that can be abandoned: requests waits for ever on a server that trickles bytes."""
        rest = self._left()
        if rest <= 0:
            raise DeadlineExceeded(f"{self._whom(service)}: not asked: the deadline for all calls has passed")
        seconds = min(self._deadline, rest)
        self._session.timeout = seconds
        self._guard.seconds = seconds + 0.5
        try:
            return self._guard.call(_NAMES[service], call)
        except DeadlineExceeded as error:
            raise DeadlineExceeded(f"{self._whom(service)}: no answer within {seconds:.3g} s") from error
        except PlimsollError:
            raise
        except _TooLong as error:
            raise Rejected(
                f"{self._whom(service)}: the answer is longer than {_LONGEST_ANSWER // 2**20} MiB"
            ) from error
        except exceptions.HttpError as error:
            refusal = self._translated(service, error)
            raise _Passing(refusal) if refusal.status in _PASSING else refusal from error
        except exceptions.EndpointNotFound as error:
            raise self._no_endpoint(service) from error
        except (
            *_NETWORK,
            requests.RequestException,
            exceptions.ClientException,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ) as error:
            chain = tuple(chained(error))
            if any(isinstance(one, _NETWORK) for one in chain):
                failure = Unreachable(f"{self._whom(service)}: {why(chain, seconds)}")
                raise failure if any(isinstance(one, ssl.SSLError) for one in chain) else _Passing(failure) from error
            if self._http.status is not None and self._http.status >= 400:  # discovery drops the status
                refusal = self._no(service, self._http.status)
                raise _Passing(refusal) if refusal.status in _PASSING else refusal from error
            raise Rejected(
                f"{self._whom(service)}: answer cannot be read ({type(error).__name__}); check the address"
            ) from error

    def _asked(
        self,
        method: str,
        service: str,
        path: str,
        params: Mapping[str, str] | None,
        body: object,
        microversion: str | None,
    ) -> requests.Response:
        self._http.counted = None
        url = self._endpoint(service) + path
        self._http.counted = (url, path.split("/")[1])
        return self._session.request(
            url,
            method,
            json=body,
            params=dict(params or {}),
            headers={"Accept": "application/json"},
            raise_exc=False,
            log=False,
            authenticated=True,
            microversion=microversion,
            microversion_service_type=service,
        )

    def _endpoint(self, service: str) -> str:
        if service not in self._endpoints:
            override, (least, most) = self._login.override(service), _VERSIONS[service]
            url = override or self._session.get_endpoint(
                service_type=service,
                interface=self._login.interface(service),
                region_name=self._login.region(service),
                min_version=least,
                max_version=most,
            )
            if not url:
                raise self._no_endpoint(service)
            self._endpoints[service] = str(url).rstrip("/")
        return self._endpoints[service]

    def _no_endpoint(self, service: str) -> Rejected:
        region = self._login.region(service)
        where = f" in region {region}" if region else ""
        return Rejected(
            f"Keystone at {self.name} has no {service} endpoint{where} of version"
            f" {'v3' if service == BLOCK_STORAGE else 'v2.1'}; check its service catalog, region_name and interface"
        )

    def _read(self, answer: requests.Response, method: str, service: str, path: str) -> Any:
        whom, status = self._whom(service), answer.status_code
        if status >= 300:
            raise _refused(whom, answer, method, service, path)
        if not answer.content:
            if method == "GET" and status != 202:  # some of Cinder's GETs change things, and answer 202
                raise Rejected(f"{whom}: the answer is empty")
            return None
        try:
            return json.loads(answer.content)
        except (ValueError, RecursionError) as error:
            raise Rejected(f"{whom}: the answer is not JSON{_glimpse(answer)}") from error

    def _translated(self, service: str, error: Any) -> Refused:
        status = int(error.http_status)
        whom = self._whom(service)
        if status == 401:
            return Refused(
                f"{whom}: credentials refused (401); check the user, its secret, and whether they have expired",
                status,
            )
        return self._no(service, status, _detail(error.message))

    def _no(self, service: str, status: int, detail: str = "") -> Refused:
        whom = self._whom(service)
        keystone = getattr(self._login.auth, "auth_url", None)
        if status == 404 and keystone and self._http.asked.startswith(keystone.rstrip("/")):
            return Refused(f"{whom}: not found (404): this is not Keystone's address; check auth_url", status)
        kind = "server error" if status >= 500 else "too many requests" if status == 429 else "request refused"
        return Refused(f"{whom}: {kind} ({status}){detail}", status)

    def _whom(self, service: str) -> str:
        """The service asked last, and its address without query, user and password."""
        address = plain_url(self._http.asked)
        if self._http.counted is not None or address.startswith(self._endpoints.get(service, "\0")):
            return f"{_NAMES[service]} ({address})"
        return f"Keystone ({address})" if address else _NAMES[service]

    def _left(self) -> float:
        return self._deadline if self._end is None else self._end - time.monotonic()

    def _pauses(self, seconds: float) -> bool:
        """Whether it paused and time is left. If not, the caller reports the error that made it pause."""
        if seconds >= self._left():
            return False
        time.sleep(seconds)
        return self._left() > 0  # a pause takes longer on a busy machine


class _Passing(Exception):
    """An error that may be over in a moment."""

    def __init__(self, error: PlimsollError) -> None:
        super().__init__(str(error))
        self.error = error


# --- errors as text -------------------------------------------------------------------------------------


def _refused(whom: str, answer: requests.Response, method: str, service: str, path: str) -> Refused:
    status, message = answer.status_code, _message(answer)
    if 300 <= status < 400:
        where = plain_url(answer.headers.get("Location", ""))
        return Refused(
            f"{whom}: redirects ({status}{f', {printable(where)}' if where else ''}), and a token is not sent there;"
            " correct the endpoint in Keystone's service catalog",
            status,
        )
    if status == 401:
        return Refused(
            f"{whom}: token refused (401); the access rules of an application credential must allow {method} {path}",
            status,
        )
    if status == 403:
        match = _POLICY.search(message)
        rule = match.group(1) if match else _rule(method, service, path)
        return Refused(
            f"{whom}: forbidden (403) by its policy {printable(rule)}; allow the user's role there", status
        )
    if status == 429:
        return Refused(f"{whom}: too many requests (429){_detail(message)}", status)
    if status in _PASSING or status >= 500:
        return Refused(f"{whom}: server error ({status}){_detail(message)}", status)
    return Refused(f"{whom}: request refused ({status}){_detail(message)}", status)


def _rule(method: str, service: str, path: str) -> str:
    """The policy rule behind an answer that does not name it (cinder/policies, nova/policies)."""
    resource = path.split("/")[1]
    if service == COMPUTE:
        return "os_compute_api:servers:detail:get_all_tenants"
    if method == "GET":
        # The database layer requires an admin once more (cinder/db/api.py, require_admin_context).
        return {
            "qos-specs": "context_is_admin (after volume_extension:qos_specs_manage:get_all)",
            "types": "volume_extension:type_get_all",
            "volumes": "volume:get_all" if path.startswith("/volumes/detail") else "volume:get",
        }.get(resource, f"for {method} {path}")
    return {"qos-specs": "volume_extension:qos_specs_manage:*", "types": "volume_extension:type_*"}.get(
        resource, f"for {method} {path}"
    )


def _message(answer: requests.Response) -> str:
    """The error's text, from ``{"forbidden": {"message": …}}`` and its like; empty where it is not JSON."""
    try:
        body = json.loads(answer.content)
        message = next(iter(body.values()))["message"]
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration, RecursionError):
        return ""
    return message if isinstance(message, str) else ""


def _detail(message: str | None) -> str:
    words = " ".join((message or "").split())
    return f": {printable(words[:200])}" if words else ""


def _glimpse(answer: requests.Response) -> str:
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip()
    return f" but {printable(kind[:50])}" if kind and "json" not in kind else ", or incomplete"


def _asked_to_wait(value: str) -> float:
    """Seconds until a Retry-After, which is a number or an HTTP date; 0 for anything else."""
    if value.strip().isdecimal() and len(value) < 9:
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def connect(cloud: str, credentials_file: Path, *, deadline: float, total: float | None = None) -> OpenStack:
    """The cloud of that name in clouds.yaml; without a name, that of the credentials file.

    One call may take ``deadline`` seconds, all together ``total``. It connects at the first call. Raises
    ``ConfigError``.
    """
    return OpenStack(credentials.login(cloud, credentials_file), deadline=deadline, total=total)
