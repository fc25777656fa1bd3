"""The cloud's etcd: one member, the coordination service of a region."""

from __future__ import annotations

import urllib.error
import urllib.request

from . import ports
from .daemon import Daemon
from .layout import Layout
from .namespace import Namespace

PORTS = (ports.ETCD, ports.ETCD_PEERS)


class Etcd:
    """What it holds outlives a kill, as its data directory lies below the cloud's root."""

    def __init__(self, layout: Layout, namespace: Namespace) -> None:
        self._home = layout.root / "etcd"
        self._log = layout.logs / "etcd.log"
        self.daemon = Daemon(namespace, "etcd", self._argv(), self._log, self._serves)

    @property
    def url(self) -> str:
        """As `[probe] coordination` takes it."""
        return f"etcd3+http://127.0.0.1:{ports.ETCD}"

    def make(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self.daemon.start()

    def _argv(self) -> list[str]:
        clients, peers = (f"http://127.0.0.1:{port}" for port in PORTS)
        return [
            *("/usr/bin/etcd", "--name=lab", f"--data-dir={self._home}", "--log-level=warn", "--logger=zap"),
            *(f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"),
            *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
            f"--initial-cluster=lab={peers}",
        ]

    def _serves(self) -> bool:
        """It says that it is healthy once it has a leader and can commit."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{ports.ETCD}/health", timeout=5) as answer:
                return b'"true"' in answer.read()
        except (urllib.error.URLError, OSError):
            return False
