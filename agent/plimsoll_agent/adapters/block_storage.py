"""openstacksdk's proxy of Cinder, whose requests have the deadlines, second tries and errors of ``OpenStack``.

Only ``plimsoll qos`` imports it: openstacksdk takes a quarter of a second.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

import requests
from keystoneauth1 import discover, session
from openstack import resource
from openstack.block_storage import block_storage_service
from openstack.block_storage.v3 import _proxy, qos_spec, volume
from openstack.block_storage.v3 import type as volume_type
from openstack.connection import Connection

from plimsoll_agent.adapters.listing import PagedList
from plimsoll_agent.catalogue.api import BLOCK_STORAGE

# Stands for the endpoint, which is found at the first request.
_ADDRESS = "https://block-storage.invalid/v3"
_LISTS = {"/qos-specs": "qos_specs", "/types": "volume_types", "/volumes/detail": "volumes"}


class Requests(Protocol):
    """What makes the requests; it raises what the proxy's methods then raise."""

    def call(
        self, method: str, service: str, path: str, params: Mapping[str, str] | None = None, body: object = None
    ) -> Any:
        """The parsed answer; None where it is empty."""


class _QosSpec(qos_spec.QoSSpec):
    # Absent is not the same as without keys.
    specs = resource.Body("specs", default="absent")


class _VolumeType(volume_type.Type):
    # What Cinder sends beside what openstacksdk reads; "" where a policy hides it.
    qos_specs_id = resource.Body("qos_specs_id", default="")
    is_public = resource.Body("is_public", type=bool, default=True)


class _Volume(volume.Volume):
    # Else one that is no number is 0.
    size = resource.Body("size")


class _Storage(_proxy.Proxy):
    def qos_specs(self, **query: Any) -> Generator[qos_spec.QoSSpec, None, None]:
        return self._list(_QosSpec, **query)

    def types(self, **query: Any) -> Generator[volume_type.Type, None, None]:
        return self._list(_VolumeType, **query)

    def volumes(self, **query: Any) -> Generator[volume.Volume, None, None]:
        return self._list(_Volume, base_path="/volumes/detail", **query)


class _Service(block_storage_service.BlockStorageService):
    supported_versions = {"3": _Storage}  # noqa: RUF012  # openstacksdk's


class _Answer(requests.Response):
    """What was parsed already."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.status_code = 200
        self._value = value

    def json(self, **_: Any) -> Any:
        if self._value is None:
            raise ValueError("the answer is empty")
        return self._value


class _Session(session.Session):
    """Hands each request on; a list is read page by page where openstacksdk follows a link."""

    def __init__(self, service: Requests) -> None:
        super().__init__()
        self._service = service
        self._lists: dict[str, PagedList] = {}

    def get_project_id(self, *_: Any, **__: Any) -> None:
        return None

    def get_endpoint_data(self, *_: Any, **__: Any) -> discover.EndpointData:
        return discover.EndpointData(catalog_url=_ADDRESS, service_url=_ADDRESS, api_version=(3, 0))

    def request(  # type: ignore[override]
        self, url: str, method: str, *, json: Any = None, params: Mapping[str, Any] | None = None, **_: Any
    ) -> requests.Response:
        parts = urlsplit(url.removeprefix(_ADDRESS))
        path = f"/{parts.path.removeprefix('/')}"
        query = dict(parse_qsl(parts.query)) | dict(params or {})
        if method == "GET" and path in _LISTS:
            return _Answer(self._page(path, query))
        return _Answer(self._service.call(method, BLOCK_STORAGE, path, query, json))

    def _page(self, path: str, query: dict[str, Any]) -> dict[str, Any]:
        key = _LISTS[path]
        if "marker" not in query:
            self._lists[path] = PagedList(
                f"Cinder: {path}", key, lambda more: self._service.call("GET", BLOCK_STORAGE, path, {**query, **more})
            )
        listing = self._lists[path]
        page = listing.page()
        # Cinder names the links of its types volume_type_links, and openstacksdk looks for volume_types_links.
        links = [{"rel": "next", "href": f"{_ADDRESS}{path}?marker={page[-1]['id']}"}] if listing.more else []
        return {key: page, f"{key}_links": links}


def storage(service: Requests) -> Any:
    """The proxy; no request is made yet."""
    connection = Connection(
        session=_Session(service), block_storage_endpoint_override=_ADDRESS, block_storage_api_version="3"
    )
    connection.add_service(_Service(BLOCK_STORAGE))
    return connection.block_storage
