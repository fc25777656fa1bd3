"""Servers by their names in Nova: looked up, and confirmed before anything is written, since tenants choose them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from plimsoll_agent.errors import UsageError
from plimsoll_agent.model.disk import Guest
from plimsoll_agent.model.hypervisor import Hypervisor
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.monitor.pass_summary import LastDisk
from plimsoll_agent.reconcile.observe import servers_of
from plimsoll_agent.store.state import State
from plimsoll_agent.terminal.base import YES, OneLineErrors
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable, several_servers


@frozen(kw_only=True)
class NamedServer:
    """The only guest of this node whose server has the name ``word``."""

    word: str
    uuid: str
    guest_name: str
    project: str | None

    def __str__(self) -> str:
        project = printable(self.project or "unknown")
        return f"{printable(self.word)} is {printable(self.guest_name)} of project {project}"

    def confirm(self, command: OneLineErrors, *, sure: bool) -> None:
        """Show which guest it is, and ask unless the operator is ``sure``. Raises ``UsageError``."""
        if sure:
            command.app.stderr.write(f"{self}\n")
        elif not command.app.stdin.isatty():
            raise UsageError(f"{self}: add --yes if it is meant, or give {printable(self.guest_name)}")
        else:
            self.ask(command)

    def ask(self, command: OneLineErrors) -> None:
        """Raises ``UsageError`` unless an operator agrees."""
        if command.answer_to(f"{self}; go on? [y/N] ") not in YES:
            raise UsageError(f"nothing is changed: {self}")


def of_guest(word: str, guest: Guest) -> NamedServer:
    return NamedServer(word=word, uuid=guest.uuid, guest_name=guest.name, project=guest.project_name or guest.project)


def here(hypervisor: Hypervisor, words: Iterable[str]) -> list[NamedServer]:
    """The servers among the words; a guest's own name or uuid is none. Raises ``NoSuchGuest``, ``Unreachable``."""
    return [of_guest(word, guest) for word, guest in servers_of(hypervisor, words).items()]


def words_for(words: Iterable[str], servers: Collection[NamedServer]) -> frozenset[str]:
    """The words, with a guest's uuid for each server's name."""
    return frozenset(words) - {server.word for server in servers} | {server.uuid for server in servers}


def of_last_pass(state: State, word: str) -> NamedServer | None:
    """None where no server had this name in the last pass, or a guest has it.

    Raises ``UsageError`` for several servers, ``StateError`` where the last pass cannot be read.
    """
    last = pass_summary_file.load(state)
    disks = () if last is None else last.disks
    if _is_guest(word, disks):
        return None
    guests = {disk.named.guest_uuid: disk for disk in disks if disk.server == word}
    if len(guests) > 1:
        raise UsageError(several_servers(word, [disk.named.guest_name for disk in guests.values()]))
    return next((_of_disk(word, disk) for disk in guests.values()), None)


def in_last_pass(state: State, word: str) -> bool:
    """Whether a guest of the last pass has this name or uuid. Raises ``StateError``."""
    last = pass_summary_file.load(state)
    return last is not None and _is_guest(word, last.disks)


def _is_guest(word: str, disks: Iterable[LastDisk]) -> bool:
    return any(word in (disk.named.guest_name, disk.named.guest_uuid) for disk in disks)


def _of_disk(word: str, disk: LastDisk) -> NamedServer:
    return NamedServer(
        word=word,
        uuid=disk.named.guest_uuid,
        guest_name=disk.named.guest_name,
        project=disk.project_name or disk.named.project,
    )
