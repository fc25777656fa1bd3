"""``ceph status``, by which the health gate opens: no check that is raised may be lost."""

from __future__ import annotations

import json

from plimsoll_agent.adapters.ceph import parse
from plimsoll_agent.errors import Rejected
from tests.fuzz.refusals import assert_clear


def target(data: bytes) -> None:
    try:
        health = parse(data)
    except Rejected as error:
        assert_clear(error)
        return
    told = json.loads(data)
    assert set(health.raised) == set(told["health"]["checks"])
    assert health.fsid == told["fsid"]
