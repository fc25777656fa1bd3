"""Answers of Cinder and Nova, or of what is in their place: JSON, ``{path: [[status, body], ...]}``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import requests

from plimsoll_agent.adapters.credentials import Login
from plimsoll_agent.adapters.openstack import OpenStack
from plimsoll_agent.catalogue.model import Lists
from plimsoll_agent.catalogue.planner import Agenda
from plimsoll_agent.catalogue.reader import VolumeReader, gather, lists, server_pages
from plimsoll_agent.errors import PlimsollError
from tests.fuzz.refusals import assert_clear
from tests.unit.values import VOLUME

_ADDRESS = "http://cloud.example/v3"
_OTHER = "0e8ed5b1-f8d5-43a5-8ccb-02f7a1e2d1c4"
Answer = TypeVar("Answer")


class _AtOnce:
    """In place of a thread that can be abandoned."""

    seconds = 0.0

    def call(self, _: str, function: Callable[[], Answer]) -> Answer:
        return function()


class _Served:
    """In place of keystoneauth's session. The last answer for a path is repeated."""

    timeout = 0.0

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = {path: list(given) if isinstance(given, list) else [given] for path, given in answers.items()}
        self.bodies: list[bytes] = []

    def request(self, url: str, *_: object, **__: object) -> requests.Response:
        left = self._answers.get(url.removeprefix(_ADDRESS)) or [[404, {}]]
        given = left.pop(0) if len(left) > 1 else left[0]
        status, body = given if isinstance(given, list) and len(given) == 2 else (200, given)
        answer = requests.Response()
        answer.status_code = status if type(status) is int and 100 <= status < 600 else 200
        answer._content = (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogatepass")
        if answer.status_code < 300:
            self.bodies.append(answer._content)
        return answer


def _cloud(answers: dict[str, Any]) -> tuple[OpenStack, _Served]:
    login = Login(
        auth=None,
        verify=True,
        cert=None,
        name="c1",
        interface=lambda _: "public",
        region=lambda _: None,
        override=lambda _: _ADDRESS,
    )
    cloud, served = OpenStack(login, deadline=10, total=None, attempts=1), _Served(answers)
    cloud._session, cloud._guard = served, _AtOnce()  # type: ignore[assignment]
    return cloud, served


def _entries(bodies: list[bytes], key: str) -> dict[str, Any]:
    """By their ids the entries of all answers; of an entry that came twice the last one counts."""
    found: dict[str, Any] = {}
    for body in bodies:
        try:
            told = json.loads(body)
            found |= {entry["id"]: entry for entry in told[key]}
        except (ValueError, LookupError, TypeError, RecursionError):
            continue
    return found


def _as_told(known: Lists, bodies: list[bytes]) -> None:
    types, specs = _entries(bodies, "volume_types"), _entries(bodies, "qos_specs")
    assert known.types.keys() == types.keys()
    for id, of in known.types.items():
        assert of.hidden == ("qos_specs_id" not in types[id])
        assert of.qos_spec == types[id].get("qos_specs_id")
        assert of.qos_spec is None or of.qos_spec in known.specs
    for id, spec in known.specs.items():
        assert spec.consumer == specs[id]["consumer"]
        keys = {key: None if value is None else str(value) for key, value in (specs[id]["specs"] or {}).items()}
        assert dict(spec.keys) == keys


def _told(of: Callable[[], Answer]) -> Answer | None:
    try:
        return of()
    except PlimsollError as error:
        assert_clear(error)
        return None


def target(data: bytes) -> None:
    try:
        answers = json.loads(data)
    except (ValueError, RecursionError):
        answers = {path: [[200, data.decode("utf-8", "replace")]] for path in ("/types", "/qos-specs")}
    if not isinstance(answers, dict):
        return
    cloud, served = _cloud(answers)
    known = _told(lambda: lists(cloud))
    if known is not None:
        _as_told(known, served.bodies)
    agenda = Agenda(lists=True, unknown=(VOLUME, _OTHER), again=("1" * 8 + VOLUME[8:],), servers=True)
    gathered = _told(lambda: gather(_cloud(answers)[0], agenda, known, "node-1"))
    if gathered is not None and gathered.trouble is not None:
        assert_clear(gathered.trouble)
    cloud, _ = _cloud(answers)
    _told(lambda: list(VolumeReader(cloud, {}).pages()))
    _told(lambda: list(server_pages(cloud, None)))
