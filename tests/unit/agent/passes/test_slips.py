"""Of 40 slips each that goes through has a reason, and of 40 everyday edits two ask for an approval."""

from __future__ import annotations

import pytest

from tests import slips
from tests.slips import Stop
from tests.tables import SLIPS, Table, standing

STOPS = {Stop.EACH.value, Stop.MANY.value}


def test_each_slip_that_goes_through_somewhere_has_a_reason() -> None:
    rows = slips.slips()
    assert len(rows) == 40
    for name, *stops, why in rows:
        assert (why != slips.ABSENT) is (Stop.NONE.value in stops), name


def test_at_most_two_everyday_edits_ask_for_an_approval() -> None:
    rows = slips.everyday()
    assert len(rows) == 40
    assert [name for name, *stops in rows if STOPS & {*stops}] == [
        "twice as much",
        "a limit of bytes beside requests",
    ]


@pytest.mark.parametrize("table", SLIPS, ids=lambda table: table.header[0])
def test_the_page_says_what_the_brakes_do(table: Table) -> None:
    assert standing(table) == table.text, "run: python -m tests.tables"
