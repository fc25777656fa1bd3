"""The column of lists that names servers by the last pass; apart from ``server_names``, as passes lay out no list."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.terminal.base import OneLineErrors
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.util.text import printable

SERVER = Column("server", most=17)


def names_of(state: State, command: OneLineErrors) -> Mapping[str, str | None]:
    """The servers' names in the last pass, by the guests' uuids; ``command`` warns where it cannot be read."""
    try:
        last = pass_summary_file.load(state)
    except StateError as error:
        command.warn_of(f"{error}; names of servers are unknown")
        return {}
    return {} if last is None else {disk.named.guest_uuid: disk.server for disk in last.disks}


def cell(names: Mapping[str, str | None], disk: DiskName | None) -> Shown:
    """The server of a disk in a list; for people its guest where the name is unknown, since lists may hide guests."""
    if disk is None:
        return Shown(None, "this node")
    name = names.get(disk.guest_uuid)
    return Shown(name, printable(name or disk.guest_name))
