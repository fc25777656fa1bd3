"""A node whose daemon follows a file of factors, which is signed here as a publisher does it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lab.cloud import Cloud
from lab.node import Node
from plimsoll_agent.adapters.ed25519 import PrivateKey
from plimsoll_agent.congestion.law import Action
from plimsoll_agent.congestion.published import Factor, FactorFile, encode
from plimsoll_agent.model import clusters

DEVICE_CLASS = "ssd"
KEY = PrivateKey(Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32), Path("congestion.key"))
PRIVATE = KEY.key.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
PUBLIC = KEY.public.key.public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
).decode()


def signed_factors(fsid: str, x: float, generation: int, lasts: float = 90) -> bytes:
    """A file about the lab's pools, from now on for so many seconds."""
    now = datetime.now(UTC)
    action = Action.FULL if x == 1 else Action.LOWERED
    factor = Factor(cluster=fsid, device_class=DEVICE_CLASS, x=x, action=action.value, latency=0.0091, target=0.006)
    file = FactorFile(
        generation=generation,
        issued=now,
        valid_until=now + timedelta(seconds=lasts),
        factors=(factor,),
        pools={(fsid, pool): (DEVICE_CLASS,) for pool in ("vms", "volumes")},
    )
    return KEY.seal(encode(file))


WITH_FLOOR = """\
default: {limits: {total_iops_sec: 1000}}
rules:
  - {name: all, match: {pool: "*"}, congestion: {floor: {total_iops_sec: 100}}}
"""


class Congested:
    def __init__(self, directory: Path, cloud: Cloud, rules: str) -> None:
        self.node = Node(directory, cloud, rules)
        self.node.use_catalogue(source="none")
        (self._cluster,) = clusters.read([cloud.ceph.conf]).known
        key = directory / "congestion.pub"
        key.write_text(PUBLIC)
        self.node.use_congestion(files="https://nowhere.example/congestion.json", key=key, mode="enforce")
        self._generation = 0

    def publish(self, x: float, lasts: float = 90) -> None:
        """As if the fetched file were this one."""
        self._generation += 1
        path = self.node.catalogue / "congestion-0.json"
        content = signed_factors(self._cluster.fsid or "", x, self._generation, lasts)
        path.with_suffix(".new").write_bytes(content)
        path.with_suffix(".new").replace(path)
