"""An operator who types a command of plimsoll, with a test's settings and fakes instead of a node's."""

from __future__ import annotations

import io
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

from plimsoll_agent.config.settings import Settings
from tests.words import in_output

OPTIONS = SimpleNamespace(config_file=None, config_dir=None, verbose_level=0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Ran(NamedTuple):
    status: int
    out: str
    err: str


class Person:
    """``out`` and ``err`` are what the last command printed, in the words and the style of ``tests.words``."""

    out = ""
    err = ""

    def types(
        self,
        command: type,
        *words: str,
        settings: Settings | None = None,
        hypervisor: object = None,
        stdin: object = None,
        stdout: io.StringIO | None = None,
        stderr: io.StringIO | None = None,
        **methods: object,
    ) -> int:
        """Its exit status; ``methods`` take the place of the command's own."""
        if settings is not None:
            methods["settings"] = lambda *_: settings
        if hypervisor is not None:
            methods["libvirt"] = lambda *_: nullcontext(hypervisor)
        out, err = stdout or io.StringIO(), stderr or io.StringIO()
        app = SimpleNamespace(
            stdin=stdin or io.StringIO(),
            stdout=out,
            stderr=err,
            for_journal=lambda line: line,
            settings_options=[],
            options=OPTIONS,
        )
        here: Any = type(command.__name__, (command,), methods)(app, None)
        try:
            status = int(here.run(here.get_parser("plimsoll").parse_args(words)))
        finally:
            self.out, self.err = out.getvalue(), err.getvalue()
        assert [*in_output(self.out), *in_output(self.err)] == []
        return status
