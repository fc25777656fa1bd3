"""`serve.py NAME MODULE PORT ACCESS_LOG`: a service's WSGI application in one plain process."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import accesslog


def main(name: str, module: str, port: str, log: str) -> None:
    # The services read the command line themselves.
    sys.argv = [name]
    application = importlib.import_module(module).application
    waitress: Any = importlib.import_module("waitress")
    # Keystone writes down each user's first sign-in of a day. Of two at once SQLite refuses one, however long it may
    # wait, as both have read before they write.
    threads = 1 if name == "keystone" else 8
    logged = accesslog.logged(application, name, log)
    waitress.serve(logged, host="127.0.0.1", port=int(port), threads=threads, ident=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
