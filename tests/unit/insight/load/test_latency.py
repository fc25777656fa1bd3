"""Latency histograms of QEMU: what is set, read, added up and removed, and what a killed command leaves."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.errors import DeadlineExceeded, NotFound, PlimsollError, Rejected
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.store.state import CorruptState, State
from plimsoll_insight.load import latency
from plimsoll_insight.load.latency import (
    BOUNDARIES,
    DIRECTIONS,
    HistogramGuest,
    Histograms,
    LatencyHistogram,
    devices,
    merge,
)
from plimsoll_probes.model.histogram import Quantile, bucket_of, edges
from tests.unit.values import GUEST, a_disk, a_guest

URI = "qemu:///system"
OTHER = "2ebc1454-0d31-4367-8c90-06e18daa66f9"


class Qemu:
    """QEMU's histograms of the devices of guests, as block-latency-histogram-set and query-blockstats have them."""

    def __init__(self, *paths: tuple[str, str]) -> None:
        self.set: dict[tuple[str, str], tuple[list[int], dict[str, list[int]]] | None] = dict.fromkeys(paths)
        self.trouble: dict[str, PlimsollError] = {}
        self.before_each: Any = lambda: None

    def monitor(self, uuid: str, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
        if uuid in self.trouble:
            raise self.trouble[uuid]
        if command == "query-blockstats":
            return [self._entry(path, found) for (of, path), found in self.set.items() if of == uuid]
        assert command == "block-latency-histogram-set"
        self.before_each()
        boundaries = (arguments or {}).get("boundaries")
        bins = {way: [0] * (len(boundaries or ()) + 1) for way in DIRECTIONS}
        self.set[uuid, (arguments or {})["id"]] = boundaries and (boundaries, bins)
        return {}

    def _entry(self, path: str, found: tuple[list[int], dict[str, list[int]]] | None) -> dict[str, Any]:
        boundaries, bins = found or ([], {})
        stats = {DIRECTIONS[way]: {"boundaries": boundaries, "bins": each} for way, each in bins.items()}
        return {"device": "", "qdev": path, "stats": {"rd_bytes": 1, **stats}}

    def request(self, uuid: str, path: str, way: str, nanoseconds: int) -> None:
        """Counted as QEMU's documentation has it: [10, 50, 100] are the intervals [0, 10), [10, 50), [50, 100), …"""
        found = self.set[uuid, path]
        assert found is not None
        boundaries, bins = found
        bins[way][sum(boundary <= nanoseconds for boundary in boundaries)] += 1


def path_of(alias: str) -> str:
    return f"/machine/peripheral/{alias}/virtio-backend"


VDB = (GUEST, path_of("ua-1"))
VDC = (GUEST, path_of("virtio-disk2"))


@pytest.fixture
def qemu() -> Qemu:
    return Qemu(VDB, VDC, (OTHER, path_of("ua-1")))


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "state")


@pytest.fixture
def histograms(qemu: Qemu, state: State) -> Histograms:
    return Histograms(qemu, state, URI)


def disk(alias: str = "ua-1", uuid: str = GUEST) -> Disk:
    return a_disk(a_guest(uuid=uuid), alias=alias, volume_id=None, image=alias)


def counts(**each: int) -> LatencyHistogram:
    """By the number of the interval: ``_0=3``."""
    return LatencyHistogram(tuple(each.get(f"_{number}", 0) for number in range(len(BOUNDARIES) + 1)))


def test_each_request_is_in_the_interval_that_its_nanoseconds_belong_to(qemu: Qemu, histograms: Histograms) -> None:
    histograms.set([disk()])
    for each in (0, 32_767, 32_768, 40_959, 40_960, 15_032_385_535, 15_032_385_536, 20_000_000_000):
        qemu.request(*VDB, "write", each)
    found = histograms.read()[disk().key]
    assert found["write"] == counts(_0=2, _1=2, _2=1, _75=1, _76=2)
    assert found["write"].saturated == 2
    assert found["read"].count == found["flush"].count == 0


