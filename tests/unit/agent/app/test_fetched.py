"""How far the catalogue that was fetched counts: its source, its age, and whether it can be read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.app.fetched import catalogue_actual, congestion_actual
from plimsoll_agent.catalogue.model import NAME, Catalogue, save
from plimsoll_agent.config import settings as config
from plimsoll_agent.congestion.published import FactorFile, Factors, encode
from plimsoll_agent.messages.sentences import note_words
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.util.frozen import replace
from tests.unit.agent.congestion.values import a_factor_file
from tests.unit.enforcing import KNOWN, settings
from tests.unit.node import FSID
from tests.unit.regionfile import a_key, keep_public
from tests.unit.values import NOON

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def counts(known: Catalogue | Unknown | None) -> Code | bool:
    """Whether it counts; the code where nobody knows."""
    return known.reason.code if isinstance(known, Unknown) else known is not None


def test_while_no_service_is_to_be_asked_no_file_counts(tmp_path: Path) -> None:
    save(tmp_path, KNOWN)
    assert catalogue_actual(settings(tmp_path, source="none"), NOON) == (None, None)


@pytest.mark.parametrize("source", ["openstack", "region-file"])
def test_what_was_fetched_counts_whoever_it_is_from(tmp_path: Path, source: str) -> None:
    save(tmp_path, KNOWN)
    assert catalogue_actual(settings(tmp_path, source=source), NOON + HOUR) == (KNOWN, None)


def test_before_the_first_refresh_all_is_unknown(tmp_path: Path) -> None:
    """And not "nobody is asked": every default would be put on volumes of which Cinder says something else."""
    known, doubt = catalogue_actual(settings(tmp_path), NOON)
    assert counts(known) is Code.NO_CATALOGUE
    assert doubt is not None
    assert doubt == because(Code.NO_CATALOGUE, detail=f"{tmp_path} is empty; run plimsoll catalogue refresh")
    assert known == Unknown(doubt), "each volume tells why"
    assert str(doubt.facts["detail"]) in note_words(doubt)


@pytest.mark.parametrize("content", ["", "{", '{"kind": "plimsoll-catalogue", "version": 99}'])
def test_a_file_that_cannot_be_read_is_named_and_all_is_unknown(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    known, doubt = catalogue_actual(settings(tmp_path), NOON)
    assert counts(known) is Code.CATALOGUE_UNREADABLE
    assert doubt is not None
    assert known == Unknown(doubt), "each volume tells why"
    assert doubt.code is Code.CATALOGUE_UNREADABLE
    assert str(doubt.facts["detail"]).startswith(f"{tmp_path / NAME}: ")
    assert str(tmp_path / NAME) in note_words(doubt)
    assert (tmp_path / NAME).read_text() == content, "it is the refresher's: a pass only reads it"


@pytest.mark.parametrize(
    ("age", "keep_for", "expected", "doubt"),
    [
        (2 * HOUR, 0, True, None),
        (2 * HOUR + timedelta(seconds=1), 0, True, Code.CATALOGUE_STALE),
        (1000 * DAY, 0, True, Code.CATALOGUE_STALE),
        (DAY, 86400, True, Code.CATALOGUE_STALE),
        (DAY + timedelta(seconds=1), 86400, Code.CATALOGUE_EXPIRED, Code.CATALOGUE_EXPIRED),
        (HOUR, 60, Code.CATALOGUE_EXPIRED, Code.CATALOGUE_EXPIRED),
        (HOUR, 1, Code.CATALOGUE_EXPIRED, Code.CATALOGUE_EXPIRED),
        (-DAY, 60, True, None),
    ],
    ids=["fresh", "old", "for ever", "enforced", "outdated", "short", "a second", "the clock went back a day"],
)
def test_what_cinder_said_last_counts_as_long_as_it_is_to(
    tmp_path: Path, age: timedelta, keep_for: int, expected: Code | bool, doubt: Code | None
) -> None:
    save(tmp_path, KNOWN)
    known, said = catalogue_actual(settings(tmp_path, keep_for=keep_for, stale_after=7200), NOON + age)
    assert counts(known) == expected
    assert (said and said.code) == doubt
    if said is not None:
        assert said.facts["detail"] == "not refreshed from north since 2026-11-20 12:00 UTC"
        assert str(said.facts["detail"]) in note_words(said)


def test_a_clock_that_jumps_a_day_ahead_and_back_loses_nothing(tmp_path: Path) -> None:
    save(tmp_path, KNOWN)
    chosen = settings(tmp_path, keep_for=3600)
    met = [counts(catalogue_actual(chosen, NOON + ahead)[0]) for ahead in (HOUR, DAY, HOUR)]
    assert met == [True, Code.CATALOGUE_EXPIRED, True]


# --- factors of congestion


OFF = config.load([], []).congestion


@pytest.fixture
def fetched(tmp_path: Path) -> Callable[..., Factors]:
    """Puts files where the fetcher does, and reads them as a pass."""

    def read(*files: FactorFile, late: int = 0, signer: int = 1) -> Factors:
        key = keep_public(tmp_path / "congestion.pub", a_key())
        for index, file in enumerate(files):
            (tmp_path / f"congestion-{index}.json").write_bytes(a_key(signer).seal(encode(file)))
        settings = replace(OFF, files=("a", "b")[: len(files)], key=key)
        factors = congestion_actual(settings, tmp_path, NOON + timedelta(seconds=late))
        assert factors is not None
        return factors

    return read


def test_of_two_files_about_a_cluster_the_newest_counts(fetched: Callable[..., Factors]) -> None:
    new, old = a_factor_file(generation=9), a_factor_file(generation=8)
    assert fetched(old, new).clusters == fetched(new, old).clusters == {FSID: new}
    assert fetched(new).fault == ""


def test_a_process_that_lives_on_refuses_an_older_file_and_one_that_expired(
    fetched: Callable[..., Factors],
) -> None:
    assert fetched(a_factor_file(generation=9)).clusters
    assert "is older (generation 8)" in fetched(a_factor_file(generation=8)).fault
    late = fetched(a_factor_file(generation=9), late=91)
    assert (late.clusters, "expired at 2026" in late.fault) == ({}, True)


def test_a_file_of_another_key_does_not_count_and_the_fault_says_so(fetched: Callable[..., Factors]) -> None:
    factors = fetched(a_factor_file(), signer=2)
    assert (factors.clusters, "the signature is not that of" in factors.fault) == ({}, True)


def test_without_files_in_the_settings_congestion_is_switched_off(tmp_path: Path) -> None:
    assert congestion_actual(OFF, tmp_path, NOON) is None
    factors = congestion_actual(replace(OFF, files=("/srv/c.json",)), tmp_path, NOON)
    assert factors is not None
    assert "run plimsoll congestion fetch" in factors.fault
