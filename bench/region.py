"""``script/bench region``: what a region's file costs, by the code that makes, checks and slices it. Needs no cloud.

Each step runs in a process of its own, so that its peak memory is known; "no step" is such a process that only
imports what it needs. Last comes the whole ``plimsoll catalogue refresh`` of a node that has a file by its path.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from bench.measure import Cost, Spread, once
from bench.ways import PLIMSOLL
from plimsoll_agent.adapters.ed25519 import read_private, read_public
from plimsoll_agent.catalogue import attachments, planner, signed_file
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.catalogue.model import VolumeType
from plimsoll_agent.catalogue.qosspec import Consumer, QosSpec
from plimsoll_agent.catalogue.signed_file import Region
from plimsoll_agent.util import files

TYPES = 20
WHOLE = "a node's whole refresh"


def main(words: Sequence[str]) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="script/bench region", description=__doc__, formatter_class=layout)
    parser.add_argument("--volumes", type=int, default=30_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--guests", type=int, default=10_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--of-node", type=int, default=40, metavar="N", help="volumes of a node; default: 40")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of each step; default: %(default)s")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.step:
        STEPS[arguments.step](arguments.home)
        return 0
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        _prepare(home, arguments.volumes, arguments.guests, arguments.of_node)
        costs = {step: [_run(step, home) for _ in range(arguments.runs)] for step in STEPS}
        costs[WHOLE] = [_refresh(home) for _ in range(arguments.runs)]
        size = (home / "region").stat().st_size / 2**20
    print(
        f"a region's file of {arguments.volumes} volumes, {arguments.guests} guests and {TYPES} types:"
        f" {size:.2f} MiB; medians of {arguments.runs} runs\n"
    )
    print(f"{'':28}{'wall ms':>10}{'CPU ms':>10}{'peak MiB':>10}")
    for step, of in costs.items():
        wall, cpu = (1000 * Spread.of(getattr(cost, kind) for cost in of).middle for kind in ("wall", "cpu"))
        print(f"  {step:26}{wall:10.0f}{cpu:10.0f}{max(cost.memory for cost in of) / 1024:10.0f}")
    return 0


# --- each in a process of its own -----------------------------------------------------------------------


def _write(home: Path) -> None:
    """Everything but the asking: that is in ``script/bench nodes``."""
    region, key = _region(home), read_private(home / "key")
    with _timed(home):
        content = signed_file.encode(region)
        files.write_whole(home / "region.sig", key.sign(content).decode())
        files.write_whole(home / "region", content.decode())


def _verify(home: Path) -> None:
    key = read_public(home / "key.pub")
    with _timed(home):
        content = files.read_whole(home / "region", signed_file.MOST_BYTES)
        key.verify(content, (home / "region.sig").read_bytes(), "region")


def _decode(home: Path) -> None:
    content = (home / "region").read_bytes()
    with _timed(home):
        signed_file.decode(content, "region")


def _slice(home: Path) -> None:
    region, met = (
        signed_file.decode((home / "region").read_bytes(), "region"),
        attachments.load(home / "attachments.json"),
    )
    with _timed(home):
        found = planner.sliced(None, region, met, source="region")
        catalogue.save(home, found)
    if met is None or found.volumes.keys() != met.marks_of_volumes().keys():
        raise RuntimeError("the slice is not that of the node")


def _nothing(home: Path) -> None:
    with _timed(home):
        pass


STEPS: dict[str, Callable[[Path], None]] = {
    "no step": _nothing,
    "write and sign": _write,
    "read and verify": _verify,
    "parse": _decode,
    "slice, and write that": _slice,
}


@contextmanager
def _timed(home: Path) -> Iterator[None]:
    """Tell the parent how long it took; a process lives longer than its step."""
    wall, cpu = time.monotonic(), time.process_time()
    yield
    told = {"wall": time.monotonic() - wall, "cpu": time.process_time() - cpu}
    (home / "told.json").write_text(json.dumps(told))


# --- the parent -----------------------------------------------------------------------------------------


def _run(step: str, home: Path) -> Cost:
    command = [sys.executable, "-m", "bench", "region", "--step", step, "--home", str(home)]
    whole = once(command, os.environ)
    told = json.loads((home / "told.json").read_text())
    return Cost(whole.started, told["wall"], told["cpu"], whole.memory)


def _refresh(home: Path) -> Cost:
    for left in (catalogue.NAME, "refresh.json"):
        (home / left).unlink(missing_ok=True)
    command = [PLIMSOLL, "--config-file", str(home / "plimsoll.conf"), "catalogue", "refresh"]
    return once(command, os.environ)


def _prepare(home: Path, volumes: int, guests: int, of_node: int) -> None:
    """Keys, a node that has some of the volumes, and what the region's machine would have read."""
    write_key(home)
    ids = [_uuid() for _ in range(volumes)]
    uuids = [_uuid() for _ in range(guests)]
    (home / "ids.json").write_text(json.dumps({"volumes": ids, "guests": uuids}))
    since = datetime.now(UTC) - timedelta(days=1)
    met = {f"{_uuid()}/{id}": Attachment(f"{n:012x}", since) for n, id in enumerate(random.sample(ids, of_node))}
    attachments.save(home / "attachments.json", Attachments(met))
    (home / "plimsoll.conf").write_text(
        f"[DEFAULT]\nstate_dir = {home}\n[catalogue]\nsource = region-file\ndirectory = {home}\n"
        f"region_file = {home}/region\nregion_key = {home}/key.pub\n"
    )


def _region(home: Path) -> Region:
    ids = json.loads((home / "ids.json").read_text())
    now = datetime.now(UTC)
    keys = {"total_iops_sec_per_gb": "30", "total_iops_sec_per_gb_min": "500", "total_bytes_sec": "104857600"}
    specs = {f"spec-{n}": QosSpec(f"spec-{n}", f"gold-{n}", Consumer.FRONT_END, keys) for n in range(TYPES)}
    types = {f"type-{n}": VolumeType(f"type-{n}", f"gold-{n}", f"spec-{n}") for n in range(TYPES)}
    volumes: dict[str, str | None] = {id: f"type-{n % TYPES}" for n, id in enumerate(ids["volumes"])}
    flavors = [{"quota:disk_total_iops_sec": str(100 * n)} for n in range(1, TYPES + 1)]
    servers = {uuid: flavors[n % TYPES] for n, uuid in enumerate(ids["guests"])}
    return Region(1, now, now, "bench", specs, types, volumes, servers)


def write_key(home: Path) -> None:
    """A pair of keys as ``openssl genpkey -algorithm ed25519`` makes it: ``key``, ``key.pub``."""
    from cryptography.hazmat.primitives import serialization as pem
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, file = Ed25519PrivateKey.generate(), home / "key"
    file.touch(mode=0o600)
    file.write_bytes(key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()))
    public = key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)
    file.with_name("key.pub").write_bytes(public)


def _uuid() -> str:
    return str(UUID(int=random.getrandbits(128)))
