"""Which Ceph cluster a disk is on, from the Ceph configuration files of this node. Pure but for ``read``."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen, replace

_ADDRESS = re.compile(r"(?:v[12]:)?(\[[0-9a-fA-F:.]+\](?::\d+)?|[^\s,;/\[\]]+)(?:/\d+)?", re.ASCII)
_MOST_BYTES = 2**20
_CEPHS_PORTS = ("3300", "6789")
# As Ceph reads a value (src/common/ConfUtils.cc): in quotes, or up to a comment.
_VALUE = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^#;]*))""")
_FSID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


def short_fsid(name: str) -> str:
    """The first eight digits of an fsid, which are enough to tell clusters apart; anything else as it is."""
    return name[:8] if _FSID.fullmatch(name) else name


@frozen
class Cluster:
    """A cluster as one ceph.conf describes it."""

    conf: Path
    fsid: str | None
    monitors: frozenset[str]
    """Addresses as in ``mon_host`` (``10.0.0.1:6789``, ``[2001:db8::1]:6789``, ``10.0.0.1``). An address with one of
    Ceph's default ports is listed without the port too: a monitor has a port for each of its protocols."""


@frozen
class Clusters:
    """The clusters that this node has a configuration for."""

    known: tuple[Cluster, ...] = ()

    def of(self, disk: Disk) -> Cluster | None:
        """The disk's cluster; None if no file names its monitors, or several do.

        A disk without monitors is on the cluster of the ceph.conf that it names, else on QEMU's default cluster: the
        only one, if there is just one.
        """
        if not disk.monitors:
            candidates = [each for each in self.known if disk.conf in (None, str(each.conf))]
            return candidates[0] if len(candidates) == 1 else None
        for addresses in (disk.monitors, tuple(_on_cephs_ports(disk.monitors))):
            matches = [cluster for cluster in self.known if not cluster.monitors.isdisjoint(addresses)]
            if matches:
                return matches[0] if len(matches) == 1 else None
        return None

    def placed(self, disk: Disk) -> Disk:
        """The disk with its cluster's fsid, if the cluster is known."""
        cluster = self.of(disk)
        return disk if cluster is None else replace(disk, cluster=cluster.fsid)


def read(files: Sequence[Path]) -> Clusters:
    """A cluster for each file; a file that cannot be read gives a cluster without fsid and monitors."""
    return Clusters(tuple(_read(file) or Cluster(file, None, frozenset()) for file in files))


def _read(file: Path) -> Cluster | None:
    try:
        return parse(files.read_whole(file, _MOST_BYTES, follow=True).decode("utf-8"), file)
    except (OSError, ValueError):  # not text, or a path with a null character
        return None


def parse(text: str, file: Path) -> Cluster | None:
    """The cluster that the text of a ceph.conf describes; None for text that Ceph cannot read either."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=",))
    try:
        parser.read_string("\n".join(line.strip() for line in text.replace("\\\n", " ").splitlines()))
    except configparser.Error:
        return None
    options = _options(parser, "global")
    fsid, monitors = options.get("fsid", "").lower(), options.get("mon_host", "")
    if not monitors:  # only then Ceph reads a section of each (MonMap::init_with_config_file)
        sections = (_options(parser, name) for name in parser.sections() if name.startswith("mon."))
        monitors = ",".join(section.get("mon_addr", "") for section in sections)
    return Cluster(file, fsid if _FSID.fullmatch(fsid) else None, frozenset(_monitors(monitors)))


def _options(parser: configparser.RawConfigParser, section: str) -> Mapping[str, str]:
    # "mon host", "mon_host" and "mon-host" are the same option to Ceph (src/common/ConfUtils.cc).
    return {
        re.sub(r"[\s-]+", "_", name.strip()): _value(value or "")
        for name, value in (parser.items(section) if parser.has_section(section) else ())
    }


def _value(text: str) -> str:
    match = _VALUE.match(text)
    return next((part for part in match.groups() if part is not None), "").strip() if match else ""


def _monitors(mon_host: str) -> Iterator[str]:
    """Addresses and hosts in ``10.0.0.1,[v2:10.0.0.2:3300/0,v1:10.0.0.2:6789/0],[2001:db8::1]:6789``."""
    addresses = _ADDRESS.findall(mon_host)
    yield from addresses
    yield from _on_cephs_ports(addresses)


def _on_cephs_ports(addresses: Iterable[str]) -> Iterator[str]:
    """The hosts of addresses with a default port; another port of the host may belong to another cluster."""
    for address in addresses:
        host, port = _host_and_port(address)
        if port is None or port in _CEPHS_PORTS:
            yield host


def _host_and_port(address: str) -> tuple[str, str | None]:
    """``2001:db8::1`` and ``6789`` of ``[2001:db8::1]:6789``; an IPv6 address without brackets has no port."""
    if address.startswith("["):
        host, _, rest = address[1:].partition("]")
        return host, rest.removeprefix(":") or None
    host, _, port = address.rpartition(":")
    return (host, port) if host and ":" not in host and port.isdecimal() else (address, None)
