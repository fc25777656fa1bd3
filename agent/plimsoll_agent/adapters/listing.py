"""A list of a service of OpenStack, page after page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from plimsoll_agent.catalogue.api import PAGE, Refused
from plimsoll_agent.errors import Rejected

_MOST_PAGES = 10_000


class PagedList:
    """The next page is asked for by the id of the last entry, never by the address in a link."""

    def __init__(self, name: str, key: str, get: Callable[[Mapping[str, str]], Any]) -> None:
        """``get`` asks with more parameters; ``key`` is that of the entries, ``name`` begins errors."""
        self._name, self._key, self._get = name, key, get
        self._markers: list[str] = []
        self._passed: set[str] = set()
        self.more = True
        """Whether there may be another page."""

    def page(self) -> list[Any]:
        """The entries of the next page; one may come twice. Raises ``Rejected``, and what ``get`` raises."""
        if len(self._passed) >= _MOST_PAGES:
            raise Rejected(f"{self._name}: more than {_MOST_PAGES} pages")
        answer = self._answer()
        try:
            page = answer[self._key]
            ids = [entry["id"] for entry in page]
            links = next((answer[name] for name in answer if name.endswith("_links")), None)
            if not isinstance(page, list) or not all(id and isinstance(id, str) for id in ids):
                raise ValueError("no list of entries with ids")
            more = len(page) >= PAGE if links is None else any(link.get("rel") == "next" for link in links)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Rejected(f"{self._name}: the answer has no list of {self._key}") from error
        self.more = more and bool(ids)
        if self.more:
            if ids[-1] in self._passed:
                raise Rejected(f"{self._name}: the pages repeat")
            self._passed.add(ids[-1])
            self._markers = ids[-1:-4:-1]
        return page

    def _answer(self) -> Any:
        size = {"limit": str(PAGE)}
        for number, marker in enumerate(self._markers, 1):
            try:
                return self._get({**size, "marker": marker})
            except Refused as error:  # that entry was deleted since: the one before it will do
                if error.status not in (400, 404) or number == len(self._markers):
                    raise
        return self._get(size)
