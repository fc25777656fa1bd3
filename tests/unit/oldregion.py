"""How plimsoll read the region's file at 0ee6323, before it carried orders: nodes of then read files of today."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any


def read(content: bytes) -> dict[str, Any]:
    """``signed_file.decode`` of then, with the values as plain data. Raises what it took for no region's file."""
    envelope = json.loads(content.decode("utf-8"))
    if not isinstance(envelope, dict) or envelope.get("kind") != "plimsoll-region":
        raise ValueError("is no plimsoll-region")
    if type(envelope.get("version")) is not int or envelope["version"] < 1:
        raise ValueError("says no version")
    if envelope["version"] > 1:
        raise ValueError("written by a newer plimsoll")
    return {
        "generation": _number(envelope["generation"]),
        "times": [datetime.fromisoformat(_text(envelope[name])) for name in ("issued", "begun")],
        "until": None if envelope["valid_until"] is None else datetime.fromisoformat(envelope["valid_until"]),
        "source": _text(envelope["source"]),
        "approved": frozenset(map(_text, _list(envelope["approved"]))),
        "specs": {_text(one["id"]): one["specs"] for one in _list(envelope["specs"])},
        "types": {_text(one["id"]): (_text(one["name"]), one["qos_spec"]) for one in _list(envelope["types"])},
        "volumes": {_text(id): group["type"] for group in _list(envelope["volumes"]) for id in group["volumes"]},
        "servers": {
            _text(id): group["extra_specs"] for group in _list(envelope["servers"]) for id in group["servers"]
        },
    }


def read_with_approvals(content: bytes) -> dict[str, Any]:
    """As of 0.1.0: with approvals by their whole digests, and no stages."""
    envelope = json.loads(content.decode("utf-8"))
    approvals = [one for one in _list(envelope["approvals"]) if one["of"] in ("specs", "rules", "bounds")]
    return read(content) | {
        "approvals": [
            {
                "of": one["of"],
                "digest": _text(one["digest"]),
                "remove": frozenset(map(_text, _list(one["remove"]))),
                "numbers": [_number(one[name]) for name in ("disks", "percent")],
                "times": [datetime.fromisoformat(_text(one[name])) for name in ("since", "until")],
                "words": [_text(one[name]) for name in ("by", "why")],
            }
            for one in approvals
        ]
    }


def lets_through(read: Mapping[str, Any], edition: str) -> bool:
    """``brake._approved_for_the_region`` of then: six hex digits, which can be forged in seconds."""
    return edition in read["approved"]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("is no number from 0 on")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("is no list")
    return value
