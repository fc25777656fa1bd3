"""The process that asks Ceph for us: see bindings.py."""

from __future__ import annotations

import json
import select
import subprocess
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from .command import LabError
from .layout import Layout
from .release import program

DEBIANS_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class _Running:
    process: subprocess.Popen[str]
    complaints: IO[str]
    cluster: object

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.complaints.close()


class CephClient:
    """Starts it when it is first asked, and again where it has ended or the cluster is another one."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._conf = layout.ceph_conf
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def ask(self, steps: Sequence[dict[str, Any]], timeout: float) -> list[str]:
        """The answer to each step. Raises LabError for the first one that fails."""
        with self._lock:
            process = self._process()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                print(json.dumps(list(steps)), file=process.stdin, flush=True)
                if not select.select([process.stdout], [], [], timeout)[0]:
                    raise LabError(f"Ceph: no answer in {timeout:g} s")
                line = process.stdout.readline()
            except BrokenPipeError:
                line = ""
            except BaseException:  # Ctrl-C, say: its answer would be taken for that to the next question
                self._end()
                raise
            if not line:
                raise LabError(self._complaint())
        answer: list[str] | str = json.loads(line)
        if isinstance(answer, str):
            raise LabError(answer)
        return answer

    def _process(self) -> subprocess.Popen[str]:
        try:
            cluster = self._conf.stat().st_mtime_ns, self._conf.stat().st_ino
        except FileNotFoundError:
            raise LabError(f"there is no {self._conf}: is Ceph up?") from None
        if self._running is not None and (
            self._running.cluster != cluster or self._running.process.poll() is not None
        ):
            self._end()
        if self._running is None:
            words = program(
                [DEBIANS_PYTHON, "-I", Path(__file__).with_name("bindings.py"), self._conf], self._layout.cache
            )
            complaints = TemporaryFile("w+")  # noqa: SIM115 - closed where the process ends
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True
            )
            self._running = _Running(process, complaints, cluster)
            self._finalizer = weakref.finalize(self, self._running.end)
        return self._running.process

    def _complaint(self) -> str:
        """The last line of what has ended."""
        assert self._running is not None
        status = self._running.process.wait()
        self._running.complaints.seek(0)
        lines = self._running.complaints.read().split("\n")
        self._end()
        return next((line for line in reversed(lines) if line.strip()), f"bindings.py: exit status {status}")

    def _end(self) -> None:
        self._running = None
        self._finalizer()
