"""The region's file below its signature: the region's machine may be damaged, or have another release."""

from __future__ import annotations

import json

from plimsoll_agent.catalogue.signed_file import UnreadableRegion, decode, encode
from tests.fuzz.refusals import assert_clear


def target(data: bytes) -> None:
    try:
        region = decode(data, "region.json")
    except UnreadableRegion as error:
        assert_clear(error, "region.json: ")
        return
    written = json.loads(data)
    stated = {id: group["type"] for group in written["volumes"] for id in group["volumes"]}
    assert region.volumes == stated
    assert len(stated) == sum(len(set(group["volumes"])) for group in written["volumes"]), "one volume, two types"
    for entry in written["types"]:
        of = region.types[entry["id"]]
        assert (of.qos_spec, of.hidden) == (entry["qos_spec"], entry["hidden"])
    for entry in written["specs"]:
        spec = region.specs[entry["id"]]
        assert spec.consumer == entry["consumer"]
        said = {key: None if value is None else str(value) for key, value in (entry["specs"] or {}).items()}
        assert dict(spec.keys) == said
    assert decode(encode(region), "again") == region
