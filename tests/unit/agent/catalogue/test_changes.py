"""Which guests a new catalogue concerns."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.catalogue.changes import changed_guests
from plimsoll_agent.catalogue.model import Catalogue, Server, Volume
from plimsoll_agent.util.frozen import replace
from tests.unit.clouds import a_catalogue, a_spec, a_type
from tests.unit.values import NOON

SPEC = a_spec("gold-iops", total_iops_sec="500")
TYPE = a_type("gold", SPEC)
LATER = NOON + timedelta(minutes=5)
MET = Attachments(
    {key: Attachment(mark="m", since=NOON) for key in ("g1/v1", "g2/v2", "g3/v2")},
    {"g4": Attachment(mark="m", since=NOON)},
)


def known(**other: object) -> Catalogue:
    return replace(
        a_catalogue(SPEC, types=[TYPE], volumes={"v1": TYPE, "v2": TYPE}),
        servers={"g4": Server(extra_specs={"quota:disk_read_iops_sec": "9"}, marks=frozenset({"m"}), read=NOON)},
        **other,  # type: ignore[arg-type]
    )


def with_volume(id: str, **other: object) -> Catalogue:
    before = known()
    volume = before.volumes.get(id, Volume(type=TYPE.id, marks=frozenset({"m"}), read=NOON))
    return replace(before, volumes={**before.volumes, id: replace(volume, **other)})  # type: ignore[arg-type]


def test_the_same_data_read_again_concerns_no_guest() -> None:
    again = replace(with_volume("v1", read=LATER), issued=LATER, generation=7)
    assert changed_guests(known(), again, MET) == frozenset()
    assert changed_guests(None, None, MET) == frozenset()


@pytest.mark.parametrize(
    ("after", "guests"),
    [
        (with_volume("v1", type="id-of-silver"), {"g1"}),
        (with_volume("v1", missing=True), {"g1"}),
        (with_volume("v2", marks=frozenset({"m", "n"})), {"g2", "g3"}),
        (with_volume("v9"), set()),
        (replace(known(), volumes={}), {"g1", "g2", "g3"}),
        (replace(known(), servers={}), {"g4"}),
        (replace(known(), servers={"g4": Server(extra_specs={}, marks=frozenset({"m"}), read=NOON)}), {"g4"}),
    ],
)
def test_other_data_concerns_the_guests_that_have_the_volume_or_the_flavor(
    after: Catalogue, guests: set[str]
) -> None:
    assert changed_guests(known(), after, MET) == guests
    assert changed_guests(after, known(), MET) == guests


@pytest.mark.parametrize(
    "after",
    [
        known(specs={}),
        known(types={}),
        known(source="south"),
        None,
    ],
)
def test_other_specs_or_types_may_concern_every_guest(after: Catalogue | None) -> None:
    assert changed_guests(known(), after, MET) is None
    assert changed_guests(after, known(), MET) is None