def test_boundaries_rise_as_qemu_requires_by_a_quarter_at_most_and_are_edges_of_fios_buckets() -> None:
    assert BOUNDARIES[:5] == (32_768, 40_960, 49_152, 57_344, 65_536)
    assert all(one < next <= one * 1.25 for one, next in pairwise(BOUNDARIES))
    assert all(edges(bucket_of(each))[0] == each for each in BOUNDARIES)
    assert BOUNDARIES[-1] == 15_032_385_536


def test_a_quantile_is_the_interval_of_the_request_of_that_rank() -> None:
    hundred = counts(_0=50, _1=49, _2=1)
    assert hundred.quantile(0.5) == Quantile(0, 32_768, 16_384)
    assert hundred.quantile(0.51) == Quantile(32_768, 40_960, 36_864)
    assert hundred.quantile(0.99) == Quantile(32_768, 40_960, 36_864)
    assert hundred.quantile(1) == Quantile(40_960, 49_152, 45_056)
    assert counts(_76=1).quantile(0.5) == Quantile(15_032_385_536, None, 15_032_385_536)
    assert counts().quantile(0.5) is None


def test_the_histograms_of_disks_add_up_exactly() -> None:
    one = {"read": counts(_10=3, _70=1), "write": counts(), "flush": counts(_5=2)}
    other = {"read": counts(_10=4, _71=6), "write": counts(_9=1), "flush": counts()}
    both = merge([one, other])
    assert both == {"read": counts(_10=7, _70=1, _71=6), "write": counts(_9=1), "flush": counts(_5=2)}
    assert both["read"].intervals[0] == (BOUNDARIES[9], BOUNDARIES[10], 7)
    assert merge([]) == {way: counts() for way in DIRECTIONS}


def test_only_the_disks_that_were_named_have_some_and_none_after_the_end(qemu: Qemu, histograms: Histograms) -> None:
    histograms.set([disk()])
    assert [path for path, found in qemu.set.items() if found] == [VDB]
    assert histograms.remove() == [GUEST]
    assert not any(qemu.set.values())
    assert histograms.complaints == []


def test_the_guest_is_in_the_file_before_anything_is_set(qemu: Qemu, state: State, histograms: Histograms) -> None:
    seen = []
    qemu.before_each = lambda: seen.append(latency.load(state))
    histograms.set([disk()])
    assert seen == [[HistogramGuest(URI, GUEST)]]
    histograms.remove()
    assert not state.histograms.exists()


def test_what_a_killed_command_left_is_removed_by_the_next(qemu: Qemu, state: State, histograms: Histograms) -> None:
    histograms.set([disk(), disk(uuid=OTHER)])
    assert set(Histograms(qemu, state, URI).remove()) == {GUEST, OTHER}
    assert not any(qemu.set.values())
    assert not state.histograms.exists()


def test_histograms_of_another_program_stay_and_are_not_read(qemu: Qemu, histograms: Histograms) -> None:
    qemu.monitor(GUEST, "block-latency-histogram-set", {"id": VDB[1], "boundaries": [10, 50]})
    histograms.set([disk()])
    assert histograms.read() == {}
    assert histograms.remove() == []
    assert qemu.set[VDB] is not None
    (complaint,) = histograms.complaints
    assert "another program has set histograms" in complaint


def test_a_guest_that_times_out_is_tried_again_and_stops_no_other(
    qemu: Qemu, state: State, histograms: Histograms
) -> None:
    histograms.set([disk(), disk(uuid=OTHER)])
    qemu.trouble[GUEST] = DeadlineExceeded("no answer within 5 s")
    assert list(histograms.read()) == [disk(uuid=OTHER).key]
    assert histograms.remove() == [OTHER]
    assert latency.load(state) == [HistogramGuest(URI, GUEST)]
    unknown, kept = histograms.complaints
    assert unknown == "instance-00000001: latencies unknown: no answer within 5 s"
    assert kept.endswith("the next plimsoll load tries again")
    qemu.trouble.clear()
    assert Histograms(qemu, state, URI).remove() == [GUEST]


