"""The parts of the cloud and how far each has come, kept on disk for the next program that asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from .command import LabError
from .layout import Layout

# Each part and what it stands on: libvirt's secret holds a key of Ceph, Nova asks Keystone and Cinder, and so on.
NEEDS: dict[str, tuple[str, ...]] = {
    "ceph": (),
    "libvirt": ("ceph",),
    "guest": ("ceph", "libvirt"),
    "openstack": ("ceph", "libvirt"),
    "nova": ("ceph", "libvirt", "openstack"),
    "etcd": (),
    "prometheus": (),
    "nagios": (),
    "fleet": ("ceph", "libvirt"),
}
PARTS = tuple(NEEDS)

State = Literal["down", "begun", "up"]


def with_what_they_need(wanted: Iterable[str]) -> tuple[str, ...]:
    """In the order in which they come up."""
    chosen = list(wanted)
    unknown = [part for part in chosen if part not in PARTS]
    if unknown:
        raise LabError(f"no part {unknown[0]}: there are {', '.join(PARTS)}")
    needed = {need for part in chosen for need in NEEDS[part]}
    return tuple(part for part in PARTS if part in needed or part in chosen)


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
