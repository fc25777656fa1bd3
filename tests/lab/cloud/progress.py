"""The parts of the cloud and how far each has come, kept on disk for the next program that asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from .command import LabError
from .layout import Layout

PARTS = ("ceph", "libvirt", "guest")

State = Literal["down", "begun", "up"]


def with_what_they_need(wanted: Iterable[str]) -> tuple[str, ...]:
    """libvirt's secret holds a key of Ceph, and the guest needs both: each part stands on those before it."""
    chosen = list(wanted)
    unknown = [part for part in chosen if part not in PARTS]
    if unknown:
        raise LabError(f"no part {unknown[0]}: there are {', '.join(PARTS)}")
    return PARTS[: max((PARTS.index(part) + 1 for part in chosen), default=0)]


def state(layout: Layout, part: str) -> State:
    try:
        return "up" if layout.part(part).read_text() == "up" else "begun"
    except FileNotFoundError:
        return "down"


def set_state(layout: Layout, part: str, state: State) -> None:
    path = layout.part(part)
    path.parent.mkdir(exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(state)
    new.rename(path)


def half_made(layout: Layout) -> list[str]:
    """Parts whose maker was killed in the midst of it."""
    return [part for part in PARTS if state(layout, part) == "begun"]
