"""What the refresher and ``plimsoll qos`` need of OpenStack's APIs: JSON in and out, and how they say no."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from plimsoll_agent.errors import Rejected

BLOCK_STORAGE = "block-storage"
COMPUTE = "compute"
PAGE = 1000
"""Entries a page: what Cinder and Nova hand out at most unless their ``osapi_max_limit``/``max_limit`` says less."""


class Refused(Rejected):
    """A service answered, and its answer is an error. The text is a whole sentence; ``status`` is HTTP's."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class CloudApi(Protocol):
    """One cloud as one user. Every call raises ``Unreachable``, ``Unanswered``, ``Rejected`` (also ``Refused``)."""

    name: str
    """For people: the cloud's name, or the address of its Keystone."""

    def get(
        self, service: str, path: str, params: Mapping[str, str] | None = None, *, microversion: str | None = None
    ) -> Any:
        """What a GET answers, parsed."""

    def pages(
        self,
        service: str,
        path: str,
        key: str,
        params: Mapping[str, str] | None = None,
        *,
        microversion: str | None = None,
    ) -> Iterator[list[Any]]:
        """The entries below ``key``, page after page until there are no more."""
