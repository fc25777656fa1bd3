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
    waitress.serve(accesslog.logged(application, name, log), host="127.0.0.1", port=int(port), threads=8, ident=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
