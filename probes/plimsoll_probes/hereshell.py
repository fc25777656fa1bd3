"""This machine as a place to run programs, for canaries without an agent."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from tempfile import TemporaryFile

from plimsoll_agent.adapters import program
from plimsoll_probes.finding import Trouble, Why
from plimsoll_probes.guestexec import KILL_AFTER, SLACK, limited
from plimsoll_probes.shell import Ran

LONGEST_OUTPUT = 16 * 2**20
"""In bytes, of each of the two streams: as much as a guest's agent keeps."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are: an inherited path may be empty, which is the present directory, whoever's that is."""

_TELL_EVERY = 1.0


class HereShell:
    """A ``Shell``: runs them under timeout(1) as in a guest, and leaves nothing running that they started."""

    def run(
        self,
        argv: Sequence[str],
        *,
        seconds: float,
        lasts: float = 0,  # noqa: ARG002  # its end is waited for, not asked for
        stdin: bytes = b"",
        tell: Callable[[], None] = lambda: None,
    ) -> Ran:
        end = time.monotonic() + seconds + KILL_AFTER + SLACK
        with TemporaryFile() as given:  # not a pipe: it takes all at once, however much that is
            given.write(stdin)
            given.seek(0)
            try:
                process = subprocess.Popen(  # noqa: S603  # a list of words, no shell
                    limited(argv, seconds),
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={"PATH": PATH, "LC_ALL": "C"},  # nothing else that may bend what root runs
                    start_new_session=True,  # what it starts is killed with it
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
    """What it says until it ends. Raises ``TimeoutError`` then."""
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    said = {stream.fileno(): bytearray() for stream in streams}
    told = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for number in said:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map() or _runs(process):
            if selector.get_map():
                ready = selector.select(min(_TELL_EVERY, _left(end)))
            else:
                time.sleep(min(0.01, _left(end)))
                ready = []
            for key, _ in ready:
                more = os.read(key.fd, 65536)
                said[key.fd] += more
                if not more:
                    selector.unregister(key.fd)
                elif len(said[key.fd]) > LONGEST_OUTPUT:
                    raise Trouble(Why.NONSENSE, detail=f"more than {LONGEST_OUTPUT // 2**20} MiB of output")
            if time.monotonic() - told >= _TELL_EVERY:
                told = time.monotonic()
                tell()
    out, err = (bytes(words) for words in said.values())
    return out, err


def _runs(process: subprocess.Popen[bytes]) -> bool:
    # Not poll(): while nobody has reaped it, its number is that of its group, and of no other.
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