def test_a_guest_in_which_nothing_was_set_is_not_asked_again(
    qemu: Qemu, state: State, histograms: Histograms
) -> None:
    qemu.trouble[GUEST] = Rejected("not supported")
    histograms.set([disk()])
    assert latency.load(state) == [HistogramGuest(URI, GUEST)]
    assert histograms.remove() == []
    assert histograms.complaints == ["instance-00000001: latencies not measured: not supported"]
    assert not state.histograms.exists()


def test_a_guest_that_was_left_by_another_command_stays_in_the_file_until_it_answers(
    qemu: Qemu, state: State, histograms: Histograms
) -> None:
    histograms.set([disk()])
    qemu.trouble[GUEST] = DeadlineExceeded("no answer within 5 s")
    second = Histograms(qemu, state, URI)
    second.set([disk()])
    second.remove()
    assert latency.load(state) == [HistogramGuest(URI, GUEST)]


def test_a_set_that_times_out_may_still_be_made_so_the_guest_stays_in_the_file(
    qemu: Qemu, state: State, histograms: Histograms
) -> None:
    def late() -> None:
        qemu.trouble[GUEST] = DeadlineExceeded("no answer within 5 s")
        raise qemu.trouble[GUEST]

    qemu.before_each = late
    histograms.set([disk()])
    histograms.remove()
    assert latency.load(state) == [HistogramGuest(URI, GUEST)]


def test_a_guest_that_is_gone_is_forgotten(qemu: Qemu, state: State, histograms: Histograms) -> None:
    histograms.set([disk()])
    qemu.trouble[GUEST] = NotFound("the guest is gone")
    assert histograms.remove() == []
    assert not state.histograms.exists()


def test_guests_of_another_libvirt_are_left_to_a_command_there(
    qemu: Qemu, state: State, histograms: Histograms
) -> None:
    histograms.set([disk()])
    assert Histograms(qemu, state, "test:///default").remove() == []
    assert qemu.set[VDB] is not None
    assert latency.load(state) == [HistogramGuest(URI, GUEST)]


def test_a_disk_that_qemu_does_not_know_is_a_complaint(histograms: Histograms) -> None:
    histograms.set([disk("ua-9"), disk("virtio-disk2")])
    assert list(histograms.read()) == [disk("virtio-disk2").key]
    (complaint,) = histograms.complaints
    assert "QEMU has no device of this name" in complaint


def test_a_corrupt_file_is_an_error_that_new_histograms_replace(state: State, histograms: Histograms) -> None:
    state.prepare()
    state.histograms.write_text('{"version": 1, "guests": 7}')
    with pytest.raises(CorruptState, match=r"histograms\.json"):
        histograms.remove()
    histograms.set([disk()])
    assert latency.load(state) == [HistogramGuest(URI, GUEST)]


@pytest.mark.parametrize(
    "answer",
    [
        7,
        [{"qdev": "a"}],
        [{"qdev": 7, "stats": {}}],
        [{"qdev": "a", "stats": {name: {"boundaries": 7, "bins": []} for name in DIRECTIONS.values()}}],
        [{"qdev": "a", "stats": {name: {"boundaries": BOUNDARIES, "bins": [1]} for name in DIRECTIONS.values()}}],
        [
            {
                "qdev": "a",
                "stats": {
                    name: {"boundaries": BOUNDARIES, "bins": [-1] * (len(BOUNDARIES) + 1)}
                    for name in DIRECTIONS.values()
                },
            }
        ],
    ],
)
def test_an_answer_that_is_not_qemus_is_refused(answer: object) -> None:
    with pytest.raises(Rejected, match="not understood"):
        devices(answer)
