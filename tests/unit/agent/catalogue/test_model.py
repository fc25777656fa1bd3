"""The catalogue's file: read as it was written or refused, whatever became of it; and what makes it another one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.model import (
    NAME,
    Catalogue,
    CatalogueError,
    CorruptCatalogue,
    NewerCatalogue,
    Server,
    Volume,
    VolumeType,
    load,
    save,
)
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.util.frozen import replace
from tests.unit.nobody import umask
from tests.unit.values import GUEST, NOON, VOLUME

DATA = Path(__file__).parents[2] / "data"
SPEC = QosSpec(id="s-1", name="gold-iops", consumer="front-end", keys={"total_iops_sec": "3000", "odd": None})
TYPE = VolumeType(id="t-1", name="gold", qos_spec="s-1")
WHOLE = Catalogue(
    7,
    NOON,
    "north",
    {"s-1": SPEC, "s-2": QosSpec(id="s-2", name="none", consumer="back-end", keys={})},
    {"t-1": TYPE, "t-2": VolumeType(id="t-2", name="hidden", qos_spec=None, hidden=True)},
    {
        VOLUME: Volume(type="t-1", marks=frozenset({"a1", "b2"}), read=NOON),
        "v-2": Volume(type=None, marks=frozenset(), read=NOON, missing=True),
    },
    {GUEST: Server(extra_specs={"quota:disk_read_iops_sec": "222"}, marks=frozenset({"c3"}), read=NOON)},
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples share it."""
    return tmp_path_factory.mktemp("catalogue")


@pytest.fixture(scope="module")
def whole(directory: Path) -> Mapping[str, Any]:
    save(directory, WHOLE)
    written: Mapping[str, Any] = json.loads((directory / NAME).read_text())
    return written


# --- written and read again


def test_what_is_written_is_what_is_read(directory: Path) -> None:
    """With any other texts, times and numbers it is the fuzzing's."""
    save(directory, WHOLE)
    assert load(directory) == WHOLE


def test_where_there_is_none_there_is_none(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    assert load(tmp_path / "no such directory") is None


def test_everybody_who_may_enter_the_directory_may_read_it(tmp_path: Path) -> None:
    """The refresher writes as its own user; the pass is another."""
    with umask(0o077):
        save(tmp_path, WHOLE)
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o644


def test_an_entry_stands_on_a_line_so_that_two_files_can_be_compared(tmp_path: Path) -> None:
    save(tmp_path, WHOLE)
    before = (tmp_path / NAME).read_text().splitlines()
    edited = replace(SPEC, keys={"total_iops_sec": "30", "odd": None})
    save(tmp_path, replace(WHOLE, specs={**WHOLE.specs, "s-1": edited}))
    after = (tmp_path / NAME).read_text().splitlines()
    assert [(old, new) for old, new in zip(before, after, strict=True) if old != new] == [
        (line, line.replace("3000", "30")) for line in before if "3000" in line
    ]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    save(tmp_path, WHOLE)
    with pytest.raises(CatalogueError, match="cannot be written"):
        save(tmp_path / "no such directory", WHOLE)
    assert load(tmp_path) == WHOLE


# --- damaged


def read(directory: Path, content: bytes) -> Catalogue | None:
    """What it is read as; None for ``CorruptCatalogue`` and ``NewerCatalogue``. Others pass through."""
    (directory / NAME).write_bytes(content)
    try:
        return load(directory)
    except (CorruptCatalogue, NewerCatalogue) as error:
        complaint = str(error)
    assert complaint.startswith(f"{directory / NAME}: "), "it names the file"
    assert len(complaint) < 10_000, "and does not repeat it"
    return None


Place = tuple[str | int, ...]


def places(value: object, at: Place = ()) -> Iterator[Place]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in inside:
        yield (*at, name)
        yield from places(inner, (*at, name))


def test_a_part_that_is_missing_is_never_taken_for_a_word_of_cinders(
    directory: Path, whole: Mapping[str, Any]
) -> None:
    """A type whose ``qos_spec`` got lost has no "no spec", a volume without ``missing`` was not seen."""
    for place in places(whole):
        sections = ("specs", "types", "volumes", "servers")
        if any(isinstance(name, int) for name in place) or (place[0] in sections and len(place) == 2):
            continue  # an entry less is another catalogue
        inside = copy = json.loads(json.dumps(whole))
        for name in place[:-1]:
            inside = inside[name]
        del inside[place[-1]]
        if place[2:3] in (("specs",), ("extra_specs",)) and len(place) == 4:
            continue  # so is a key less
        assert read(directory, json.dumps(copy).encode()) is None, place


def test_a_spec_under_anothers_id_is_corrupt(directory: Path, whole: Mapping[str, Any]) -> None:
    """Its type would be given another's limits."""
    specs = whole["specs"]
    another = whole | {"specs": specs | {"s-1": specs["s-1"] | {"id": "s-2"}}}
    assert read(directory, json.dumps(another).encode()) is None


def test_a_newer_file_is_not_called_corrupt(directory: Path, whole: Mapping[str, Any]) -> None:
    """Nothing is wrong with it: setting it aside would lose what the newer plimsoll comes back to."""
    (directory / NAME).write_text(json.dumps(whole | {"version": 4}))
    with pytest.raises(NewerCatalogue, match=r"newer plimsoll \(version 4, known up to 3\)"):
        load(directory)


@pytest.mark.parametrize(("commit", "volume"), [("0ee6323", "v1"), ("6c1ac21", VOLUME)])
def test_a_file_of_a_version_before_is_read_without_its_orders(tmp_path: Path, commit: str, volume: str) -> None:
    (tmp_path / NAME).write_bytes((DATA / f"catalogue_{commit}.json").read_bytes())
    known = load(tmp_path)
    assert known is not None
    assert "a1" in known.volumes[volume].marks
    save(tmp_path, known)
    assert load(tmp_path) == known


def test_another_kind_of_file_is_corrupt_even_if_newer(directory: Path, whole: Mapping[str, Any]) -> None:
    (directory / NAME).write_text(json.dumps(whole | {"version": 4, "kind": "plimsoll-region"}))
    with pytest.raises(CorruptCatalogue, match="is not a plimsoll-catalogue file"):
        load(directory)


def test_a_file_that_was_made_huge_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, WHOLE)
    size = (tmp_path / NAME).stat().st_size
    monkeypatch.setattr(catalogue, "MOST_BYTES", size)
    assert load(tmp_path) == WHOLE
    monkeypatch.setattr(catalogue, "MOST_BYTES", size - 1)
    with pytest.raises(CorruptCatalogue, match="is larger than"):
        load(tmp_path)


