"""The ways to keep limits in force, each as a command line that can be run again and again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import once
from plimsoll_agent.catalogue import attachments
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.model import Catalogue, Volume, VolumeType
from plimsoll_agent.catalogue.qosspec import Consumer, QosSpec

BYTES = 104857600
HERE = Path(__file__).parent
PLIMSOLL = str(Path(sys.executable).with_name("plimsoll"))

CRON, BY_RULES, BY_HAND = "cron", "plimsoll, by its rules", "plimsoll, by hand"
BY_CINDER, PER_GIB = "plimsoll, by Cinder", "plimsoll, by Cinder per GiB"
OURS = (BY_RULES, BY_HAND, BY_CINDER, PER_GIB)
WAYS = (CRON, *OURS)
_KEYS = {
    BY_CINDER: {"total_iops_sec": "{iops}", "total_bytes_sec": str(BYTES)},
    PER_GIB: {"total_iops_sec_per_gb": "{iops}", "total_bytes_sec_per_gb": str(BYTES)},
}
"""Of the QoS spec; a volume has 1 GiB."""


@dataclass(frozen=True)
class Way:
    """One of them, with a limit that it puts on every disk, and a state of its own if it is plimsoll's."""

    name: str
    command: list[str]


class Ways:
    """On one libvirt; what they keep stands below ``home``.

    A state of its own each time: the ways change each other's limits, and a node remembers its own.
    """

    def __init__(self, uri: str, home: Path) -> None:
        self._uri = uri
        self._home = home
        self._numbers = iter(range(90_000, 0, -1))
        python = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.environment = python | {"PYTHONPYCACHEPREFIX": str(home / "compiled")}

    def tighter(self, way: str) -> Way:
        """That way, with a limit below all that were there before. It was not run yet."""
        iops = next(self._numbers)
        if way == CRON:  # without the virtual environment, which it has no need of
            script = str(HERE / "cron.py")
            return Way(way, [sys.executable, "-I", "-S", script, self._uri, str(iops), str(BYTES)])
        place = self._home / str(iops)
        place.mkdir()
        ours = Way(way, [PLIMSOLL, "--config-file", f"{place}/plimsoll.conf", "enforce"])
        if way == BY_HAND:
            self._write(place, "{}\n")
            limits = [f"--total-iops-sec={iops}", f"--total-bytes-sec={BYTES}"]
            return Way(way, [*ours.command, *limits])
        rule = f"{{total_iops_sec: {iops}, total_bytes_sec: {BYTES}}}"
        pool = "'*'" if way == BY_RULES else "vms"
        rules = f"rules:\n  - {{name: bench, match: {{pool: {pool}}}, override: true, limits: {rule}}}\n"
        self._write(place, rules, source="none" if way == BY_RULES else "openstack")
        if way in _KEYS:
            self._write_catalogue(place, ours, {key: text.format(iops=iops) for key, text in _KEYS[way].items()})
        return ours

    def _write(self, place: Path, rules: str, source: str = "none") -> None:
        (place / "rules.yaml").write_text(rules)
        (place / "plimsoll.conf").write_text(
            f"[DEFAULT]\nmode = enforce\nstate_dir = {place}/state\nrules_file = {place}/rules.yaml\n"
            f"[libvirt]\nuri = {self._uri}\n[catalogue]\nsource = {source}\ndirectory = {place}\n"
        )

    def _write_catalogue(self, place: Path, way: Way, keys: Mapping[str, str]) -> None:
        """As a refresher would after the node's first pass: every volume of one type, and that of one QoS spec."""
        spec = QosSpec(id="bench-spec", name="bench", consumer=Consumer.FRONT_END, keys=keys)
        of = VolumeType(id="bench-type", name="bench", qos_spec=spec.id)
        now = datetime.now(UTC)
        empty = Catalogue(1, now, "bench", {spec.id: spec}, {of.id: of})
        catalogue.save(place, empty)
        once([*way.command, "--mode", "observe"], self.environment)
        met = attachments.load(place / "state/attachments.json")
        if met is None or not met.volumes:
            raise RuntimeError(f"{' '.join(way.command)} met no volume")
        volumes = {
            id: Volume(type=of.id, marks=frozenset(marks), read=now) for id, marks in met.marks_of_volumes().items()
        }
        catalogue.save(place, Catalogue(2, now, "bench", empty.specs, empty.types, volumes))
