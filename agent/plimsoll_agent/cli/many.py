"""Disks of a node that are chosen together: by project, volume type, pool or server."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from plimsoll_agent.errors import UsageError
from plimsoll_agent.model.disk import Disk, DiskName
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.store.state import State
from plimsoll_agent.terminal.base import OneLineErrors
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import plural, printable

_OPTIONS = {
    "project": "guests of this project, by its ID or name",
    "type": "volumes of this type, by its name",
    "pool": "images of this pool",
    "server": "this server, by its name, libvirt name or UUID",
}


@frozen(kw_only=True)
class Choice:
    """Which disks: those that have one of the values of each option that was given."""

    project: tuple[str, ...]
    type: tuple[str, ...]
    pool: tuple[str, ...]
    server: tuple[str, ...]

    def __bool__(self) -> bool:
        return any((self.project, self.type, self.pool, self.server))

    def has(self, disk: Disk) -> bool:
        guest = disk.guest
        return self._has(
            (guest.project, guest.project_name),
            disk.volume_type,
            disk.pool,
            (guest.display_name, guest.name, guest.uuid),
        )

    def named(self, disks: Iterable[DiskName], state: State) -> set[str]:
        """The keys of the disks; names of projects, types and servers are those of the last pass.

        Raises ``StateError`` where that cannot be read.
        """
        last = pass_summary_file.load(state)
        by_key = {} if last is None else {disk.named.key: disk for disk in last.disks}
        keys = set()
        for disk in disks:
            other = by_key.get(disk.key)
            project = None if other is None else other.project_name
            server = None if other is None else other.server
            if self._has(
                (disk.project, project),
                None if other is None else other.volume_type,
                disk.pool,
                (server, disk.guest_name, disk.guest_uuid),
            ):
                keys.add(disk.key)
        return keys

    def _has(
        self,
        projects: Sequence[str | None],
        volume_type: str | None,
        pool: str,
        servers: Sequence[str | None],
    ) -> bool:
        return all(
            not values or not {*values}.isdisjoint(present)
            for values, present in (
                (self.project, projects),
                (self.type, (volume_type,)),
                (self.pool, (pool,)),
                (self.server, servers),
            )
        )


def add_options(parser: argparse.ArgumentParser) -> None:
    for name, what in _OPTIONS.items():
        parser.add_argument(
            f"--{name}",
            metavar=name.upper(),
            action="append",
            default=[],
            help=f"only disks of {what}; repeatable",
        )


def add_many(parser: argparse.ArgumentParser) -> None:
    """The options of a command that changes the disks, instead of one that is named."""
    add_options(parser)
    parser.add_argument(
        "--disks",
        metavar="NUMBER",
        type=int,
        help="with these options: do not ask; how many disks it must be, or nothing is changed",
    )


def choice_of(parsed_args: argparse.Namespace) -> Choice:
    return Choice(**{name: tuple(getattr(parsed_args, name)) for name in _OPTIONS})


def words_of(choice: Choice) -> str:
    """``of pool a or b and type gold``."""
    values = ((name, getattr(choice, name)) for name in _OPTIONS)
    parts = (f"{name} {' or '.join(map(printable, those))}" for name, those in values if those)
    return f"of {' and '.join(parts)}"


def one_or_many(parsed_args: argparse.Namespace) -> Choice | None:
    """The choice; None where one disk is named. Raises ``UsageError`` for both or none of them."""
    choice = choice_of(parsed_args)
    options = ", ".join(f"--{name}" for name in _OPTIONS)
    if bool(choice) is (parsed_args.guest is not None):
        raise UsageError(f"give either a guest and its disk, or some of {options}")
    if not choice and parsed_args.disks is not None:
        raise UsageError(f"--disks needs one of {options}")
    return choice if choice else None


def agree(command: OneLineErrors, does: str, disks: Sequence[Disk | DiskName], expectation: int | None) -> None:
    """Ask for the number of disks, unless ``expectation`` is it; ``does``: like ``holds``. Raises ``UsageError``."""
    number = len(disks)
    guests = len({disk.named.guest_uuid if isinstance(disk, Disk) else disk.guest_uuid for disk in disks})
    what = f"{plural(number, 'disk')} of {plural(guests, 'guest')}"
    if not number:
        raise UsageError(f"nothing changed: there is no disk that it {does}; see: plimsoll disk list")
    if expectation is None and not command.app.stdin.isatty():
        raise UsageError(f"no terminal to ask on: this {does} {what}; if these are the right ones: --disks {number}")
    if expectation is None:
        if command.answer_to(f"This {does} {what}. Type {number} to go on: ") != str(number):
            raise UsageError("nothing changed")
    elif expectation != number:
        raise UsageError(
            f"nothing changed: this {does} {what}, not {expectation}; if these are the right ones: --disks {number}"
        )
