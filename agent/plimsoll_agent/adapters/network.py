"""Turns exceptions of requests and urllib3 into a few words without a secret."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit, urlunsplit

import requests
import urllib3


def why(chain: Iterable[BaseException], seconds: float) -> str:
    """The root cause in a chain of exceptions. It has no address: urllib3 quotes whole URLs, secrets included."""
    for cause in chain:
        match cause:
            case ssl.SSLCertVerificationError():
                return f"certificate not trusted: {cause.verify_message}"
            case ssl.SSLError():
                return "TLS fails: " + (cause.reason or "the server has no TLS").lower().replace("_", " ")
            case socket.gaierror():
                return f"name cannot be resolved: {cause.strerror}"
            case TimeoutError() | requests.Timeout():
                return f"no answer within {seconds:.3g} s"
            case urllib3.exceptions.IncompleteRead():
                return "the answer was cut off"
            case OSError() if cause.errno and cause.strerror:
                return cause.strerror[0].lower() + cause.strerror[1:]
    return "the connection was lost"


def chained(error: BaseException) -> Iterator[BaseException]:
    """The exception and its causes, wherever urllib3 keeps them; the deepest first."""
    causes: list[BaseException] = []
    todo: list[object] = [error]
    while todo and len(causes) < 50:
        one = todo.pop(0)
        if isinstance(one, BaseException) and one not in causes:
            causes.append(one)
            todo += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
    return reversed(causes)


def plain_url(url: str) -> str:
    """The address without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
