"""A file from a web server: over TLS only, with an end, of a bounded length, and not again while it is the same."""

from __future__ import annotations

import time
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from plimsoll_agent.adapters.deadline import Deadlines
from plimsoll_agent.adapters.network import chained, plain_url, why
from plimsoll_agent.errors import ConfigError, PlimsollError, Rejected, Unanswered, Unreachable

_MOST_REDIRECTS = 5
_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Page:
    """A file as a server sent it, with what to ask by the next time."""

    content: bytes
    etag: str | None
    modified: str | None


class Web:
    """Fetches files within ``deadline`` seconds, all of them together."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._end = time.monotonic() + deadline
        self._session = requests.Session()
        self._session.headers["User-Agent"] = "plimsoll"
        self._guard = Deadlines(deadline, at_once=1)

    def fetch(self, url: str, most: int, *, etag: str | None = None, modified: str | None = None) -> Page | None:
        """The file, None when it is still the one with that etag or of that time.

        Raises ``ConfigError`` for an address that is not https, ``Unreachable``, ``Unanswered``, ``Rejected``.
        """
        known = {"If-None-Match": etag, "If-Modified-Since": modified}
        headers = {name: value for name, value in known.items() if value}
        left = self._end - time.monotonic()
        if left <= 0:
            raise Unanswered(f"{plain_url(url)}: no answer within {self._deadline:g} s")
        self._guard.seconds = left
        try:
            # In a thread that can be left: a server that sends a byte a second holds requests for ever.
            return self._guard.call("the web server", lambda: self._fetched(url, most, headers))
        except Unanswered as error:
            raise Unanswered(f"{plain_url(url)}: no answer within {self._deadline:g} s") from error
        except PlimsollError:
            raise
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise Unreachable(f"{plain_url(url)}: {why(chained(error), left)}") from error

    def _fetched(self, url: str, most: int, headers: dict[str, str]) -> Page | None:
        check_address(url)
        for _ in range(_MOST_REDIRECTS + 1):
            seconds = max(0.1, self._end - time.monotonic())
            with self._session.get(
                url, headers=headers, timeout=seconds, stream=True, allow_redirects=False
            ) as answer:
                if answer.is_redirect:
                    onward = urljoin(url, answer.headers["Location"])
                    if not _is_https(onward):
                        raise Rejected(f"{plain_url(url)}: the server sends us to an address that is not https")
                    url = onward
                    continue
                if answer.status_code == 304 and headers:
                    return None
                if answer.status_code == 429:
                    raise Unreachable(f"{plain_url(url)}: the server is asked too often (429)")
                if answer.status_code >= 500:
                    raise Unreachable(f"{plain_url(url)}: the server is in trouble ({answer.status_code})")
                if answer.status_code != 200:
                    raise Rejected(f"{plain_url(url)}: the server says no ({answer.status_code})")
                content = bytearray()
                for chunk in answer.iter_content(_CHUNK):
                    content += chunk
                    if len(content) > most:
                        raise Rejected(f"{plain_url(url)}: is longer than {most} bytes")
                return Page(bytes(content), answer.headers.get("ETag"), answer.headers.get("Last-Modified"))
        raise Rejected(f"{plain_url(url)}: the server sends us on more than {_MOST_REDIRECTS} times")


def check_address(url: str) -> None:
    """Raises ``ConfigError`` for what is not https."""
    if not _is_https(url):
        raise ConfigError(f"{plain_url(url)}: is no https address; the region's file comes by https, or as a path")


def _is_https(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" and bool(parts.hostname)
    except ValueError:
        return False
