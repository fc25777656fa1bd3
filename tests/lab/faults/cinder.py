"""External changes of volumes that Cinder limits: by the node's own catalogue and by the region file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from lab import behind
from lab.cloud import Guest
from lab.cloud.disk import volume
from lab.node import Node
from plimsoll_agent.catalogue.model import SKEW
from plimsoll_agent.model.limits import Limits
from tests.functional import cloudserver
from tests.functional.cloudserver import cloud_server, credentials
from tests.functional.webserver import key_pair
from tests.lab.faults.scene import FULL_PASSES, LOOSE, TIGHT, USUAL, Row, Scene, Where
from tests.lab.passes import LIMIT

VOLUMES = (5, 5, 5, 5, 1)
"""Of each guest: 20 that are changed at once, and one over QMP, which an event of its guest would tell of."""
REVERTED = USUAL
"""Seconds after which an external change is reverted; on a busy machine ``ceph health``, for which a raise waits,
takes six by itself. While Cinder does not answer, nothing but the limits of before can revert one.
"""
REMOVED = {"total_iops_sec": 0}


class Site:
    """The scene's node with a catalogue, of which a small Cinder tells that every volume has ``LIMIT``."""

    def __init__(self, scene: Scene, cinder: cloudserver.Cloud, source: str) -> None:
        self._scene, self._cinder, self._node = scene, cinder, scene.node
        home = self._node.home
        keys = {"credentials_file": credentials(home, f"{cinder.url}/identity/v3"), "nova": False}
        cinder.specs = [
            {
                "id": "s",
                "name": "gold",
                "consumer": "front-end",
                "specs": {"total_iops_sec": str(LIMIT.total_iops_sec)},
            }
        ]
        cinder.types = [{"id": "t", "name": "gold", "qos_specs_id": "s"}]
        self._publish: Callable[[], None] | None = None
        if source == "openstack":
            self._node.use_catalogue(source=source, **keys)
            return
        key, public = key_pair(home)
        file = home / "region.json"
        (home / "region").mkdir(exist_ok=True)
        region = Node(home / "region", scene.cloud)
        region.use_catalogue(**keys)
        words = ("catalogue", "refresh", "--region-file", str(file), "--signing-key", str(key))
        self._publish = lambda: _ends_well(region, *words)
        self._node.use_region_file(file, public, nova=False)

    def learn(self, guests: Sequence[Guest]) -> None:
        """All volumes that are attached, once a pass has found those of these guests."""
        ids = {str(image.volume_id) for guest in guests for image in guest.disks.values()}

        def found() -> set[str]:
            return set(self._node.state.load_attachments().marks_of_volumes())

        self._scene.until(lambda: found() >= ids, "a pass has found the volumes", USUAL, found)
        gold = {"volume_type": "gold", "volume_type_id": "t", "size": 1}
        self._cinder.volumes = [{"id": id} | gold for id in found()]
        if self._publish is not None:
            time.sleep(SKEW.total_seconds())  # clocks may differ
            self._publish()
        assert self.refresh() == 0

    def edit(self, keys: dict[str, str]) -> None:
        """The QoS spec of all volumes."""
        self._cinder.specs[0]["specs"] = keys

    def refresh(self) -> int:
        return self._node.run("catalogue", "refresh", "--now").status

    def end(self) -> None:
        """Cinder answers no more, and no region file comes."""
        self._cinder.faults = {"/": [cloudserver.status(503), ...]}
        (self._node.home / "region.json").unlink(missing_ok=True)


def _ends_well(node: Node, *words: str) -> None:
    ran = node.run(*words)
    assert ran.status == 0, ran.err


@contextmanager
def with_catalogue(scene: Scene, source: str) -> Iterator[Site]:
    """The daemon with such a catalogue; then again without."""
    before = scene.node.settings.read_text()
    scene.stop()
    try:
        with cloud_server() as cinder:
            site = Site(scene, cinder, source)
            scene.start()
            yield site
    finally:
        scene.stop()
        scene.node.settings.write_text(before)
        scene.start()


@contextmanager
def changed(scene: Scene, victim: Guest, source: str) -> Iterator[None]:
    """While Cinder answers, and while it does not."""
    with with_catalogue(scene, source) as site:
        new = scene.cloud.paused_guests([[volume(2**30) for _ in range(number)] for number in VOLUMES])
        for guest in new:
            scene.watch.begin(guest.uuid)
        try:
            site.learn(new)
            *disks, over_qmp = [Where(guest, target) for guest in new for target in guest.disks]
            _right(scene, [*disks, over_qmp], USUAL)
            for answers in (True, False):
                if not answers:
                    site.end()
                scene.watch.excuse(over_qmp.guest.uuid, over_qmp.target)
                behind.set_limits(*over_qmp, Limits(**LOOSE))
                _change(scene, disks)
                if answers:  # by the pass of a timer; later by the daemon's
                    scene.node.run("enforce")
                _right(scene, [over_qmp], FULL_PASSES + REVERTED)
                assert (site.refresh() == 0) is answers
            yield
            _right(scene, disks, USUAL)
        finally:
            scene.end(new)


def _change(scene: Scene, disks: Sequence[Where]) -> None:
    """Removed, raised and lowered; again at once; and all at once, most of them for the first time."""
    for _ in range(2):
        for where, limits in zip(disks, (REMOVED, LOOSE, TIGHT), strict=False):
            scene.set(where.guest, [where.target], limits)
        _right(scene, disks, REVERTED)
    for where in disks:
        scene.set(where.guest, [where.target], REMOVED)
    _right(scene, disks, REVERTED)


def _right(scene: Scene, disks: Sequence[Where], within: float) -> None:
    scene.until_all([(where, LIMIT) for where in disks], within)


ROWS = tuple(
    Row(
        f"limits of Cinder volumes removed, raised, lowered, twice, over QMP, and of 20 at once; {name}",
        partial(changed, source=source),
        "reverted to the last desired limits; over QMP by the next pass over the node",
        "0.1 s",
    )
    for name, source in (
        ("own catalogue, while Cinder answers and while it does not", "openstack"),
        ("region file, while one comes and while none does", "region-file"),
    )
)
