"""Finds the guests of this node that the rules choose for probes, among those that run now."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import datetime

from plimsoll_agent.config.settings import Settings
from plimsoll_agent.messages.sentences import unreachable_words
from plimsoll_agent.messages.sentences import words as reason_words
from plimsoll_agent.model import clusters
from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.hypervisor import GuestRef, Hypervisor
from plimsoll_agent.reconcile.observe import reason_of
from plimsoll_agent.reconcile.outcome import UnreachableGuest
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable
from plimsoll_probes.schedule.targets import Chosen, chosen


@frozen
class Picked:
    """What the rules choose, all guests of the node, and those that are unreachable."""

    chosen: Chosen
    guests: tuple[Guest, ...]
    unreachable: tuple[UnreachableGuest, ...]

    @property
    def complaints(self) -> Iterator[str]:
        """A line for each guest of which it is unknown whether a rule chooses it."""
        yield from map(unreachable_words, self.unreachable)
        for doubt in self.chosen.doubts:
            name, rule = printable(doubt.guest.name), printable(doubt.rule)
            yield f'{name}: unknown whether rule "{rule}" chooses it: {reason_words(doubt.unknown.reason)}'


def picked(hypervisor: Hypervisor, settings: Settings, rules: Rules, now: datetime) -> Picked:
    """Reads the guests' definitions without asking QEMU, so that a guest that hangs has a timetable too.

    Raises ``Unreachable``.
    """
    known = clusters.read(settings.ceph.conf_files)

    def look(guest: GuestRef) -> tuple[Disk, ...] | UnreachableGuest:
        try:
            disks = hypervisor.look(guest.uuid).disks
        except Exception as error:  # tenants write parts of definitions: an error must affect this guest only
            return UnreachableGuest(guest, reason_of(error))
        return tuple(map(known.placed, disks))

    guests = hypervisor.guests()
    looks = dict(side_by_side(look, guests, settings.bounds.at_once))
    found = [looks[guest] for guest in guests]
    disks = [disk for each in found if not isinstance(each, UnreachableGuest) for disk in each]
    directory = settings.probe.directory
    return Picked(
        chosen(rules, disks, now, node=socket.gethostname(), default_directory=directory),
        tuple({disk.guest.uuid: disk.guest for disk in disks}.values()),
        tuple(each for each in found if isinstance(each, UnreachableGuest)),
    )
