"""What the script of a probe prints in a guest: JSON, its output by the step, and fio's result."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from plimsoll_probes.guest.session import Premises, Session
from plimsoll_probes.guest.shell import Ran
from plimsoll_probes.model.finding import Trouble
from plimsoll_probes.model.job import Job, JobName
from tests.fuzz.refusals import assert_short_facts


class _Shell:
    def __init__(self, said: dict[str, Any]) -> None:
        self._said = said
        text = str(said.get("result", ""))
        packing = zlib.compressobj(wbits=31)
        self.result = packing.compress(text.encode("utf-8", "replace")) + packing.flush()
        if "packed" in said:
            try:
                self.result = base64.b64decode(str(said["packed"]))
            except ValueError:
                self.result = b""

    def check(self) -> None:
        pass

    def run(
        self,
        argv: Sequence[str],
        *,
        seconds: float,
        lasts: float = 0,
        stdin: bytes = b"",
        tell: Callable[[], None] = lambda: None,
    ) -> Ran:
        verb = argv[4]
        if verb == "piece":
            return Ran(status=0, signal=None, out=self.result, err=b"")
        out = str(self._said.get(verb, "")).replace("@size@", str(len(self.result)))
        status = self._said.get(f"{verb} status", 0)
        good = type(status) is int and 0 <= status < 256
        return Ran(
            status=status if good else 0, signal=None, out=out.encode("utf-8", "surrogatepass"), err=b"\xff err"
        )


def _step(take: Callable[[], Any]) -> Any:
    try:
        return take()
    except Trouble as error:
        assert_short_facts(error, 300)
        return None


_PREMISES = Premises(
    directory="/mnt",
    engines=("libaio",),
    cpus="0-1",
    device="vda",
    serial="",
    size=2**33,
    filesystem="ext4",
    free=2**32,
)


def target(data: bytes) -> None:
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        said = {"look": data.decode("utf-8", "replace")}
    if not isinstance(said, dict):
        return
    session = Session(shell=_Shell(said), directory="/mnt", name="s-1", grace=5, keep_free=0)
    premises = _step(lambda: session.look(2**20))
    assert premises is None or premises.free >= 2**20
    _step(lambda: session.fill(2**20))
    measured = _step(lambda: session.run(Job(name=JobName.MIXED), premises or _PREMISES))
    if measured is not None:
        assert measured[0].seconds > 0
        assert measured[0].cpu_busy is None or 0 <= measured[0].cpu_busy <= 1
    session.clean()
