"""Runs programs on this machine, for canaries without a guest agent."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from tempfile import TemporaryFile

from plimsoll_agent.adapters import program
from plimsoll_probes.guest.qga_exec import KILL_AFTER, SLACK, under_timeout
from plimsoll_probes.guest.shell import Ran
from plimsoll_probes.model.finding import Trouble, Why

LONGEST_OUTPUT = 16 * 2**20
"""Bytes of each of the two streams; a guest agent has the same limit."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""A fixed path: an empty entry in an inherited one means the current directory, which may be anybody's."""

_TELL_EVERY = 1.0


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
                process = subprocess.Popen(  # noqa: S603  # a list of words, no shell
                    under_timeout(argv, seconds),
                    stdin=file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={"PATH": PATH, "LC_ALL": "C"},  # root's programs get no other variable
                    start_new_session=True,  # its children are killed with it
                )
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                raise Trouble(Why.NOT_SUPPORTED, detail=f"timeout(1) cannot be run: {why}") from error
        try:
            out, err = _said(process, end, tell)
        except TimeoutError as error:
            raise Trouble(Why.UNFINISHED, seconds=seconds, done=None, unfinished=None) from error
        finally:
            program.kill(process)
        code = process.returncode
        return Ran(status=code if code >= 0 else None, signal=-code if code < 0 else None, out=out, err=err)


def _said(process: subprocess.Popen[bytes], end: float, tell: Callable[[], None]) -> tuple[bytes, bytes]:
    """Both outputs of the process. Raises ``TimeoutError`` where it still runs at ``end``."""
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    outputs = {stream.fileno(): bytearray() for stream in streams}
    last_tell = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for number in outputs:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map() or _runs(process):
            if selector.get_map():
                ready = selector.select(min(_TELL_EVERY, _left(end)))
            else:
                time.sleep(min(0.01, _left(end)))
                ready = []
            for key, _ in ready:
                more = os.read(key.fd, 65536)
                outputs[key.fd] += more
                if not more:
                    selector.unregister(key.fd)
                elif len(outputs[key.fd]) > LONGEST_OUTPUT:
                    raise Trouble(Why.NONSENSE, detail=f"more than {LONGEST_OUTPUT // 2**20} MiB of output")
            if time.monotonic() - last_tell >= _TELL_EVERY:
                last_tell = time.monotonic()
                tell()
    out, err = (bytes(words) for words in outputs.values())
    return out, err


def _runs(process: subprocess.Popen[bytes]) -> bool:
    # Not poll(), which reaps: an unreaped process keeps its number, so the group to kill is surely this one.
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _left(end: float) -> float:
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds
