"""OpenStack's APIs as one user: JSON in and out, no call without an end, and every error one line without a secret.

The only module that imports openstacksdk and keystoneauth1, which take half a second: nothing that a pass needs may
import it.
"""

from __future__ import annotations

import email.utils
import json
import logging
import os
import random
import re
import ssl
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import urllib3
import yaml
from keystoneauth1 import exceptions, loading, session
from oslo_config import cfg

from plimsoll_agent import files
from plimsoll_agent.adapters.deadline import Deadlines
from plimsoll_agent.adapters.network import chained, plain_url, why
from plimsoll_agent.cloudapi import BLOCK_STORAGE, COMPUTE, PAGE, Refused
from plimsoll_agent.errors import ConfigError, PlimsollError, Rejected, Unanswered, Unreachable
from plimsoll_agent.report import printable

# What they log holds addresses and files as they are, with a password where somebody wrote one into them.
for _name in ("keystoneauth", "openstack", "stevedore"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False

_GROUP = "openstack"
_OWN = (cfg.StrOpt("region_name"), cfg.StrOpt("interface", default="public"))
_NAMES = {BLOCK_STORAGE: "Cinder", COMPUTE: "Nova"}
_VERSIONS = {BLOCK_STORAGE: ((3,), (3, "latest")), COMPUTE: ((2, 1), (2, "latest"))}
_PASSING = frozenset({429, 502, 503, 504})
_UNPROCESSED = frozenset({429, 503})
_ATTEMPTS = 4
_FIRST_PAUSE = 0.5
# A page of 1000 volumes is some 2 MiB, a page of servers some 5.
_LONGEST_ANSWER = 64 * 2**20
_CHUNK = 65536
_MOST_PAGES = 10_000
_NETWORK = (
    exceptions.ConnectionError,
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    urllib3.exceptions.HTTPError,
)
_POLICY = re.compile(r"Policy doesn't allow (\S+) to be performed")


@dataclass(frozen=True, slots=True)
class _Login:
    """What one set of credentials comes to: keystoneauth's plugin, how TLS is checked, and where services are."""

    auth: Any
    verify: bool | str | None
    cert: Any
    name: str
    interface: Callable[[str], Any]
    region: Callable[[str], str | None]
    override: Callable[[str], str | None]


class _TooLong(Exception):
    """An answer is longer than any that is meant."""


class _Http(requests.Session):
    """Reads no answer without bound, remembers what was asked last, and counts what goes to a service."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = ""
        self.status: int | None = None
        """Of its answer; None until there is one."""
        self.counted: tuple[str, str] | None = None
        """The address that counts, and what as; all else is authentication and discovery."""
        self.calls: Counter[str] = Counter()

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        self.asked, self.status = request.url or "", None
        if self.counted is not None and self.asked.partition("?")[0] == self.counted[0]:
            self.calls[self.counted[1]] += 1
        # Redirects are nobody's here: keystoneauth would carry the token along to wherever one leads.
        answer = super().send(request, **(kwargs | {"stream": True, "allow_redirects": False}))
        self.status = answer.status_code
        content = bytearray()
        for chunk in answer.iter_content(_CHUNK):
            content += chunk
            if len(content) > _LONGEST_ANSWER:
                answer.close()
                raise _TooLong
        answer._content = bytes(content)
        answer._content_consumed = True  # type: ignore[attr-defined]  # what requests sets itself without stream
        return answer


class OpenStack:
    """One cloud as one user."""

    def __init__(self, login: _Login, *, deadline: float, total: float | None, attempts: int = _ATTEMPTS) -> None:
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
        """How often each kind of resource (``types``, ``volumes`` …) was asked for, each attempt by itself.

        Authentication and discovery are not in it.
        """
        return self._http.calls

    def get(
        self, service: str, path: str, params: Mapping[str, str] | None = None, *, microversion: str | None = None
    ) -> Any:
        """Raises ``Unreachable``, ``Unanswered``, ``Rejected`` (also ``Refused``)."""
        return self._call("GET", service, path, params, None, microversion)

    def post(self, service: str, path: str, body: object, *, microversion: str | None = None) -> Any:
        """As ``get``; None where the answer is empty."""
        return self._call("POST", service, path, None, body, microversion)

    def put(self, service: str, path: str, body: object, *, microversion: str | None = None) -> Any:
        """As ``get``; None where the answer is empty."""
        return self._call("PUT", service, path, None, body, microversion)

    def delete(
        self, service: str, path: str, params: Mapping[str, str] | None = None, *, microversion: str | None = None
    ) -> Any:
        """As ``get``; None where the answer is empty."""
        return self._call("DELETE", service, path, params, None, microversion)

    def pages(
        self,
        service: str,
        path: str,
        key: str,
        params: Mapping[str, str] | None = None,
        *,
        microversion: str | None = None,
    ) -> Iterator[list[Any]]:
        """The entries below ``key``, page after page; an entry may come twice. Raises as ``get``.

        Where a link says that there is more, the id of the last entry leads there, never the link itself.
        """
        who = f"{_NAMES[service]}: {path}"
        markers: list[str] = []
        passed: set[str] = set()
        for _ in range(_MOST_PAGES):
            answer = self._page(service, path, dict(params or {}), markers, microversion)
            try:
                page = answer[key]
                ids = [entry["id"] for entry in page]
                links = next((answer[name] for name in answer if name.endswith("_links")), None)
                if not isinstance(page, list) or not all(isinstance(id, str) for id in ids):
                    raise ValueError("something else")
                more = len(page) >= PAGE if links is None else any(link.get("rel") == "next" for link in links)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise Rejected(f"{who}: the answer has no list of {key}") from error
            yield page
            if not more or not ids:
                return
            if ids[-1] in passed:
                raise Rejected(f"{who}: the pages lead in a circle")
            passed.add(ids[-1])
            markers = ids[-1:-4:-1]
        raise Rejected(f"{who}: has more than {_MOST_PAGES} pages")

    def _page(self, service: str, path: str, params: dict[str, str], markers: list[str], version: str | None) -> Any:
        for number, marker in enumerate(markers, 1):
            try:
                return self.get(service, path, {**params, "limit": str(PAGE), "marker": marker}, microversion=version)
            except Refused as error:  # that entry was deleted since: the one before it leads on as well
                if error.status not in (400, 404) or number == len(markers):
                    raise
        return self.get(service, path, {**params, "limit": str(PAGE)}, microversion=version)

    # --- one call ---------------------------------------------------------------------------------------

    def _call(
        self,
        method: str,
        service: str,
        path: str,
        params: Mapping[str, str] | None,
        body: object,
        microversion: str | None,
    ) -> Any:
        for attempt in range(1, self._attempts + 1):
            pause = _FIRST_PAUSE * 2**attempt * random.uniform(0.5, 1)  # noqa: S311  # nobody must not guess it
            try:
                answer = self._guarded(
                    service, lambda: self._asked(method, service, path, params, body, microversion)
                )
            except _Passing as trouble:
                # A write whose answer was lost may have been done: it is for who asked to look.
                if attempt == self._attempts or method != "GET" or not self._pauses(pause):
                    raise trouble.told from trouble.__cause__
                continue
            again = _PASSING if method == "GET" else _UNPROCESSED
            if answer.status_code not in again or attempt == self._attempts:
                break
            if not self._pauses(max(pause, _asked_to_wait(answer.headers.get("Retry-After", "")))):
                break
        return self._read(answer, method, service, path)

    def _guarded(self, service: str, call: Callable[[], requests.Response]) -> requests.Response:
        """The call in a thread that can be left: a server that sends a byte a second holds requests for ever."""
        left = self._left()
        if left <= 0:
            raise Unanswered(f"{self._whom(service)}: not asked any more: the time for it is over")
        seconds = min(self._deadline, left)
        self._session.timeout = seconds
        self._guard.seconds = seconds + 0.5
        try:
            return self._guard.call(_NAMES[service], call)
        except Unanswered as error:
            raise Unanswered(f"{self._whom(service)}: no answer within {seconds:.3g} s") from error
        except PlimsollError:
            raise
        except _TooLong as error:
            raise Rejected(
                f"{self._whom(service)}: the answer is longer than {_LONGEST_ANSWER // 2**20} MiB"
            ) from error
        except exceptions.HttpError as error:
            refused = self._translated(service, error)
            raise _Passing(refused) if refused.status in _PASSING else refused from error
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
                told = Unreachable(f"{self._whom(service)}: {why(chain, seconds)}")
                raise told if any(isinstance(one, ssl.SSLError) for one in chain) else _Passing(told) from error
            if self._http.status is not None and self._http.status >= 400:  # discovery forgets what it was
                refused = self._no(service, self._http.status)
                raise _Passing(refused) if refused.status in _PASSING else refused from error
            raise Rejected(
                f"{self._whom(service)}: cannot be understood ({type(error).__name__}); is that the right address?"
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
            given, (least, most) = self._login.override(service), _VERSIONS[service]
            found = given or self._session.get_endpoint(
                service_type=service,
                interface=self._login.interface(service),
                region_name=self._login.region(service),
                min_version=least,
                max_version=most,
            )
            if not found:
                raise self._no_endpoint(service)
            self._endpoints[service] = str(found).rstrip("/")
        return self._endpoints[service]

    def _no_endpoint(self, service: str) -> Rejected:
        region = self._login.region(service)
        where = f" in region {region}" if region else ""
        return Rejected(
            f"Keystone at {self.name} names no {service} endpoint{where} of a version that is known"
            f" ({'v3' if service == BLOCK_STORAGE else 'v2.1'}); look at its catalog, region_name and interface"
        )

    def _read(self, answer: requests.Response, method: str, service: str, path: str) -> Any:
        whom, status = self._whom(service), answer.status_code
        if status >= 300:
            raise _refused(whom, answer, method, service, path)
        if not answer.content:
            if method == "GET" and status != 202:  # Cinder has GETs that change things
                raise Rejected(f"{whom}: the answer is empty")
            return None
        try:
            return json.loads(answer.content)
        except (ValueError, RecursionError) as error:
            raise Rejected(f"{whom}: the answer is no JSON{_glimpse(answer)}") from error

    def _translated(self, service: str, error: Any) -> Refused:
        status = int(error.http_status)
        whom = self._whom(service)
        if status == 401:
            return Refused(
                f"{whom}: the credentials are refused (401); look at the user, its secret, and whether they are"
                " still valid",
                status,
            )
        return self._no(service, status, _detail(error.message))

    def _no(self, service: str, status: int, detail: str = "") -> Refused:
        whom = self._whom(service)
        keystone = getattr(self._login.auth, "auth_url", None)
        if status == 404 and keystone and self._http.asked.startswith(keystone.rstrip("/")):
            return Refused(
                f"{whom}: there is nothing (404): that address is not Keystone's; look at auth_url", status
            )
        kind = "is in trouble" if status >= 500 else "is asked too often" if status == 429 else "says no"
        return Refused(f"{whom}: {kind} ({status}){detail}", status)

    def _whom(self, service: str) -> str:
        """Who was asked last, with the address: without its query, and without what stands before an @."""
        asked = plain_url(self._http.asked)
        if self._http.counted is not None or asked.startswith(self._endpoints.get(service, "\0")):
            return f"{_NAMES[service]} ({asked})"
        return f"Keystone ({asked})" if asked else _NAMES[service]

    def _left(self) -> float:
        return self._deadline if self._end is None else self._end - time.monotonic()

    def _pauses(self, seconds: float) -> bool:
        """Whether it did: not where nothing would be left of the time after it."""
        if seconds >= (self._left() if self._end is not None else self._deadline):
            return False
        time.sleep(seconds)
        return True


class _Passing(Exception):
    """Trouble of a kind that may be over in a moment."""

    def __init__(self, told: PlimsollError) -> None:
        super().__init__(str(told))
        self.told = told


# --- what went wrong, in words --------------------------------------------------------------------------


def _refused(whom: str, answer: requests.Response, method: str, service: str, path: str) -> Refused:
    status, message = answer.status_code, _message(answer)
    if 300 <= status < 400:
        where = plain_url(answer.headers.get("Location", ""))
        return Refused(
            f"{whom}: sends us elsewhere ({status}{f', {printable(where)}' if where else ''}), where no token is"
            " carried; correct the endpoint in the catalog",
            status,
        )
    if status == 401:
        return Refused(
            f"{whom}: does not accept our token (401); where it is an application credential with access rules,"
            f" they must let {method} {path} through",
            status,
        )
    if status == 403:
        named = _POLICY.search(message)
        rule = named.group(1) if named else _rule(method, service, path)
        return Refused(
            f"{whom}: forbidden (403) by its policy {printable(rule)}; let the user's role through there", status
        )
    if status == 429:
        return Refused(f"{whom}: is asked too often (429){_detail(message)}", status)
    if status in _PASSING or status >= 500:
        return Refused(f"{whom}: is in trouble ({status}){_detail(message)}", status)
    return Refused(f"{whom}: says no ({status}){_detail(message)}", status)


def _rule(method: str, service: str, path: str) -> str:
    """The rule that decides, for answers that do not name it (cinder/policies, nova/policies)."""
    resource = path.split("/")[1]
    if service == COMPUTE:
        return "os_compute_api:servers:detail:get_all_tenants"
    if method == "GET":
        # The database layer asks for an admin once more (cinder/db/api.py, require_admin_context).
        return {
            "qos-specs": "context_is_admin (after volume_extension:qos_specs_manage:get_all)",
            "types": "volume_extension:type_get_all",
            "volumes": "volume:get_all" if path.startswith("/volumes/detail") else "volume:get",
        }.get(resource, f"for {method} {path}")
    return {"qos-specs": "volume_extension:qos_specs_manage:*", "types": "volume_extension:type_*"}.get(
        resource, f"for {method} {path}"
    )


def _message(answer: requests.Response) -> str:
    """What the error says, from ``{"forbidden": {"message": …}}`` and its like; nothing where it is no JSON."""
    try:
        told = json.loads(answer.content)
        message = next(iter(told.values()))["message"]
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration, RecursionError):
        return ""
    return message if isinstance(message, str) else ""


def _detail(message: str | None) -> str:
    words = " ".join((message or "").split())
    return f": {printable(words[:200])}" if words else ""


def _glimpse(answer: requests.Response) -> str:
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip()
    return f" but {printable(kind[:50])}" if kind and "json" not in kind else ", or only a part of it"


def _asked_to_wait(value: str) -> float:
    """Seconds that a Retry-After asks for: a number, or a date of HTTP; 0 for anything else."""
    if value.strip().isdecimal() and len(value) < 9:
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


# --- credentials ----------------------------------------------------------------------------------------


def connect(cloud: str, credentials_file: Path, *, deadline: float, total: float | None = None) -> OpenStack:
    """The cloud of that name in clouds.yaml, or when the name is empty that of the credentials file.

    A call may take ``deadline`` seconds, all of them together ``total``. Nothing is asked yet. Raises
    ``ConfigError``.
    """
    login = _from_clouds_yaml(cloud) if cloud else _from_file(credentials_file)
    return OpenStack(login, deadline=deadline, total=total)


def _from_clouds_yaml(name: str) -> _Login:
    # Here, not above: half of the half second is openstacksdk's own, and the other way does not need it.
    import openstack.config
    import openstack.exceptions

    path = _clouds_yaml()
    _check_cloud(path, name)
    secure = path.with_name("secure.yaml")
    if secure.exists():
        _mapping(secure)
    # Its own places begin with the current directory, which may be anybody's.
    try:
        config = openstack.config.OpenStackConfig(
            config_files=[str(path)],
            secure_files=[str(secure)],
            vendor_files=[],
            load_envvars=False,
            app_name="plimsoll",
        )
        found = config.get_one(cloud=name)
        if str(found.config["auth_type"]).endswith("password") and not found.config["auth"].get("password"):
            raise ConfigError(f"{path}: cloud {name!r}: auth has no password")
        made = found.get_session()
    except (openstack.exceptions.SDKException, exceptions.ClientException) as error:
        raise ConfigError(f"{path}: cloud {name!r}: {_first_line(error)}") from error
    except (ValueError, KeyError, TypeError, AttributeError):  # and no more of it: it may hold the password
        raise ConfigError(f"{path}: cloud {name!r}: something in it is not what openstacksdk expects") from None
    return _Login(
        made.auth,
        made.verify,
        made.cert,
        name,
        found.get_interface,
        found.get_region_name,
        found.get_endpoint,
    )


def _clouds_yaml() -> Path:
    named = os.environ.get("OS_CLIENT_CONFIG_FILE")
    if named:
        return Path(named)
    places = (os.path.expanduser("~/.config/openstack/clouds.yaml"), "/etc/openstack/clouds.yaml")  # noqa: PTH111  # there may be no home
    found = next((place for place in places if os.path.lexists(place)), None)
    if found is None:
        raise ConfigError(
            f"no clouds.yaml: neither {places[0]} nor {places[1]} is there; OS_CLIENT_CONFIG_FILE names another"
        )
    return Path(found)


def _check_cloud(path: Path, name: str) -> None:
    """Raises ``ConfigError`` for what openstacksdk answers with an error of Python."""
    clouds = _mapping(path).get("clouds")
    if not isinstance(clouds, dict):
        raise ConfigError(f"{path}: clouds is no mapping from names to clouds")
    if name not in clouds:
        raise ConfigError(f"{path}: has no cloud {name!r}")
    cloud = clouds[name]
    if not isinstance(cloud, dict) or not isinstance(cloud.get("auth", {}), dict):
        what = "auth" if isinstance(cloud, dict) else "it"
        raise ConfigError(
            f"{path}: cloud {name!r}: {what} is no mapping; auth_url, username and so on go below its auth"
        )


def _mapping(path: Path) -> dict[str, Any]:
    _check_private(path)
    try:
        content = yaml.safe_load(path.read_bytes())
    except (ValueError, RecursionError, yaml.YAMLError):
        raise ConfigError(f"{path}: is no YAML") from None  # and no more of it: the line may be the password's
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: is no mapping with clouds in it")
    return content


def _from_file(path: Path) -> _Login:
    _check_private(path)
    conf = cfg.ConfigOpts()
    try:
        conf(args=[], project="plimsoll", default_config_files=[str(path)], default_config_dirs=[])
        loading.register_auth_conf_options(conf, _GROUP)
        loading.register_session_conf_options(conf, _GROUP)
        conf.register_opts(_OWN, _GROUP)
        auth_type = conf[_GROUP].auth_type
        if not auth_type:
            raise ConfigError(f"{path}: [{_GROUP}] has no auth_type; password and v3applicationcredential are usual")
        _check_keys(path, auth_type)
        auth = loading.load_auth_from_conf_options(conf, _GROUP)
        if auth_type.endswith("password") and not conf[_GROUP].password:
            raise ConfigError(f"{path}: [{_GROUP}] has no password")
        made = loading.load_session_from_conf_options(conf, _GROUP, auth=auth)
        url = plain_url(conf[_GROUP].auth_url or "")
        interface, region = conf[_GROUP].interface, conf[_GROUP].region_name
    except cfg.ConfigFileParseError as error:
        line = re.search(r":(\d+), ", str(error))  # and no more of it: the line may be the password's
        raise ConfigError(f"{path}{f':{line.group(1)}' if line else ''}: is no line of settings") from None
    except (cfg.NoSuchOptError, cfg.TemplateSubstitutionError):  # and no more of it: a part of a password
        raise ConfigError(f"{path}: [{_GROUP}]: a $ stands for no setting; a plain $ is written $$") from None
    except (cfg.Error, ValueError, AttributeError, exceptions.ClientException) as error:
        raise ConfigError(f"{path}: [{_GROUP}]: {_first_line(error)}") from error
    return _Login(auth, made.verify, made.cert, url, lambda _: interface, lambda _: region, lambda _: None)


def _check_keys(path: Path, auth_type: str) -> None:
    """Raises ``ConfigError``: oslo.config ignores a key that it does not know, as one that is written wrong."""
    sections: dict[str, dict[str, Any]] = {}
    cfg.ConfigParser(str(path), sections).parse()
    options = [
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options(auth_type),
        *loading.get_session_conf_options(),
        *_OWN,
    ]
    known = {name for one in options for name in (one.name, one.dest, *(old.name for old in one.deprecated_opts))}
    known |= {name.replace("-", "_") for name in known if name}
    if unknown := sorted(sections.get(_GROUP, {}).keys() - known):
        raise ConfigError(
            f"{path}: [{_GROUP}]: {printable(', '.join(unknown)[:200])}: not known with auth_type"
            f" {printable(auth_type)}; is that written wrong?"
        )


def _check_private(path: Path) -> None:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # before it is opened: a pipe waits for its writer
            raise ConfigError(f"{path}: is no regular file")
        files.read_whole(path, 0, follow=True)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: is not there; credentials go into it, or [catalogue] cloud names them") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if mode & 0o007:
        raise ConfigError(f"{path}: others than its owner and group may read or change it; chmod 640 {path}")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return printable(lines[0][:300]) if lines else type(error).__name__
