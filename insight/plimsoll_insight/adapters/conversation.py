"""Questions to the monitors, one after the other, by a process that stays."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from plimsoll_agent.adapters import program
from plimsoll_agent.errors import DeadlineExceeded, Rejected

_PIECE = 65536


class Conversation:
    """With the program that ``CephProgram.librados_argv`` names. For one thread."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self._argv, self._environment = argv, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._kill: Callable[[], object] | None = None

    def ask(self, question: str, seconds: float) -> bytes:
        """The answer. After each error the next question goes to a new process.

        Raises ``Unreachable`` where it cannot be started, ``DeadlineExceeded``, ``Rejected``.
        """
        process = self._process or self._start()
        try:
            return _answer(process, question, time.monotonic() + seconds)
        except TimeoutError as error:
            self._end()
            raise DeadlineExceeded(f"no answer from Ceph within {seconds:g} s") from error
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        kill, self._process, self._kill = self._kill, None, None
        if kill is not None:
            kill()

    def _start(self) -> subprocess.Popen[bytes]:
        process = program.start(self._argv, self._environment, stdin=subprocess.PIPE, bufsize=0)
        # Once: its number may be another's then. And at the end, when it may be waiting for monitors.
        self._process, self._kill = process, weakref.finalize(self, program.kill, process)
        return process


def _answer(process: subprocess.Popen[bytes], question: str, end: float) -> bytes:
    """Raises ``TimeoutError``, ``Rejected``."""
    output, complaint = bytearray(), bytearray()
    if process.stdin is not None:
        with suppress(BrokenPipeError):  # it has ended, and says why
            process.stdin.write(f"{question}\n".encode())
    with selectors.DefaultSelector() as selector:
        for stream, text in ((process.stdout, output), (process.stderr, complaint)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, text)
        while selector.get_map():
            rest = end - time.monotonic()
            if rest <= 0:
                raise TimeoutError
            for key, _ in selector.select(rest):
                piece = os.read(key.fd, _PIECE)
                key.data.extend(piece)
                if not piece:
                    selector.unregister(key.fileobj)
            head, newline, answer = output.partition(b"\n")
            if newline:
                status, length, refusal = head.decode("utf-8", "replace").split(" ", 2)
                if status != "0":
                    raise Rejected(f"ceph: {refusal[:300]}")
                if len(answer) == int(length):
                    return bytes(answer)
    raise Rejected(f"ceph: {program.last_line(complaint)}")
