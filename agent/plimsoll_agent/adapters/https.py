"""Fetches a file over TLS, within a deadline, of bounded length, and only if it has changed."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

from plimsoll_agent.adapters.http import Http
from plimsoll_agent.adapters.network import plain_url
from plimsoll_agent.errors import ConfigError, Rejected, Unreachable
from plimsoll_agent.util.frozen import frozen

_MOST_REDIRECTS = 5


@frozen
class WebFile:
    """A file, and what to send with the next request for it."""

    content: bytes
    etag: str | None
    modified: str | None


class Web:
    """All its fetches together take at most ``deadline`` seconds."""

    def __init__(self, deadline: float) -> None:
        self._http = Http(deadline)

    def fetch(
        self, url: str, most: int, *, etag: str | None = None, last_modified: str | None = None
    ) -> WebFile | None:
        """The file; None when it has not changed since that etag or time.

        Raises ``ConfigError`` for an address without https, ``Unreachable``, ``DeadlineExceeded``, ``Rejected``.
        """
        check_address(url)
        conditions = {"If-None-Match": etag, "If-Modified-Since": last_modified}
        headers = {header: value for header, value in conditions.items() if value}
        for _ in range(_MOST_REDIRECTS + 1):
            name = plain_url(url)
            answer = self._http.ask(name, "GET", url, most, headers=headers)
            if answer.redirect is not None:
                url = urljoin(url, answer.redirect)
                if not _is_https(url):
                    raise Rejected(f"{name}: redirects to an address without https")
                continue
            if answer.status == 304 and headers:
                return None
            if answer.status == 429:
                raise Unreachable(f"{name}: too many requests (429)")
            if answer.status >= 500:
                raise Unreachable(f"{name}: server error ({answer.status})")
            if answer.status != 200:
                raise Rejected(f"{name}: request refused ({answer.status})")
            if answer.content is None:
                raise Rejected(f"{name}: is longer than {most} bytes")
            return WebFile(answer.content, answer.headers.get("ETag"), answer.headers.get("Last-Modified"))
        raise Rejected(f"{name}: redirects more than {_MOST_REDIRECTS} times")


def check_address(url: str) -> None:
    """Raises ``ConfigError`` unless it is https."""
    if not _is_https(url):
        raise ConfigError(f"{plain_url(url)}: not an https address; it needs https:// or a path")


def _is_https(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" and bool(parts.hostname)
    except ValueError:
        return False
