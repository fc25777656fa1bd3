"""HTTP with a deadline, answers of bounded length, and no redirects."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import requests
import urllib3

from plimsoll_agent.adapters.deadline import Deadlines
from plimsoll_agent.adapters.network import chained, why
from plimsoll_agent.errors import DeadlineExceeded, PlimsollError, Unreachable
from plimsoll_agent.util.frozen import frozen

_CHUNK = 65536


class Session(requests.Session):
    """Follows no redirect, which would get the token too, and reads no body of one."""

    def get_redirect_target(self, _: requests.Response) -> None:
        return None


@frozen(kw_only=True)
class Answer:
    """A server's answer; ``content`` is None where it is too long."""

    status: int
    headers: Mapping[str, str]
    content: bytes | None
    redirect: str | None
    """The address that it redirects to."""


class Http:
    """All its requests together take at most ``deadline`` seconds."""

    def __init__(self, deadline: float, *, late: str = "", unreachable: str = "") -> None:
        """``late`` and ``unreachable`` end those errors and say what to do."""
        self.session = Session()
        self.session.headers["User-Agent"] = "plimsoll"
        self._deadline = deadline
        self._end = time.monotonic() + deadline
        self._guard = Deadlines(deadline, at_once=1)
        self._late, self._unreachable = late, unreachable

    @property
    def left(self) -> float:
        """Seconds."""
        return max(self._end - time.monotonic(), 0)

    def renew(self) -> None:
        """Have the deadline begin now."""
        self._end = time.monotonic() + self._deadline

    def late(self, name: str) -> DeadlineExceeded:
        return DeadlineExceeded(f"{name}: no answer within {self._deadline:g} s{self._late}")

    def ask(self, name: str, method: str, url: str, most: int, **how: Any) -> Answer:
        """Reads at most ``most`` bytes; errors begin with ``name``. Raises ``Unreachable``, ``DeadlineExceeded``."""
        seconds = self.left
        if not seconds:
            raise self.late(name)
        self._guard.seconds = seconds
        try:
            # In a thread that can be abandoned: requests waits for ever on a server that trickles bytes.
            return self._guard.call(name, lambda: self._asked(method, url, most, timeout=seconds, **how))
        except (DeadlineExceeded, requests.Timeout) as error:
            raise self.late(name) from error
        except PlimsollError:
            raise
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            message = f"{name}: {why(chained(error), self._deadline)}{self._unreachable}"
            raise Unreachable(message) from error

    def _asked(self, method: str, url: str, most: int, **how: Any) -> Answer:
        with self.session.request(method, url, stream=True, allow_redirects=False, **how) as answer:
            redirect = answer.headers["Location"] if answer.is_redirect else None
            content = b"" if redirect is not None else bounded(answer, most)
            return Answer(status=answer.status_code, headers=answer.headers, content=content, redirect=redirect)


def bounded(answer: requests.Response, most: int) -> bytes | None:
    """The content of a streamed answer; None where it is longer than ``most`` bytes."""
    content = bytearray()
    for chunk in answer.iter_content(_CHUNK):
        content += chunk
        if len(content) > most:
            answer.close()
            return None
    return bytes(content)
