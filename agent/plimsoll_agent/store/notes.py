"""The notes of a pass: faults of its state, clock or catalogue that did not stop it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.store.state import StateError


class Notes(list[Reason]):
    """One list for each pass, which its report prints."""

    def add(self, code: Code, detail: object) -> None:
        """``detail`` is the error, or other text."""
        self.append(because(code, detail=str(detail)))

    @contextmanager
    def taking(self, code: Code) -> Iterator[None]:
        """A ``StateError`` becomes a note."""
        try:
            yield
        except StateError as error:
            self.add(code, error)
