"""The size of a monitor's store, while RocksDB writes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.errors import Unreachable
from plimsoll_insight.cli.drill_sources import store_size


def test_the_sizes_of_all_files_of_all_stores_are_added(tmp_path: Path) -> None:
    for store, size in (("a", 1000), ("b", 500)):
        (tmp_path / store).mkdir()
        (tmp_path / store / "000123.sst").write_bytes(bytes(size))
        (tmp_path / store / "CURRENT").write_bytes(bytes(16))
    assert [*store_size([tmp_path / "a", tmp_path / "b"], lambda: 7.0)()] == [(7.0, {"store": 1532})]


def test_a_file_that_is_just_replaced_makes_a_reading_less_and_a_store_that_is_gone_is_unknown(
    tmp_path: Path,
) -> None:
    (tmp_path / "compacted").symlink_to("none")
    assert [*store_size([tmp_path], lambda: 7.0)()] == []
    with pytest.raises(Unreachable, match=r"the monitor's store is not there"):
        [*store_size([tmp_path / "gone"], lambda: 7.0)()]
