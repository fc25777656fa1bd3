"""OpenStack's APIs as the refresher and ``plimsoll qos`` use them: JSON in and out, and errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from plimsoll_agent.errors import Rejected

BLOCK_STORAGE = "block-storage"
COMPUTE = "compute"
PAGE = 1000
"""Entries a page: the default of Cinder's ``osapi_max_limit`` and Nova's ``max_limit``."""


class Refused(Rejected):
    """A service answered with an error. The text is a whole sentence; ``status`` is HTTP's."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class CloudApi(Protocol):
    """One cloud as one user. Calls raise ``Unreachable``, ``DeadlineExceeded``, ``Rejected`` (also ``Refused``)."""

    name: str
    """For people: the cloud's name, or the address of its Keystone."""

    def get(
        self, service: str, path: str, params: Mapping[str, str] | None = None, *, microversion: str | None = None
    ) -> Any:
        """The parsed answer to a GET."""

    def pages(
        self,
        service: str,
        path: str,
        key: str,
        params: Mapping[str, str] | None = None,
        *,
        microversion: str | None = None,
    ) -> Iterator[list[Any]]:
        """The entries below ``key``, page after page."""
