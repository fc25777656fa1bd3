"""The catalogue's file, and what is decided by it: no damage makes a limit larger than the file states it."""

from __future__ import annotations

import json
import re
from typing import Any

from plimsoll_agent.catalogue import model
from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.catalogue.model import Catalogue, CatalogueError
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.policy.decide import Desired, NoOpinion, Situation
from plimsoll_agent.policy.sources import cinder
from plimsoll_agent.rules.model import Rules
from tests.fuzz import scratch
from tests.fuzz.refusals import assert_clear
from tests.unit.values import NINETEEN, NOON, SIX, a_disk

_MOST_VOLUMES = 20
_GIB = 10


def _numbers(keys: dict[str, Any]) -> dict[str, str]:
    """What of a QoS spec Nova gives to libvirt, as text; lengths come from plimsoll."""
    return {
        name: str(keys[name])
        for name in NINETEEN
        if not name.endswith("_length") and keys.get(name) not in (None, "")
    }


def _spec_of(written: dict[str, Any], volume: dict[str, Any]) -> dict[str, Any] | None:
    """The QoS spec that the file states for this volume; None where it states that there is none, or not which."""
    of = written["types"].get(volume["type"])
    return None if volume["missing"] or not of or of["hidden"] else written["specs"].get(of["qos_spec"])


def _judge(written: dict[str, Any], id: str, catalogue: Catalogue) -> None:
    volume, disk = written["volumes"][id], a_disk(volume_id=id, size=_GIB * 2**30)
    mark = next(iter(volume["marks"]), "")
    attachments = Attachments({disk.key: Attachment(mark=mark, since=NOON)})
    (step,) = cinder.qos_spec(disk, Situation(now=NOON, rules=Rules(), catalogue=catalogue, attachments=attachments))
    answer, spec = step.answer, _spec_of(written, volume)
    if spec is None:
        assert isinstance(answer, Unknown | NoOpinion)
        if isinstance(answer, NoOpinion):  # it must stand there
            assert not volume["missing"]
            assert volume["type"] is None or written["types"][volume["type"]]["qos_spec"] is None
        return
    keys = spec["specs"] or {}
    if isinstance(answer, NoOpinion):
        assert spec["consumer"] not in ("front-end", "both") or not (
            _numbers(keys) or any("_per_gb" in key for key in keys)
        )
    if not isinstance(answer, Desired):
        return
    assert spec["consumer"] in ("front-end", "both")
    computed = {name for name in NINETEEN if any(key.startswith(f"{name}_per_gb") for key in keys)}
    for name, text in _numbers(keys).items():
        if name in computed or name.removesuffix("_max") in computed:
            continue
        assert re.fullmatch(r"\s*\+?[0-9]+", text), (name, text)
        assert getattr(answer.limits, name) == int(text), (name, text)
    for name in computed & set(SIX):
        per_gb = int(keys.get(f"{name}_per_gb", "0"))
        if per_gb > 0 and f"{name}_max" not in keys:
            assert 0 < getattr(answer.limits, name) <= max(per_gb * _GIB, int(keys.get(f"{name}_per_gb_min", "0")))


def _as_it_stands(written: dict[str, Any], catalogue: Catalogue) -> None:
    assert catalogue.generation == written["generation"]
    for key, spec in catalogue.specs.items():
        said = written["specs"][key]["specs"] or {}
        assert spec.keys == {name: None if text is None else str(text) for name, text in said.items()}
    for key, volume in catalogue.volumes.items():
        of = written["volumes"][key]
        assert (volume.type, volume.marks, volume.missing) == (of["type"], set(of["marks"]), of["missing"])
    for key, server in catalogue.servers.items():
        assert server.extra_specs == written["servers"][key]["extra_specs"]


def target(data: bytes) -> None:
    path = scratch.file(model.NAME, data)
    try:
        catalogue = model.read(path)
    except CatalogueError as error:
        assert_clear(error, f"{path}: ")
        return
    assert catalogue is not None
    written = json.loads(data)
    _as_it_stands(written, catalogue)
    for id in list(catalogue.volumes)[:_MOST_VOLUMES]:
        _judge(written, id, catalogue)
    text = "".join(model._lines(catalogue))
    assert text.isascii()
    again = model.read(scratch.file(f"again-{model.NAME}", text.encode()))
    assert again == catalogue
    assert again.revision == catalogue.revision, "an approval on one node is one on all"
