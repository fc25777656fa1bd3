"""The facts of every verdict that unit tests make the program give are as the schema says."""

import functools
import sys

from plimsoll_probes.model.finding import Finding
from plimsoll_probes.output.serialize import finding_data
from tests import schemas
from tests.unit.conftest import faulty

_seen: set[tuple[str, frozenset[str]]] = set()
_made = Finding.__init__


@functools.wraps(_made)
def _making(self: Finding, *given: object, **others: object) -> None:
    _made(self, *given, **others)  # type: ignore[arg-type]
    known = self.why, frozenset(self.facts)
    if known not in _seen and _by_the_program():
        _seen.add(known)
        try:
            schemas.hold_part("probe-run.json#/$defs/facts", finding_data(self)["facts"])
        except AssertionError as error:
            faulty.append(f"{self.why}: {error}")


def _by_the_program() -> bool:
    """Whether the finding is the program's own: no test's, and not from a history (tests write anything into it)."""
    name: str = sys._getframe(2).f_globals["__name__"]
    return name.startswith("plimsoll_") and not name.startswith("plimsoll_probes.store.")


Finding.__init__ = _making  # type: ignore[method-assign]
