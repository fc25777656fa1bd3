"""What went wrong on a network, from the exceptions of requests and urllib3, in a few words and without a secret."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit, urlunsplit

import requests
import urllib3


def why(chain: Iterable[BaseException], seconds: float) -> str:
    """The reason at the root of a chain of exceptions, without addresses: urllib3 puts whole URLs into its words."""
    for cause in chain:
        match cause:
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted: {cause.verify_message}"
            case ssl.SSLError():
                return "TLS fails: " + (cause.reason or "the other side speaks none").lower().replace("_", " ")
            case socket.gaierror():
                return f"its name cannot be resolved: {cause.strerror}"
            case TimeoutError() | requests.Timeout():
                return f"no answer within {seconds:.3g} s"
            case urllib3.exceptions.IncompleteRead():
                return "the answer was cut off"
            case OSError() if cause.errno and cause.strerror:
                return cause.strerror[0].lower() + cause.strerror[1:]
    return "the connection broke off"


def chained(error: BaseException) -> Iterator[BaseException]:
    """The exception, and those that it came of, wherever urllib3 keeps them; the deepest first."""
    found: list[BaseException] = []
    todo: list[object] = [error]
    while todo and len(found) < 50:
        one = todo.pop(0)
        if isinstance(one, BaseException) and one not in found:
            found.append(one)
            todo += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
    return reversed(found)


def plain_url(url: str) -> str:
    """Without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
