"""What the lab keeps: made once, whatever happens to its makers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from lab.cloud import LabError, keep


def kept(cache: Path, name: str, make: Callable[[Path], Path], old: tuple[Path, ...] = (), space: int = 0) -> Path:
    return keep.ensure(cache, name, make, outdated=lambda: old, space=space, before=lambda: None)


def thing(build: Path) -> Path:
    (build / "out").mkdir()
    (build / "out/file").write_text("whole")
    return build / "out"


def refuse(build: Path) -> Path:
    raise AssertionError("it is there already")


def test_a_thing_is_made_once_and_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    old = kept(tmp_path, "thing-1", thing)
    home = kept(tmp_path, "thing-2", thing, old=(old,))
    assert (home.name, (home / "file").read_text(), old.exists()) == ("thing-2", "whole", False)
    assert kept(tmp_path, "thing-2", refuse) == home
    assert not list(tmp_path.glob("build-*"))


def test_different_things_are_made_side_by_side_and_one_thing_by_one_of_its_makers(tmp_path: Path) -> None:
    both_at_work = Barrier(2, timeout=30)
    made = []

    def make(build: Path) -> Path:
        both_at_work.wait()
        keep.tidy(tmp_path)
        made.append(build)
        return thing(build)

    with ThreadPoolExecutor() as pool:
        homes = [pool.submit(kept, tmp_path, name, make) for name in ("a", "b", "a", "b")]
        assert {(home.result() / "file").read_text() for home in homes} == {"whole"}
    assert len(made) == 2


def test_what_failed_half_way_leaves_nothing_and_is_made_the_next_time(tmp_path: Path) -> None:
    def fail(build: Path) -> Path:
        thing(build)
        raise LabError("no network")

    with pytest.raises(LabError):
        kept(tmp_path, "thing", fail)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["lock", "locks"]
    assert (kept(tmp_path, "thing", thing) / "file").exists()


def test_what_a_killed_maker_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "build-killed"
    thing(tmp_path).rename(left)
    keep.tidy(tmp_path)
    assert not left.exists()


def test_what_its_maker_removes_while_others_tidy_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "build-gone").symlink_to("nowhere")  # listed, and not there when it is opened
    keep.tidy(tmp_path)


def test_too_little_space_is_said_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"making thing needs \d+ MiB free"):
        kept(tmp_path, "thing", refuse, space=2**60)
