"""Which Ceph cluster a disk is on, by the configuration files of Ceph on this node. Pure but for ``read``."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from plimsoll_agent import files
from plimsoll_agent.disk import Disk

_ADDRESS = re.compile(r"(?:v[12]:)?(\[[0-9a-fA-F:.]+\](?::\d+)?|[^\s,;/\[\]]+)(?:/\d+)?", re.ASCII)
_MOST_BYTES = 2**20
_CEPHS_PORTS = ("3300", "6789")
# As Ceph reads a value (src/common/ConfUtils.cc): in quotes, or up to a comment.
_VALUE = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^#;]*))""")
_FSID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as one ceph.conf has it."""

    conf: Path
    fsid: str | None
    monitors: frozenset[str]
    """Addresses as ``mon_host`` gives them (``10.0.0.1:6789``, ``[2001:db8::1]:6789``, ``10.0.0.1``); those on
    Ceph's own ports without a port as well, since a monitor has one for each of its protocols."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters that this node knows."""

    known: tuple[Cluster, ...] = ()

    def of(self, disk: Disk) -> Cluster | None:
        """The disk's cluster; None where no file names its monitors, or several do.

        A disk without monitors is on QEMU's default cluster, which is the only one if there is just one.
        """
        if not disk.monitors:
            return self.known[0] if len(self.known) == 1 else None
        for addresses in (disk.monitors, tuple(_on_cephs_ports(disk.monitors))):
            meant = [cluster for cluster in self.known if not cluster.monitors.isdisjoint(addresses)]
            if meant:
                return meant[0] if len(meant) == 1 else None
        return None

    def placed(self, disk: Disk) -> Disk:
        """The disk with its cluster's fsid, where its cluster is known."""
        cluster = self.of(disk)
        return disk if cluster is None else replace(disk, cluster=cluster.fsid)


def read(files: Sequence[Path]) -> Clusters:
    """A cluster for each file; of one that cannot be read nothing is known but that there is such a cluster."""
    return Clusters(tuple(_read(file) or Cluster(file, None, frozenset()) for file in files))


def _read(file: Path) -> Cluster | None:
    try:
        return parse(files.read_whole(file, _MOST_BYTES, follow=True).decode("utf-8"), file)
    except (OSError, ValueError):  # no text, or a path with a null character
        return None


def parse(text: str, file: Path) -> Cluster | None:
    """The cluster that the text of a ceph.conf describes; None for text that Ceph would not read either."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=",))
    try:
        parser.read_string("\n".join(line.strip() for line in text.replace("\\\n", " ").splitlines()))
    except configparser.Error:
        return None
    # Ceph takes "mon host", "mon_host" and "mon-host" for the same (src/common/ConfUtils.cc).
    options = {
        re.sub(r"[\s-]+", "_", name.strip()): _value(value or "")
        for name, value in (parser.items("global") if parser.has_section("global") else ())
    }
    fsid = options.get("fsid", "").lower()
    return Cluster(file, fsid if _FSID.fullmatch(fsid) else None, frozenset(_monitors(options.get("mon_host", ""))))


def _value(written: str) -> str:
    found = _VALUE.match(written)
    return next((part for part in found.groups() if part is not None), "").strip() if found else ""


def _monitors(mon_host: str) -> Iterator[str]:
    """Addresses and hosts in ``10.0.0.1,[v2:10.0.0.2:3300/0,v1:10.0.0.2:6789/0],[2001:db8::1]:6789``."""
    addresses = _ADDRESS.findall(mon_host)
    yield from addresses
    yield from _on_cephs_ports(addresses)


def _on_cephs_ports(addresses: Iterable[str]) -> Iterator[str]:
    """The hosts of those; on another port of the same host there may be another cluster."""
    for address in addresses:
        host, port = _host_and_port(address)
        if port is None or port in _CEPHS_PORTS:
            yield host


def _host_and_port(address: str) -> tuple[str, str | None]:
    """``2001:db8::1`` and ``6789`` of ``[2001:db8::1]:6789``; without brackets it would be all host."""
    if address.startswith("["):
        host, _, rest = address[1:].partition("]")
        return host, rest.removeprefix(":") or None
    host, _, port = address.rpartition(":")
    return (host, port) if host and ":" not in host and port.isdecimal() else (address, None)
