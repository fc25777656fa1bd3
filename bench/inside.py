"""Runs ``plimsoll`` with the arguments after the first, and writes the moments of its run to the file named first.

A program of its own, because imports are half of what is measured. It puts a clock around every call of
libvirt's bindings, around each reading of domain XML, and around the pass as a whole.
"""

from __future__ import annotations

import time

BEGAN = time.monotonic()

import functools  # noqa: E402  # the clock first
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, NoReturn  # noqa: E402


def main(into: Path, words: list[str]) -> NoReturn:
    import libvirtmod

    from plimsoll_agent.adapters.libvirt import domxml
    from plimsoll_agent.adapters.libvirt.client import Libvirt
    from plimsoll_agent.reconcile import run as passes

    spans: dict[str, list[tuple[float, float]]] = {"libvirt": [], "xml": [], "connect": [], "pass": []}

    def timed(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            began = time.monotonic()
            try:
                return function(*arguments, **named)
            finally:
                spans[kind].append((began, time.monotonic()))

        return call

    for name in dir(libvirtmod):
        # The loop for events waits in libvirt all the time.
        if name.startswith("vir") and not name.startswith("virEvent") and callable(getattr(libvirtmod, name)):
            setattr(libvirtmod, name, timed("libvirt", getattr(libvirtmod, name)))
    domxml.parse = timed("xml", domxml.parse)
    Libvirt.__init__ = timed("connect", Libvirt.__init__)  # type: ignore[method-assign]
    passes.run_pass = timed("pass", passes.run_pass)  # before the commands take it by its name
    from plimsoll_agent.cli.passes import Enforce  # noqa: F401  # or it would be imported by the command line
    from plimsoll_agent.terminal import main as program

    imported = time.monotonic()
    leave = os._exit

    def tell_and_leave(status: int) -> NoReturn:
        into.write_text(json.dumps({"began": BEGAN, "imported": imported, "left": time.monotonic(), **spans}))
        leave(status)

    os._exit = tell_and_leave  # plimsoll's way out: nothing of ours would run after it
    program.main(words)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
