"""QEMU's answer to ``query-block``, for ``disk show --verify``: a guest may have taken its QEMU over."""

from __future__ import annotations

from typing import Any

from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.model.limits import Limits
from tests.fuzz.refusals import assert_clear


class Answering(Libvirt):
    """Each answer of QEMU is this."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def _ask(self, *_: Any) -> Any:
        return self._data.decode("utf-8", "replace")


def target(data: bytes) -> None:
    try:
        found = Answering(data).qemu_says("")
    except PlimsollError as error:
        assert_clear(error)
        return
    assert all(isinstance(limits, Limits) for limits in found.values())
