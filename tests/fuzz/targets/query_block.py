"""QEMU's answer to ``query-block``, for ``disk show --verify``: a guest may have taken its QEMU over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.model.limits import Limits
from tests.fuzz.refusals import assert_clear


def target(data: bytes) -> None:
    answered: Any = SimpleNamespace(_ask=lambda *_: data.decode("utf-8", "replace"))
    try:
        found = Libvirt.qemu_says(answered, "")
    except PlimsollError as error:
        assert_clear(error)
        return
    assert all(isinstance(limits, Limits) for limits in found.values())
