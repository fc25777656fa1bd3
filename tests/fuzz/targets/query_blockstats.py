"""QEMU's answer to ``query-blockstats``, for ``load --latency``: a guest may have taken its QEMU over.

``"OURS"`` in a sample stands for the boundaries that plimsoll sets, and ``"BINS"`` for as many counts.
"""

from __future__ import annotations

import json

from plimsoll_agent.errors import PlimsollError
from plimsoll_insight.load.latency import BOUNDARIES, DIRECTIONS, devices, merge
from tests.fuzz.refusals import assert_clear
from tests.fuzz.targets.query_block import Answering

_OURS = json.dumps(BOUNDARIES).encode()
_BINS = json.dumps([*BOUNDARIES, 7]).encode()


def target(data: bytes) -> None:
    whole = data[:20_000].replace(b'"OURS"', _OURS).replace(b'"BINS"', _BINS)
    try:
        found = devices(Answering(whole).monitor("", "query-blockstats"))
    except PlimsollError as error:
        assert_clear(error)
        return
    for device in found:
        assert isinstance(device.path, str)
        if device.latencies is not None:
            assert not device.others
            assert all(histogram.count >= 0 for histogram in merge([device.latencies]).values())
            assert set(device.latencies) == set(DIRECTIONS)
