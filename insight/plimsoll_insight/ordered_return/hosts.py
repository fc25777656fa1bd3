"""What hosts of OSDs are asked by their own programs, and what they answer. Pure.

Every word that is sent to a host is plain, so a shell there has nothing to expand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from plimsoll_agent.errors import PlimsollError, Rejected, UsageError
from plimsoll_agent.util.frozen import frozen

PLAIN = re.compile(r"[A-Za-z0-9@._:/=,+-]+", re.ASCII)
"""A word that no shell changes."""
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
MEMORY = ("cat", "/proc/meminfo")
PROCESSES = ("ps", "-ww", "-C", "ceph-osd", "-o", "rss=,args=")
"""In containers too: a host sees their processes."""
_UNIT_FACTS = ("systemctl", "show", "--property=Id,ActiveState,Result")
DROP_IN = "[Service]\nRestart=no\n"
_NAME = "zz-plimsoll-return.conf"
"""After ``override.conf``, in which a site may have its own ``Restart``: the last name counts."""
_ID = re.compile(r" (?:-n osd\.|-i |--id |-i=|--id=|--name osd\.)(\d{1,7})(?= |$)", re.ASCII)
_FIELD = re.compile(r"^(\w+): +(\d{1,15}) kB$", re.ASCII | re.MULTILINE)
_USED = ("MemTotal", "MemAvailable")


class NotStarted(PlimsollError):
    """Of these OSDs the host does not start the unit."""

    def __init__(self, errors: Mapping[str, PlimsollError], osds: Sequence[int]) -> None:
        super().__init__("; ".join(str(error) for error in errors.values()))
        self.osds = tuple(osds)


@frozen
class HostMemory:
    """Of a host, in bytes."""

    total: int
    available: int


def memory(text: str) -> HostMemory:
    """Of ``/proc/meminfo``. Raises ``Rejected``."""
    fields = {name: int(value) * 1024 for name, value in _FIELD.findall(text)}
    if lacking := [name for name in _USED if name not in fields]:
        raise Rejected(f"/proc/meminfo has no {', '.join(lacking)}")
    return HostMemory(*(fields[name] for name in _USED))


def resident(text: str) -> dict[int, int]:
    """Bytes of memory that each OSD of a host has: of ``ps``."""
    rows = (line.strip().partition(" ") for line in text.splitlines())
    return {int(id[1]): int(size) * 1024 for size, _, words in rows if (id := _ID.search(f" {words}"))}


def unit_states(text: str) -> dict[str, str]:
    """``failed (oom-kill)``, by the name of the unit: of ``systemctl show``."""
    states = {}
    for part in text.split("\n\n"):
        facts = dict(line.split("=", 1) for line in part.splitlines() if "=" in line)
        if "Id" in facts:
            result = facts.get("Result", "success")
            active = facts.get("ActiveState", "unknown")
            states[facts["Id"]] = active if result == "success" else f"{active} ({result})"
    return states


@frozen(kw_only=True)
class Ways:
    """How to do something on a host: words, with ``{host}``, ``{osd}`` and ``{fsid}`` to be filled in."""

    on_host: tuple[str, ...]
    unit: str
    start: tuple[str, ...]
    restart: tuple[str, ...]
    fsid: str

    @property
    def is_systemd(self) -> bool:
        return self.start[0] == "systemctl"

    def prefix(self, host: str) -> list[str]:
        """The operator's own words, with the name of a host that no program takes for an option. Raises
        ``UsageError``.
        """
        if not _HOST.fullmatch(host):
            raise UsageError(f"{host!r} is no name of a host that can be reached: letters, digits and ._- are")
        return [word.replace("{host}", host).replace("{fsid}", self.fsid) for word in self.on_host]

    def check_reach(self, names: Sequence[str]) -> None:
        """Raises ``UsageError`` where one host would be asked in place of several."""
        if len(names) > 1 and not any("{host}" in word for word in self.on_host):
            raise UsageError(f"--on-host: needs {{host}}, as OSDs of {len(names)} hosts are to return")

    def unit_of(self, osd: int) -> str:
        """Raises ``UsageError``."""
        return check(self.unit.replace("{osd}", str(osd)).replace("{fsid}", self.fsid))

    def units(self, osds: Sequence[int]) -> list[str]:
        return [self.unit_of(osd) for osd in osds]

    def states(self, osds: Sequence[int]) -> list[str]:
        return [*_UNIT_FACTS, *self.units(osds)]

    def directories(self, osds: Sequence[int]) -> list[str]:
        """Where systemd reads what is added to their units, until the host boots."""
        return [f"/run/systemd/system/{unit}.d" for unit in self.units(osds)]

    def drop_ins(self, osds: Sequence[int]) -> list[str]:
        return [f"{directory}/{_NAME}" for directory in self.directories(osds)]


def check(word: str) -> str:
    """Raises ``UsageError``."""
    if not PLAIN.fullmatch(word):
        raise UsageError(f"{word!r} cannot be sent to a host: only letters, digits and @._:/=,+- are")
    return word


def by_host(osds: Sequence[int], host_of: Mapping[int, str]) -> dict[str, list[int]]:
    each: dict[str, list[int]] = {}
    for osd in osds:
        each.setdefault(host_of[osd], []).append(osd)
    return each
