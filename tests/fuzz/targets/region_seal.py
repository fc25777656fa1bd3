"""The region's file with its signature: what was changed since it was signed is never used."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from plimsoll_agent.adapters.ed25519 import BadSignature, PrivateKey, unsealed
from tests.fuzz.run import corpus

KEY = PrivateKey(Ed25519PrivateKey.from_private_bytes(b"\1" * 32), Path("region.pub"))
_SIGNED = {unsealed(sealed)[0] for sealed in corpus("region_seal").values()}


def target(data: bytes) -> None:
    content, signature = unsealed(data)
    if signature is None:
        return
    try:
        KEY.public.verify(content, signature, "region.json")
    except BadSignature:
        return
    assert content in _SIGNED
