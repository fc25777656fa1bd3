"""Wheelhouses for tests: of this tree, and of versions that do not exist yet.

``python -m lab.wheelhouses dependencies`` fetches what nodes need, once (``script/setup`` does it);
``python -m lab.wheelhouses built`` prints where the tarball of this tree is.
"""

from __future__ import annotations

import base64
import configparser
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "script"))
import packing  # noqa: E402

VERSION = "0.1.0"
_KEPT = 3
Changes = Mapping[str, bytes | None]


def cache() -> Path:
    """The lab's: what was fetched once serves every run."""
    return Path(os.environ.get("PLIMSOLL_LAB_CACHE") or "/var/cache/plimsoll-lab")


def fetched() -> bool:
    return _wheels().is_dir()


def dependencies() -> Path:
    """A directory with the wheels of everything that plimsoll needs on a node; fetched where it is not there."""
    home = _wheels()
    with alone():
        if not home.is_dir():
            work = home.with_name(f".{home.name}.new")
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            tarball = _make(work)
            for name, (content, _) in packing.read_tar(tarball).items():
                if name.endswith(".whl") and "/plimsoll_agent-" not in name:
                    (work / Path(name).name).write_bytes(content)
            _keep(tarball)  # what ``built`` would make
            for old in cache().glob("node-wheels-*"):
                shutil.rmtree(old)
            work.rename(home)
    return home


def built() -> Path:
    """The tarball of this tree, made anew where the tree has changed."""
    wheels = dependencies()
    home = _kept()
    with alone():
        if not home.is_dir():
            work = home.with_name(f".{home.name}.made")
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            _keep(_make(work, "--reuse", str(wheels)))
            work.rmdir()
    return next(home.glob("*.tar.gz"))


def _kept() -> Path:
    return cache() / "node-wheelhouses" / content()


def _keep(tarball: Path) -> None:
    """Move this tree's to where it is looked for; only those of a few trees stay."""
    home = _kept()
    work = home.with_name(f".{home.name}.new")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    tarball.rename(work / tarball.name)
    shutil.rmtree(home, ignore_errors=True)
    work.rename(home)
    others = sorted(home.parent.glob("[0-9a-f]*"), key=lambda path: path.stat().st_mtime)
    for old in others[:-_KEPT]:
        shutil.rmtree(old)


def unpack(tarball: Path, into: Path) -> Path:
    """Where the wheelhouse is then, as ``tar`` leaves it."""
    into.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xzf", str(tarball), "-C", str(into)], check=True)
    return into / tarball.name.removesuffix(".tar.gz")


def revise(house: Path, version: str, changes: Changes | None = None, extras: Container[str] | None = None) -> Path:
    """Make an unpacked wheelhouse one of another version, or one of fewer ``extras``; where it is then.

    Files of plimsoll's wheel are replaced, added, or (None) left out. They are named as in the wheel, for example
    ``plimsoll_agent/policy/decide.py``; ``data/`` stands for the wheel's data files, as in
    ``data/share/plimsoll/systemd/plimsoll-enforce.timer``.
    """
    described = json.loads((house / "wheelhouse.json").read_text(encoding="utf-8"))
    was = described["version"]
    named = house.rename(house.with_name(house.name.replace(f"plimsoll-{was}-", f"plimsoll-{version}-")))
    old, new = (named / f"plimsoll_agent-{each}-py3-none-any.whl" for each in (was, version))
    _rewrite(old, new, was, version, changes or {})
    if old != new:
        old.unlink()
    described["version"] = version
    if extras is not None:
        _leave_out(named, described, extras)
    packing.describe(named, described)
    return named


def _leave_out(house: Path, described: dict[str, Any], extras: Container[str]) -> None:
    """The wheels that none of ``extras`` needs; hosts are brought a third of the bytes."""
    every = described["wheels"]
    kept = {name: wheels for name, wheels in every.items() if name not in described["extras"] or name in extras}
    for wheel in {*chain(*every.values())} - {*chain(*kept.values())}:
        (house / wheel).unlink()
    described |= {"extras": [name for name in described["extras"] if name in kept], "wheels": kept}


def _rewrite(old: Path, new: Path, was: str, version: str, changes: Changes) -> None:
    top, becomes = f"plimsoll_agent-{was}.", f"plimsoll_agent-{version}."
    with zipfile.ZipFile(old) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files = {becomes + name.removeprefix(top) if name.startswith(top) else name: it for name, it in files.items()}
    metadata = f"{becomes}dist-info/METADATA"
    files[metadata] = files[metadata].replace(f"\nVersion: {was}\n".encode(), f"\nVersion: {version}\n".encode())
    for name, content in changes.items():
        inside = f"{becomes}data/{name}" if name.startswith("data/") else name
        if content is None:
            del files[inside]
        else:
            files[inside] = content
    record = f"{becomes}dist-info/RECORD"
    del files[record]
    lines = [f"{name},sha256={_digest(it)},{len(it)}" for name, it in sorted(files.items())]
    files[record] = ("\n".join([*lines, f"{record},,"]) + "\n").encode()
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def _make(output: Path, *more: str) -> Path:
    done = subprocess.run(
        [str(ROOT / "script/wheelhouse"), "--output", str(output), *more],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"script/wheelhouse: {done.stderr.strip()[-2000:]}")
    return next(output.glob("*.tar.gz"))


def _wheels() -> Path:
    return cache() / f"node-wheels-{_required()}"


def _required() -> str:
    """Changes where a node needs something else."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    extras = parser["options.extras_require"]
    words = [
        parser["options"]["install_requires"],
        *(extras[name] for name in ("insight", "openstack", "region", "report")),
    ]
    return _short("\n".join(words).encode() + (ROOT / "script/constraints.txt").read_bytes())


def content() -> str:
    """Changes where the tree does; its tests and its lab are in no wheel."""
    names = [name for name in packing.tracked(ROOT) if not name.startswith(("tests/", "lab/", "bench/", "ansible/"))]
    sums = "".join(f"{name} {_short((ROOT / name).read_bytes())}\n" for name in names)
    return _short(sums.encode())


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@contextmanager
def alone() -> Iterator[None]:
    """Two test runs at a time make it once."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "node-wheels.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    match sys.argv[1:]:
        case ["dependencies"]:
            print(dependencies())
        case ["built"]:
            print(built())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
