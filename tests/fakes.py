"""A hypervisor for unit tests: QEMU's and libvirt's rules, no threads, no sockets. ``contract`` keeps it honest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn
from xml.sax.saxutils import escape, quoteattr

from plimsoll_agent.adapters.libvirt import domxml
from plimsoll_agent.errors import DeadlineExceeded, NotFound, NotSent, PlimsollError, Rejected
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import BlockStats, GuestRef, Movement, Sighting, Survey, Versions
from plimsoll_agent.model.limits import Limits, LimitsError
from plimsoll_agent.model.marks import NAMESPACE, PREFIX, Marks
from plimsoll_agent.util.frozen import of_tuple, replace

VOLUME = "6665c608-001a-4ea4-a2eb-d491b58efc11"
UNLIMITED = Limits()
PROJECT = "76f321b2fd294e5fa90eb0525110f9e2"


@dataclass
class FakeDisk:
    """A disk as QEMU and libvirt hold it: what is in force, and what libvirt believes."""

    image: str
    pool: str = "volumes"
    volume_id: str | None = None
    actual: Limits = field(default_factory=Limits)
    defined: Limits = field(default_factory=Limits)
    persistent: Limits = field(default_factory=Limits)
    size: int | None = 10 * 2**30
    node: int = 1
    done: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Read requests and bytes, write requests and bytes, since the guest started."""


def volume(volume_id: str = VOLUME, **more: object) -> FakeDisk:
    return FakeDisk(image=f"volume-{volume_id}", volume_id=volume_id, **more)  # type: ignore[arg-type]


@dataclass
class FakeGuest:
    """A running guest. ``trouble`` is what every question to its QEMU is answered with."""

    name: str
    uuid: str
    disks: dict[str, FakeDisk]
    run: int = 1
    project: str | None = PROJECT
    display_name: str = "web"
    flavor: str = "m1.small"
    movement: Movement = Movement.STAYS
    trouble: PlimsollError | None = None
    xml: str | None = None
    consoles: tuple[str, ...] = ()
    """The files that they are logged to."""
    paused: bool = False
    """By a person."""
    marks: str | None = None
    """plimsoll's element in the metadata of the running guest; the persistent definition never has it."""


class FakeHypervisor:
    """Guests by uuid; ``writes`` is what was done to them, in order."""

    def __init__(self, *guests: FakeGuest) -> None:
        self.by_uuid = {guest.uuid: guest for guest in guests}
        self.writes: list[tuple[str, str, Limits]] = []
        self.calls: list[str] = []
        self.before: dict[str, Callable[[], None]] = {}
        """By the name of a call: what happens in the world just before it is answered; once."""
        self.off: dict[str, FakeGuest] = {}
        """Guests that are defined here and do not run."""
        self.known_versions = Versions(9_000_000, 7_002_022)
        self.runs = count(max((guest.run for guest in guests), default=0) + 1)
        self._nodes = count(100)

    # --- what the world does

    def attach(self, guest: FakeGuest, target: str, disk: FakeDisk) -> None:
        disk.node = next(self._nodes)
        guest.disks[target] = disk

    def restart(self, guest: FakeGuest, defined: Limits = UNLIMITED) -> None:
        """A hard reboot: Nova writes the definition anew, and the limits come from it."""
        guest.run += 1
        guest.marks = None
        for disk in guest.disks.values():
            disk.actual = disk.defined = defined

    def lose_marks(self) -> None:
        """As if an older plimsoll had set what is in force."""
        for guest in self.by_uuid.values():
            guest.marks = None

    def migrate(self, guest: FakeGuest, to: FakeHypervisor, fresh: Mapping[str, Limits] | None = None) -> None:
        """A live migration by Nova: all of the running guest moves, and its definition goes from here.

        ``fresh`` are limits, by target, that volumes get of their new attachment in the place of those in force.
        """
        to.by_uuid[guest.uuid] = self.by_uuid.pop(guest.uuid)
        guest.run = next(to.runs)
        for target, limits in (fresh or {}).items():
            disk = guest.disks[target]
            disk.actual = disk.defined = limits
        for disk in guest.disks.values():
            disk.persistent = disk.defined

    def suspend(self, guest: FakeGuest) -> Callable[[], None]:
        """Its state goes to a file, all of it, and the definition stays; returns what resumes it."""
        self.off[guest.uuid] = self.by_uuid.pop(guest.uuid)

        def resume() -> None:
            self.by_uuid[guest.uuid] = self.off.pop(guest.uuid)
            guest.run = next(self.runs)

        return resume

    # --- what plimsoll asks

    def versions(self) -> Versions:
        """Not among ``calls``: no guest is asked."""
        return self.known_versions

    def guests(self) -> Sequence[GuestRef]:
        self._happens("guests")
        return [GuestRef(guest.uuid, guest.name) for guest in self.by_uuid.values()]

    def look(self, uuid: str) -> Sighting:
        self._happens("look")
        guest = self._guest(uuid)
        seen, disks = domxml.parse(guest.xml or domain_xml(guest))
        return Sighting(guest=seen, disks=disks, movement=guest.movement, paused=guest.paused)

    def survey(self, uuid: str) -> Survey:
        """Among ``calls`` as the looks and questions that it is made of: these are what the guest is asked."""
        sighting = self.look(uuid)
        told: dict[str, Limits | PlimsollError | LimitsError] = {}
        survey = Survey(
            disks=sighting.disks,
            movement=sighting.movement,
            actual=told,
            other_disks=sighting.guest.other_disks,
            kernel_mapped=sighting.guest.kernel_mapped,
            paused=sighting.paused,
        )
        for disk in survey.disks if survey.movement is Movement.STAYS else ():
            try:
                told[disk.target] = self.actual(disk)
            except (Rejected, NotFound, NotSent, LimitsError) as error:
                told[disk.target] = error
            except DeadlineExceeded as error:
                return replace(survey, actual={each.target: told.get(each.target, error) for each in survey.disks})
        return survey

    def actual(self, disk: Disk) -> Limits:
        if disk.filters:
            if isinstance(disk.defined, Limits):
                return disk.defined
            raise Rejected("the limits of its throttle filters are no single set")
        self._happens("actual")
        return self._disk(disk).actual

    def block_stats(self, uuid: str, targets: Iterable[str]) -> Mapping[str, BlockStats]:
        self._happens("block_stats")
        disks = self._guest(uuid).disks
        return {target: of_tuple(BlockStats, [*disks[target].done, 0, 0]) for target in targets if target in disks}

    def sizes(self, uuid: str) -> Mapping[str, int]:
        self._happens("sizes")
        return {target: disk.size for target, disk in self._guest(uuid).disks.items() if disk.size is not None}

    def set_limits(self, asked: Disk, limits: Limits, *, alone: bool = False) -> None:
        self._happens("set_limits")
        disk = self._disk(asked)
        if asked.filters:
            raise Rejected(f"block 'iotune' can't be used together with 'throttlefilters' for disk '{asked.target}'")
        self.writes.append((asked.guest.uuid, asked.target, limits))
        group = None if alone or limits.unlimited else limits.group_name or disk.actual.group_name
        limits = replace(limits, group_name=group)  # a word about no group is no word to leave one
        disk.actual = limits
        for other in self._sharing(asked.guest.uuid, limits.group_name):  # QEMU keeps one set of limits for a group
            other.actual = other.defined = limits
        disk.defined = limits

    def define_limits(self, disk: Disk, limits: Limits) -> None:
        self._happens("define_limits")
        self._disk(disk).persistent = limits

    def set_marks(self, uuid: str, marks: Marks) -> None:
        self._happens("set_marks")
        self._guest(uuid).marks = marks.xml if marks.by_disk else None

    def knows(self, uuid: str) -> bool:
        self._happens("knows")
        return uuid in self.by_uuid or uuid in self.off

    def _sharing(self, uuid: str, group: str | None) -> list[FakeDisk]:
        """Of one guest: each QEMU has groups of its own."""
        if group is None:
            return []
        return [disk for disk in self._guest(uuid).disks.values() if disk.actual.group_name == group]

    def _happens(self, call: str) -> None:
        self.calls.append(call)
        self.before.pop(call, lambda: None)()

    def _guest(self, uuid: str) -> FakeGuest:
        if uuid not in self.by_uuid:
            raise NotFound("the guest is gone")
        return self.by_uuid[uuid]

    def _disk(self, disk: Disk) -> FakeDisk:
        guest, target = self._guest(disk.guest.uuid), disk.target
        if guest.trouble is not None:
            raise guest.trouble
        if target not in guest.disks:
            raise Rejected(f"disk '{target}' was not found in the domain config")
        return guest.disks[target]


