"""The parts of the cloud and how far each has come, kept on disk for the next program that asks."""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from .command import LabError
from .layout import Layout

# Each part and what it stands on: libvirt's secret holds a key of Ceph, Nova asks Keystone and Cinder, and so on.
NEEDS: dict[str, tuple[str, ...]] = {
    "ceph": (),
    "libvirt": ("ceph",),
    "libvirt2": ("ceph",),
    "guest": ("ceph", "libvirt"),
    "openstack": ("ceph",),
    "nova": ("ceph", "openstack"),
    "etcd": (),
    "prometheus": (),
    "nagios": (),
    "fleet": ("ceph", "libvirt"),
}
PARTS = tuple(NEEDS)

State = Literal["down", "begun", "up"]


def with_what_they_need(desired: Iterable[str]) -> tuple[str, ...]:
    """In the order in which they come up."""
    chosen = list(desired)
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


@contextmanager
def locked(layout: Layout, part: str) -> Iterator[None]:
    """Hold a part's lock: one at a time makes it or heals it."""
    with _lock_file(layout, part).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def half_made(layout: Layout, parts: Iterable[str]) -> list[str]:
    """Those of these parts whose maker failed, or was killed in the midst of it."""
    return [part for part in parts if state(layout, part) == "begun" and not _at_work(layout, part)]


def _at_work(layout: Layout, part: str) -> bool:
    with _lock_file(layout, part).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return state(layout, part) != "begun"  # it may have come up since


def _lock_file(layout: Layout, part: str) -> Path:
    file = layout.part(part).with_suffix(".lock")
    file.parent.mkdir(exist_ok=True)
    return file
