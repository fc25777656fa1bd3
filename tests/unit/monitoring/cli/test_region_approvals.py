"""``plimsoll region approve`` and ``withdraw``: what stands in the orders after several of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval
from plimsoll_agent.catalogue.orders_file import LastReading, RegionState
from plimsoll_agent.catalogue.stages import Stages
from plimsoll_agent.config import settings as config
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.cli.region_approvals import RegionApprove, RegionWithdraw
from tests.unit.person import Person

RULES, SPECS, BEFORE = "ab" * 32, "cd" * 32, "ef" * 32
BEFORE_NOW, AFTER_NOW = datetime(2026, 11, 20, tzinfo=UTC), datetime(2126, 11, 20, tzinfo=UTC)


def in_stages(of: Of, digest: str, reached: int) -> RegionApproval:
    stages = Stages(percent=(1.0, 10.0, 100.0), wait=timedelta(minutes=30), before=BEFORE, types=("gold",))
    return RegionApproval(
        of=of,
        digest=digest,
        since=BEFORE_NOW,
        until=AFTER_NOW,
        by="ann",
        why="x",
        stages=stages.at(reached, BEFORE_NOW),
    )


class Maker(Person):
    """An operator on the machine that makes the region file, where an approval with stages is published."""

    def __init__(self, directory: Path, one: RegionApproval) -> None:
        self.state = RegionState(directory / "region.json")
        self.state.save_orders(Orders(staged=(one,)))
        last = LastReading(
            at=BEFORE_NOW, read=SPECS, published=BEFORE, types={"t": "gold"}, orders=Orders(staged=(one,))
        )
        self.state.save_last(last)

    def __call__(self, command: type, *words: str) -> Orders:
        here = config.load([], [])
        settings = replace(here, region=replace(here.region, file=self.state.out))
        assert self.types(command, *words, "--reason", "y", settings=settings) == 0
        orders = self.state.orders()
        assert orders is not None
        return orders


@pytest.mark.parametrize("withdrawn_between", [False, True])
@pytest.mark.parametrize(("of", "words"), [(Of.RULES, ("--rules", RULES)), (Of.SPECS, (SPECS,))])
def test_what_is_approved_again_in_stages_began_with_its_first_approval(
    tmp_path: Path, of: Of, words: tuple[str, ...], withdrawn_between: bool
) -> None:
    """Else what nodes changed before it was approved again is not restored, and is taken for the time before."""
    digest = words[-1]
    maker = Maker(tmp_path, in_stages(of, digest, 0))
    if withdrawn_between:  # and never published
        maker(RegionWithdraw, digest)
    for _ in range(2):
        (again,) = maker(RegionApprove, *words, "--stages", "1%,100%", "--without", "verdicts").staged
        assert (again.began, again.since > BEFORE_NOW) == (BEFORE_NOW, True)
        assert again.stages is not None
        assert again.stages.before == BEFORE
    (back,) = maker(RegionWithdraw, digest).withdrawals
    assert (back.began, back.before) == (BEFORE_NOW, BEFORE)


def test_an_approval_that_has_reached_all_nodes_counts_on_beside_the_next_with_stages(tmp_path: Path) -> None:
    """Nodes that come back later need it too."""
    maker = Maker(tmp_path, in_stages(Of.RULES, RULES, 2))
    orders = maker(RegionApprove, SPECS, "--stages", "1%,100%")
    assert [one.digest for one in orders.staged] == [SPECS]
    assert orders.approve(Of.RULES, RULES, datetime.now(UTC))
