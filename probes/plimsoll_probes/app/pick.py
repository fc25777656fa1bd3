"""Finds the guests of this node that the rules choose for probes, among those that run now."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.messages.sentences import unreachable_words
from plimsoll_agent.messages.sentences import words as reason_words
from plimsoll_agent.model import clusters
from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.hypervisor import GuestRef, Hypervisor
from plimsoll_agent.reconcile.observe import reason_of
from plimsoll_agent.reconcile.outcome import UnreachableGuest
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.store.state import Busy, State, StateError
from plimsoll_agent.util import locks
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable, several_servers
from plimsoll_probes.schedule.targets import PlannedTarget, TargetChoice, choose
from plimsoll_probes.store.history import LOCK

# libvirt first pings the agent, for up to 5 s.
_AGENT_DEADLINE = 25.0


@frozen
class Pick:
    """What the rules choose, all guests of the node, and those that are unreachable."""

    chosen: TargetChoice
    guests: tuple[Guest, ...]
    unreachable: tuple[UnreachableGuest, ...]

    @property
    def complaints(self) -> Iterator[str]:
        """A line for each guest of which it is unknown whether a rule chooses it."""
        yield from map(unreachable_words, self.unreachable)
        for doubt in self.chosen.doubts:
            name, rule = printable(doubt.guest.name), printable(doubt.rule)
            yield f'{name}: unknown whether rule "{rule}" chooses it: {reason_words(doubt.unknown.reason)}'


def pick(hypervisor: Hypervisor, settings: Settings, rules: Rules, now: datetime) -> Pick:
    """Reads the guests' definitions without asking QEMU, so that a guest that hangs has a timetable too.

    Raises ``Unreachable``.
    """
    placement = clusters.read(settings.ceph.conf_files)

    def look(guest: GuestRef) -> tuple[Disk, ...] | UnreachableGuest:
        try:
            disks = hypervisor.look(guest.uuid).disks
        except Exception as error:  # tenants write parts of definitions: an error must affect this guest only
            return UnreachableGuest(guest, reason_of(error))
        return tuple(map(placement.placed, disks))

    guests = hypervisor.guests()
    looks = dict(side_by_side(look, guests, settings.bounds.at_once))
    answers = [looks[guest] for guest in guests]
    disks = [disk for each in answers if not isinstance(each, UnreachableGuest) for disk in each]
    directory = settings.probe.directory
    return Pick(
        choose(rules, disks, now, node=socket.gethostname(), default_directory=directory),
        tuple({disk.guest.uuid: disk.guest for disk in disks}.values()),
        tuple(each for each in answers if isinstance(each, UnreachableGuest)),
    )


def targets_of(guests: Pick, names: Sequence[str]) -> tuple[PlannedTarget, ...]:
    """Targets of the guests with these names; without names, all that the rules choose.

    Raises ``UsageError`` for a guest that no rule chooses, ``PlimsollError`` for an unreachable one.
    """
    targets = guests.chosen.targets
    uuids = {_uuid(name, guests) for name in names}
    return tuple(one for one in targets if not names or one.guest.uuid in uuids)


def _uuid(name: str, guests: Pick) -> str:
    """Of the chosen guest with this name: libvirt's, else the only server of that name."""
    matches = [guest for guest in guests.guests if guest.name == name or guest.uuid == name.lower()]
    matches = matches or [guest for guest in guests.guests if guest.display_name == name]
    if len(matches) > 1:
        raise UsageError(several_servers(name, [guest.name for guest in matches]))
    for unreachable in () if matches else guests.unreachable:
        if name in (unreachable.guest.name, unreachable.guest.uuid):
            raise PlimsollError(unreachable_words(unreachable))
    if not matches:
        raise UsageError(f"{printable(name)}: no running guest of this node with an RBD disk has this name or uuid")
    if all(target.guest != matches[0] for target in guests.chosen.targets):
        raise UsageError(
            f"{printable(name)}: no rule with probe chooses this guest, and only chosen guests are probed;"
            " see plimsoll-rules(5)"
        )
    return matches[0].uuid


def alone(state: State) -> AbstractContextManager[None]:
    """Hold the lock of this node's probes. Raises ``Busy``, ``StateError``."""
    busy = Busy("another plimsoll probe run is active on this node; nothing was started")
    return locks.held(state.directory / LOCK, busy, StateError, "; nothing was probed")


@contextmanager
def agents(settings: Settings, at_once: int) -> Iterator[Callable[[str, str, int], str]]:
    """Asks the agent of a guest: its uuid, the request, the seconds to wait. Raises ``Unreachable``.

    A separate connection, so that no read of a disk waits for a slow agent.
    """
    from plimsoll_agent.adapters.libvirt.client import Libvirt

    libvirt = Libvirt(settings.uri, deadline=_AGENT_DEADLINE, at_once=at_once)
    yield libvirt.agent
    if not libvirt.hung:
        libvirt.close()
