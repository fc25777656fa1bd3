"""How far the parts of the lab's cloud have come, as one of several programs sees it."""

from __future__ import annotations

from pathlib import Path

from lab.cloud import progress
from lab.cloud.layout import Layout


def test_a_part_is_half_made_when_its_maker_is_gone_and_not_while_it_is_at_work(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    with progress.locked(layout, "nova"):
        progress.set_state(layout, "nova", "begun")
        assert progress.half_made(layout, ["nova"]) == []
    assert progress.half_made(layout, ["ceph", "nova"]) == ["nova"]
    assert progress.half_made(layout, ["ceph"]) == [], "what failed elsewhere is no reason to begin again"
    progress.set_state(layout, "nova", "up")
    assert progress.half_made(layout, ["nova"]) == []


def test_a_part_comes_with_all_that_it_stands_on() -> None:
    for part in progress.PARTS:
        chosen = progress.with_what_they_need([part])
        needed = {need for one in chosen for need in progress.NEEDS[one]}
        assert needed | {part} == set(chosen)
        assert [progress.PARTS.index(one) for one in chosen] == sorted(progress.PARTS.index(one) for one in chosen)
