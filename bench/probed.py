"""Runs ``plimsoll`` with the arguments after the first, and writes what its probes cost to the file named first.

It puts a clock around the steps of a probe and around what they ask of the guest, libvirt and Ceph, and has the
script in the guest tell the time and what it used so far. The script's own words stay as they are.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from plimsoll_agent.adapters.ceph import Ceph
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.command import main as program
from plimsoll_probes.execute import runner
from plimsoll_probes.guest import session
from plimsoll_probes.guest.session import Session
from plimsoll_probes.store.history import History

# Times of the guest are seconds since it was started; what was used is in its process's line of /proc.
_CLOCK = """
clock() {
    read -r clock_up _ </proc/uptime
    read -r clock_own </proc/$$/stat
    echo "clock=$1 $clock_up $clock_own"
}
clock_limited() {
    read -r clock_own </proc/$PPID/stat
    echo "clock=limited 0 $clock_own"
}
case $1 in run | fill) clock_limited && clock began ;; esac
"""
_RUN = '    guarded_fio "$limit" --output-format=json+ job.fio\n'
_TOLD = '        echo "bytes=$(wc -c <out.json.gz)"\n'
_FILL = '    guarded_fio "$5" --name=fill'
_FILLED = "        --ioengine=psync --thread\n"
_BEFORE, _AFTER = "    clock before_fio\n", "    clock after_fio\n"


def with_clocks(script: str) -> str:
    """The same, which tells a line ``clock=MOMENT UPTIME STAT`` here and there. Raises ``RuntimeError``."""
    for place, instead in (
        ("set -u\n", f"set -u\n{_CLOCK}"),
        (_RUN, _BEFORE + _RUN + _AFTER),
        (_TOLD, f"{_TOLD}        clock ended\n"),
        (_FILL, _BEFORE + _FILL),
        (_FILLED, _FILLED + _AFTER),
    ):
        if script.count(place) != 1:
            raise RuntimeError(f"session.sh has not one {place!r}: bench/probed.py is to follow it")
        script = script.replace(place, instead)
    return script


def main(into: Path, words: list[str]) -> NoReturn:
    steps: list[dict[str, Any]] = []

    def timed(owner: Any, name: str, more: Callable[..., dict[str, Any]] = lambda *_, **__: {}) -> None:
        """``more`` is given the answer and then what was asked."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            step: dict[str, Any] = {"what": name.lstrip("_"), "began": time.monotonic()}
            used = _used()
            answer = function(*arguments, **named)
            own, children = _used()
            step |= {"ended": time.monotonic(), "own": own - used[0], "children": children - used[1]}
            steps.append(step | more(answer, *arguments, **named))
            return answer

        setattr(owner, name, call)

    session.SCRIPT = with_clocks(session.SCRIPT)
    timed(runner, "_one_job", _judged)
    timed(Session, "look")
    timed(Session, "fill")
    timed(Session, "run", lambda answer, *_: {"fio": answer[0].seconds})
    timed(Session, "clean")
    timed(Session, "_script", _told)
    timed(Libvirt, "agent", lambda _, __, ___, request, *____: {"command": json.loads(request)["execute"]})
    timed(Libvirt, "survey")
    timed(Libvirt, "block_stats")
    timed(Ceph, "health")
    timed(History, "add")
    leave = os._exit

    def tell_and_leave(status: int) -> NoReturn:
        into.write_text(json.dumps(steps))
        leave(0 if status == 3 else status)  # what a busy machine delivers is not what is measured here

    os._exit = tell_and_leave  # plimsoll's way out: nothing of ours would run after it
    program.main(words)


def _used() -> tuple[float, float]:
    """CPU seconds of this process and of those that it started and that have ended."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def _judged(result: Any, *_: Any) -> dict[str, Any]:
    return {"job": str(result.job.name), "verdict": str(result.finding.verdict), "why": str(result.finding.why)}


def _told(ran: Any, _: Any, verb: str, *__: Any, **___: Any) -> dict[str, Any]:
    """What the clocks in the guest said; a piece is the result's bytes, and has none."""
    if verb not in ("run", "fill"):
        return {"verb": verb, "clocks": {}}
    clocks = {}
    for line in ran.out.decode(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key == "clock":
            moment, up, stat = value.split(" ", 2)
            clocks[moment] = {"up": float(up), "stat": stat}
    return {"verb": verb, "clocks": clocks}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
