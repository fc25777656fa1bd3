"""Which guests of this node are to be probed, by the rules and the definitions of the guests that run now."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from plimsoll_agent import clusters, domxml
from plimsoll_agent.config import Settings
from plimsoll_agent.crew import side_by_side
from plimsoll_agent.disk import Disk, Guest
from plimsoll_agent.hypervisor import GuestRef, Hypervisor
from plimsoll_agent.observe import reason_of
from plimsoll_agent.outcome import Overlooked
from plimsoll_agent.report import overlooked_words, printable
from plimsoll_agent.report import words as reason_words
from plimsoll_agent.rules import Rules
from plimsoll_probes.chosen import Chosen, chosen


@dataclass(frozen=True, slots=True)
class Picked:
    """What the rules choose, the guests that there are, and those that could not be looked at."""

    chosen: Chosen
    guests: tuple[Guest, ...]
    overlooked: tuple[Overlooked, ...]

    @property
    def complaints(self) -> Iterator[str]:
        """What is not known and might have been chosen, a line each."""
        yield from map(overlooked_words, self.overlooked)
        for doubt in self.chosen.doubts:
            name, rule = printable(doubt.guest.name), printable(doubt.rule)
            yield f'{name}: not known whether rule "{rule}" chooses it: {reason_words(doubt.unknown.reason)}'


def picked(hypervisor: Hypervisor, settings: Settings, rules: Rules, now: datetime) -> Picked:
    """By the definitions alone: QEMU is not asked, so that a guest that hangs has a timetable too.

    Raises ``Unreachable``.
    """
    known = clusters.read(settings.ceph.conf_files)

    def look(guest: GuestRef) -> tuple[Disk, ...] | Overlooked:
        try:
            disks = domxml.parse(hypervisor.look(guest.uuid).xml)[1]
        except Exception as error:  # tenants write into definitions: what nobody foresaw costs this guest only
            return Overlooked(guest, reason_of(error))
        return tuple(map(known.placed, disks))

    guests = hypervisor.guests()
    looks = dict(side_by_side(look, guests, settings.bounds.at_once))
    found = [looks[guest] for guest in guests]
    disks = [disk for each in found if not isinstance(each, Overlooked) for disk in each]
    directory = settings.probe.directory
    return Picked(
        chosen(rules, disks, now, node=socket.gethostname(), default_directory=directory),
        tuple({disk.guest.uuid: disk.guest for disk in disks}.values()),
        tuple(each for each in found if isinstance(each, Overlooked)),
    )
