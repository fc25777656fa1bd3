"""fio's JSON from a guest: what was measured as it stands there, or a trouble."""

from __future__ import annotations

import json

from plimsoll_probes.guest.fio import parse
from plimsoll_probes.model.finding import Trouble
from plimsoll_probes.model.job import Job, JobName
from tests.fuzz.refusals import assert_short_facts


def target(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for name in JobName:
        try:
            measured = parse(text, Job(name=name), engine="libaio")
        except Trouble as error:
            assert_short_facts(error, 300)
            continue
        (told,) = json.loads(text[text.index("{") :])["jobs"]
        assert measured.seconds > 0
        assert measured.unfinished >= 0
        for direction, flow in (("read", measured.read), ("write", measured.write)):
            bins = told[direction]["clat_ns"].get("bins", {})
            assert (flow.operations if flow else 0) == sum(bins.values())
            if flow is not None:
                assert flow.bytes == told[direction]["io_bytes"]
                assert all(flow.latency.quantile(share) is not None for share in (0.5, 0.99, 1.0))