def raising(error: BaseException | type[BaseException]) -> Callable[..., NoReturn]:
    """What raises it, whatever it is called with."""

    def call(*_: object, **__: object) -> NoReturn:
        raise error

    return call


def hangs() -> DeadlineExceeded:
    return DeadlineExceeded("no answer from QEMU within 5 s")


def domain_xml(guest: FakeGuest) -> str:
    """The guest's live XML as libvirt and Nova write it."""
    nova = (
        f'<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">'
        f"<nova:name>{escape(guest.display_name)}</nova:name><nova:flavor name={quoteattr(guest.flavor)}/>"
        f'<nova:owner><nova:user uuid="u1">admin</nova:user>'
        f"<nova:project uuid={quoteattr(guest.project)}>demo</nova:project></nova:owner></nova:instance>"
        if guest.project
        else ""
    )
    disks = "".join(_disk_xml(target, disk) for target, disk in guest.disks.items())
    disks += "".join(
        f"<serial type='pty'><log file={quoteattr(path)} append='off'/></serial>" for path in guest.consoles
    )
    return (
        f"<domain type='kvm' id='{guest.run}'><name>{escape(guest.name)}</name><uuid>{guest.uuid}</uuid>"
        f"<metadata>{nova}{_in_namespace(guest.marks)}</metadata><devices>{disks}</devices></domain>"
    )


def _in_namespace(marks: str | None) -> str:
    """As libvirt shows what it was given: with what is below it in the namespace, too."""
    if marks is None:
        return ""
    prefixed = re.sub(r"<(/?)(?=\w)", rf"<\1{PREFIX}:", marks)
    return prefixed.replace("marks", f'marks xmlns:{PREFIX}="{NAMESPACE}"', 1)


def _disk_xml(target: str, disk: FakeDisk) -> str:
    limits = disk.defined.in_effect()
    iotune = "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in limits.items())
    return (
        f"<disk type='network' device='disk'>"
        f"<source protocol='rbd' name='{disk.pool}/{disk.image}' index='{disk.node}'>"
        f"<host name='127.0.0.1' port='6789'/></source><target dev='{target}' bus='virtio'/>"
        + (f"<iotune>{iotune}</iotune>" if iotune else "")
        + (f"<serial>{disk.volume_id}</serial>" if disk.volume_id else "")
        + f"<alias name='virtio-{target}'/></disk>"
    )
