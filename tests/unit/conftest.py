"""Unit tests touch no network and start no program, and what they make the program say has words and a schema."""

import functools
import gc
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import settings

from plimsoll_agent.messages import sentences
from plimsoll_agent.model.reason import Reason, because
from tests import schemas
from tests.measuring import measure_beginnings

settings.register_profile("busy", settings(), deadline=None)  # the machine may be
settings.load_profile("busy")

_spoken: set[tuple[str, frozenset[str]]] = set()
faulty: list[str] = []
"""What the program said wrongly in the present test."""
_made = Reason.__init__


@functools.wraps(_made)
def _making(self: Reason, code: str, facts: Mapping[str, object] | None = None) -> None:
    _made(self, code, {} if facts is None else facts)  # type: ignore[arg-type]
    known = code, frozenset(self.facts)
    if known not in _spoken and _by_the_program():
        _spoken.add(known)
        try:
            sentences.words(self)
            schemas.hold_part("common.json#/$defs/reason", self.as_record())
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            faulty.append(f"{code} with {', '.join(self.facts) or 'no fact'}: {error!r}")


def _by_the_program() -> bool:
    """Whether the reason that is being made is the program's own: no test's, and not read from a file."""
    frame = sys._getframe(2)
    if frame.f_code is because.__code__ and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals["__name__"].startswith("plimsoll_") and frame.f_code.co_name != "from_record"


Reason.__init__ = _making  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def _every_reason_has_words_and_a_schema() -> Iterator[None]:
    """A code that is given without a fact that its sentence has would end in a traceback before the operator."""
    yield
    found = faulty.copy()
    faulty.clear()
    assert found == []


@pytest.fixture(autouse=True, scope="session")
def _no_outside_world() -> Iterator[None]:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a unit test reached for a socket or a program")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(subprocess.Popen, "__init__", refuse)
        yield


def pytest_configure(config: pytest.Config) -> None:
    measure_beginnings(config)


def pytest_collection() -> None:
    """Thousands of tests are collected and stay to the end: garbage is not looked for among them again and again."""
    gc.set_threshold(200_000, 50, 1000)


def pytest_collection_finish() -> None:
    gc.freeze()
