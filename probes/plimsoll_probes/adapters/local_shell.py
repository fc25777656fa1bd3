"""Runs programs on this machine, for canaries without a guest agent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from tempfile import TemporaryFile

from plimsoll_agent.adapters import program
from plimsoll_agent.errors import Rejected, Unreachable
from plimsoll_probes.guest.qga_exec import KILL_AFTER, SLACK, under_timeout
from plimsoll_probes.guest.shell import Ran
from plimsoll_probes.model.finding import Trouble, Why

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""A fixed path: an empty entry in an inherited one means the current directory, which may be anybody's."""


class HereShell:
    """A ``Shell`` that runs programs under timeout(1), as in a guest, and kills whatever they started."""

    def run(
        self,
        argv: Sequence[str],
        *,
        seconds: float,
        lasts: float = 0,  # noqa: ARG002  # the end is waited for, not polled
        stdin: bytes = b"",
        tell: Callable[[], None] = lambda: None,
    ) -> Ran:
        end = time.monotonic() + seconds + KILL_AFTER + SLACK
        with TemporaryFile() as file:  # a pipe would block where the input is long
            file.write(stdin)
            file.seek(0)
            try:
                # Root's programs get no other variable.
                process = program.start(under_timeout(argv, seconds), {"PATH": PATH, "LC_ALL": "C"}, stdin=file)
            except Unreachable as error:
                raise Trouble(Why.NOT_SUPPORTED, detail=str(error)) from error
        try:
            out, err = program.outputs(process, end, tell=tell)
        except TimeoutError as error:
            raise Trouble(Why.UNFINISHED, seconds=seconds, done=None, unfinished=None) from error
        except Rejected as error:
            raise Trouble(Why.NONSENSE, detail=str(error)) from error
        finally:
            program.kill(process)
        code = process.returncode
        return Ran(status=code if code >= 0 else None, signal=-code if code < 0 else None, out=out, err=err)
