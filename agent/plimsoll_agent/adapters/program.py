"""Runs another program, and kills it with all that it started."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from plimsoll_agent.errors import DeadlineExceeded, Rejected, Unreachable
from plimsoll_agent.util.frozen import frozen

_LONGEST_OUTPUT = 16 * 2**20
"""Bytes of each of the two streams; a guest agent has the same limit."""

_TELL_EVERY = 1.0


@frozen
class Ended:
    """How a program ended, and what it printed."""

    status: int
    out: bytes
    complaint: bytes

    @property
    def last_complaint(self) -> str:
        return last_line(self.complaint)


@frozen
class ProgramUser:
    """The user that a program runs as, with its groups."""

    user: int
    group: int
    groups: tuple[int, ...] = ()

    def as_options(self) -> dict[str, Any]:
        return {"user": self.user, "group": self.group, "extra_groups": self.groups}


def last_line(complaint: bytes | bytearray) -> str:
    """With the reason, after all that a program complained of."""
    lines = [line.strip() for line in complaint.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no error text"


def start(
    argv: Sequence[str], environment: Mapping[str, str], *, stdin: int | IO[bytes], **options: Any
) -> subprocess.Popen[bytes]:
    """``kill`` ends it. ``stdin`` and ``options`` are those of ``Popen``.

    Raises ``Unreachable`` where it cannot be started.
    """
    try:
        # A new session, so that what it starts is killed with it.
        return subprocess.Popen(  # noqa: S603  # a list of words, no shell
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            **options,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = getattr(error, "strerror", None) or error
        raise Unreachable(f"{argv[0]}: cannot be run: {why}") from error


def run(
    who: str,
    argv: Sequence[str],
    seconds: float,
    *,
    environment: Mapping[str, str],
    account: ProgramUser | None = None,
    directory: str | None = None,
    content: bytes = b"",
    longest: int = _LONGEST_OUTPUT,
) -> Ended:
    """Run it to its end, as ``account`` and in ``directory``, by default as this process. Errors name it ``who``.

    ``content`` is its standard input, and less than a pipe takes at once (64 KiB). It may print ``longest`` bytes.

    Raises ``Unreachable`` where it cannot be started, ``DeadlineExceeded``, ``Rejected`` for too long an output.
    """
    options = {"cwd": directory, **(account.as_options() if account else {})}
    process = start(argv, environment, stdin=subprocess.PIPE if content else subprocess.DEVNULL, **options)
    if process.stdin is not None:
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(content)
    try:
        out, complaint = outputs(process, time.monotonic() + seconds, longest=longest)
    except TimeoutError as error:
        raise DeadlineExceeded(f"no answer from {who} within {seconds:g} s") from error
    except Rejected as error:
        raise Rejected(f"{who}: {error}") from error
    finally:
        kill(process)
    return Ended(process.returncode, out, complaint)


def outputs(
    process: subprocess.Popen[bytes],
    end: float,
    *,
    longest: int = _LONGEST_OUTPUT,
    tell: Callable[[], None] = lambda: None,
) -> tuple[bytes, bytes]:
    """Both of its outputs, once it has ended; ``tell`` is called each second until then.

    Raises ``TimeoutError`` where it runs at ``end`` (of the monotonic clock), ``Rejected`` for too long an output.
    """
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    contents = {stream.fileno(): bytearray() for stream in streams}
    last_tell = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for number in contents:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map() or _runs(process):
            # Without streams it only waits for the end of the process.
            for key, _ in selector.select(min(_TELL_EVERY if selector.get_map() else 0.01, _left(end))):
                more = os.read(key.fd, 65536)
                contents[key.fd] += more
                if not more:
                    selector.unregister(key.fd)
                elif len(contents[key.fd]) > longest:
                    raise Rejected(f"its output is longer than {longest // 2**20} MiB")
            if time.monotonic() - last_tell >= _TELL_EVERY:
                last_tell = time.monotonic()
                tell()
    out, complaint = (bytes(words) for words in contents.values())
    return out, complaint


def _runs(process: subprocess.Popen[bytes]) -> bool:
    # Not poll() or wait(): until it is reaped, no other process group can get its number.
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _left(end: float) -> float:
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill it with all that it started, and reap it; a process that cannot be killed is left running."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
