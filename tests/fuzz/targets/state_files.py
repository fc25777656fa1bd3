"""The other JSON files of a node, and those beside the region's file: each is read, or refused by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from plimsoll_agent.catalogue import attachments
from plimsoll_agent.catalogue.orders_file import RegionState
from plimsoll_agent.ceilings.buckets import step
from plimsoll_agent.congestion.following import follow
from plimsoll_agent.consoles import file as consoles_file
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.monitor import pass_metrics, pass_summary_file, prometheus_text
from plimsoll_agent.store import ceilings_file, clock, factors_file
from plimsoll_agent.store.refresh_state import RefreshDir
from plimsoll_agent.store.state import State
from plimsoll_insight.load import latency
from tests.fuzz import scratch
from tests.fuzz.refusals import assert_clear
from tests.unit.values import NOON


def _summary(state: State) -> None:
    """What is read of limits stands there as it is; whatever is read can be written and exposed."""
    last = pass_summary_file.load(state)
    if last is None:
        return
    written = json.loads(state.last_pass.read_bytes())
    for disk, of_file in zip(last.disks, written["disks"], strict=True):
        assert disk.kind == of_file["kind"]
        for limits, said in ((disk.actual, of_file["actual"]), (disk.desired, of_file["desired"])):
            assert (limits is None) == (said is None), "unknown is not unlimited"
            assert limits is None or set(limits.in_effect()) <= set(said)
    pass_summary_file.save(state, last)
    assert pass_summary_file.load(state) == last
    for detail in ("guest", "type"):
        prometheus_text.text(pass_metrics.families(last, detail=detail)).encode()


def _attachments(path: Path) -> None:
    """Limits that came back as others would be an external change, in each pass."""
    met = attachments.load(path)
    if met is not None:
        attachments.save(path, met)
        assert attachments.load(path) == met


def _consoles(state: State) -> None:
    found = consoles_file.load(state)
    assert found is None or all(guest.last is not None for _, guest in found.stalled)


def _factors(state: State) -> None:
    """Whatever is read can be gone on from, and written."""
    for enforces in (True, False):
        pools = follow(state.load_factors(), None, NOON, lambda _, enforces=enforces: enforces)
        assert all(0 < each.x <= 1 and (enforces or each.x == 1) for each in pools.values())
        assert factors_file.decoded(json.loads(factors_file.encoded(pools))) == pools


def _ceilings(state: State) -> None:
    """Likewise, where no disk shares them any more, and where their guests are not seen."""
    splits, looks = state.load_ceilings()
    sharers = {key for each in splits.values() for key in each.keys}
    assert step(splits, {}, NOON) == {}
    assert step(splits, {}, NOON, sharers).items() <= splits.items()
    assert all(set(each.allowed) == set(each.ceiling.rates()) for each in splits.values())
    data = json.loads(ceilings_file.encoded(splits, looks, state.boot))
    assert ceilings_file.decoded(data, state.boot) == (splits, looks)


def target(data: bytes) -> None:
    directory = scratch.directory()
    state, region = State(directory), RegionState(directory / "region.json")
    readers: tuple[tuple[Path, Callable[[], object]], ...] = (
        (state.last_pass, lambda: _summary(state)),
        (state.attachments, lambda: _attachments(state.attachments)),
        (state.orders, state.load_orders),
        (state.consoles, lambda: _consoles(state)),
        (state.histograms, lambda: latency.load(state)),
        (state.factors, lambda: _factors(state)),
        (state.ceilings, lambda: _ceilings(state)),
        (state.clock, lambda: clock.load(state.clock)),
        (directory / "refresh.json", lambda: RefreshDir(directory).load_notes().pausing(NOON)),
        (region.orders_file, region.orders),
        (region.last_file, region.last),
    )
    for path, read in readers:
        path.write_bytes(data)
        try:
            read()
        except PlimsollError as error:
            assert_clear(error, f"{path}: ")
        finally:
            path.unlink()
