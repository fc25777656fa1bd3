"""A region file that a node has kept, with a signature."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from plimsoll_agent.adapters.ed25519 import PrivateKey
from plimsoll_agent.catalogue import signed_file
from plimsoll_agent.catalogue.orders import Orders
from plimsoll_agent.catalogue.signed_file import Region
from plimsoll_agent.store.refresh_state import RefreshDir
from tests.unit.values import NOON


def a_key(number: int = 1) -> PrivateKey:
    return PrivateKey(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32), Path("region.key"))


def keep_region_file(
    directory: Path,
    orders: Orders | None = None,
    generation: int = 1,
    *,
    begun: datetime = NOON,
    key: PrivateKey | None = None,
    trusted: PrivateKey | None = None,
) -> Path:
    """As the refresher keeps it, made with ``key``; returns the public key that the node trusts."""
    made_with = key or a_key()
    region = Region(generation=generation, issued=begun, begun=begun, source="north", orders=orders or Orders())
    RefreshDir(directory).save_region_file(made_with.seal(signed_file.encode(region)))
    return keep_public(directory / "region.pub", trusted or made_with)


def keep_public(public: Path, key: PrivateKey) -> Path:
    """The public key in a file, which is left alone if it has it."""
    pem = key.public.key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    if not public.exists() or public.read_bytes() != pem:
        public.write_bytes(pem)
    return public
