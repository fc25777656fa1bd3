"""Reads QEMU's answers. Pure: decoded JSON in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll_agent.errors import Rejected
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.text import printable

_LONGEST = 200
"""Characters of an error: a guest may have taken its QEMU over."""


def returned(answer: Mapping[str, Any]) -> Any:
    """What a command returned. Raises ``Rejected``: libvirt passes QEMU's errors on as answers."""
    if "return" not in answer:
        error = answer.get("error")
        description = error.get("desc") if isinstance(error, dict) else None
        raise Rejected(f"QEMU: {printable(str(description or 'an error without its description')[:_LONGEST])}")
    return answer["return"]


def limits_by_image(devices: list[dict[str, Any]]) -> Mapping[str, Limits]:
    """Limits of each RBD disk by ``pool/image`` (``pool/namespace/image``)."""
    limits: dict[str, Limits] = {}
    for device in devices:
        medium = device.get("inserted") or {}
        for image in _images(str(medium.get("file", ""))):
            limits[image] = Limits.from_qmp(medium)
    return limits


def _images(file: str) -> Iterator[str]:
    # With -blockdev QEMU names a file json:{"driver": …, "file": {"pool": …, "image": …}};
    # without, rbd:pool/image:option=value:…
    if file.startswith("json:"):
        yield from _rbd_nodes(json.loads(file.removeprefix("json:")))
    elif file.startswith("rbd:"):
        yield file.removeprefix("rbd:").split(":")[0]


def _rbd_nodes(node: object) -> Iterator[str]:
    if not isinstance(node, dict):
        return
    if "pool" in node and "image" in node:
        yield "/".join(str(node[part]) for part in ("pool", "namespace", "image") if node.get(part))
    for inner in node.values():
        yield from _rbd_nodes(inner)