# --- the revision

_TURNED = {"s-2": WHOLE.specs["s-2"], "s-1": replace(SPEC, keys={"odd": None, "total_iops_sec": "3000"})}


@pytest.mark.parametrize(
    "same",
    [
        replace(WHOLE, specs=_TURNED, types=dict(sorted(WHOLE.types.items(), reverse=True))),
        replace(WHOLE, issued=NOON + timedelta(days=1)),
        replace(WHOLE, generation=8, source="south"),
        replace(WHOLE, volumes={}, servers={}),
    ],
    ids=["order", "time", "generation", "volumes"],
)
def test_the_same_specs_and_types_are_one_revision_on_every_node(same: Catalogue) -> None:
    assert same.revision == WHOLE.revision


@pytest.mark.parametrize(
    "other",
    [
        replace(WHOLE, specs={**WHOLE.specs, "s-1": replace(SPEC, keys={"total_iops_sec": "30", "odd": None})}),
        replace(WHOLE, specs={**WHOLE.specs, "s-1": replace(SPEC, keys={"total_iops_sec": "3000"})}),
        replace(WHOLE, specs={**WHOLE.specs, "s-1": replace(SPEC, keys={"total_iops_sec": "3000", "odd": ""})}),
        replace(WHOLE, specs={**WHOLE.specs, "s-1": replace(SPEC, consumer="back-end")}),
        replace(WHOLE, specs={"s-1": SPEC}),
        replace(WHOLE, types={**WHOLE.types, "t-1": replace(TYPE, qos_spec="s-2")}),
        replace(WHOLE, types={**WHOLE.types, "t-1": replace(TYPE, qos_spec=None)}),
        replace(WHOLE, types={**WHOLE.types, "t-1": replace(TYPE, qos_spec=None, hidden=True)}),
        replace(WHOLE, types={"t-1": TYPE}),
    ],
    ids=["value", "key less", "null", "consumer", "spec less", "association", "none", "hidden", "type less"],
)
def test_an_approval_of_these_specs_is_none_of_others(other: Catalogue) -> None:
    assert other.revision != WHOLE.revision


# --- its age


def test_a_type_is_found_by_its_name_and_one_that_is_not_listed_has_no_id() -> None:
    """No approval names a type without an id."""
    types = {
        "id-1": VolumeType(id="id-1", name="gold", qos_spec=None),
        "id-2": VolumeType(id="id-2", name="silver", qos_spec=None),
    }
    known = Catalogue(1, NOON, "lab", types=types)
    assert [known.id_of_type(name) for name in ("gold", "silver", "id-1", None)] == ["id-1", "id-2", "", ""]


def test_its_age_is_never_below_nothing_whatever_a_clock_did() -> None:
    assert WHOLE.age(NOON + timedelta(minutes=3)) == timedelta(minutes=3)
    assert WHOLE.age(NOON - timedelta(days=1)) == timedelta()
    assert replace(WHOLE, issued=NOON.astimezone(timezone(timedelta(hours=5)))).age(datetime(
        2026, 11, 20, 12, 1, tzinfo=UTC
    )) == timedelta(minutes=1)  # fmt: skip
