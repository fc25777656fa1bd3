"""What script/package and script/wheelhouse do to files: the same input gives the same bytes, anywhere, any time."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import machine

ROOT = Path(__file__).resolve().parents[1]
BASE = "base"
"""What a wheelhouse calls the wheels that are needed without extras."""
_MADE = {"build", "dist", "demo", "plimsoll_agent.egg-info", "PKG-INFO"}
"""What stands in the root of a tree and was not written by anybody; so is what begins with a dot."""


def tracked(root: Path) -> list[str]:
    """The files of the checkout, or of an unpacked sdist; sorted, relative to the root."""
    if (root / ".git").exists():
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, text=True, check=True,
        ).stdout.split("\0")  # fmt: skip
        return sorted({name for name in listed if name and (root / name).is_file()})
    files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(str(path) for path in files if not _is_made(path.parts))


def _is_made(parts: tuple[str, ...]) -> bool:
    top = parts[0]
    return top in _MADE or top[0] == "." or parts[:2] == ("docs", "_build") or "__pycache__" in parts


def epoch(root: Path) -> int:
    """Seconds since 1970 that all files are given: the last commit's; in an unpacked sdist, its own."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    if (root / ".git").exists():
        asked = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
        return int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    return int((root / "PKG-INFO").stat().st_mtime)


def stage(root: Path, to: Path) -> None:
    """A copy of the tree whose modes and times do not tell who made it, or when."""
    when = epoch(root)
    for name in tracked(root):
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)
        target.chmod(0o755 if (root / name).stat().st_mode & 0o100 else 0o644)
        os.utime(target, (when, when))
    for directory in [to, *(path for path in to.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)


def write_tar(file: Path, members: Iterable[tuple[str, bytes, int]], when: int, level: int = 9) -> None:
    """Members are name, content and mode; directories above them are made. Sorted, of root, all of one time."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        made: set[str] = set()
        for name, data, mode in sorted(members):
            for parent in reversed(Path(name).parents[:-1] if not name.startswith("/") else []):
                if str(parent) not in made:
                    made.add(str(parent))
                    tar.addfile(_member(str(parent), 0o755, when, tarfile.DIRTYPE))
            member = _member(name, mode, when, tarfile.REGTYPE)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    new = file.with_name(f".{file.name}.new")
    with new.open("wb") as raw, gzip.GzipFile("", "wb", level, raw, mtime=0) as packed:
        packed.write(content.getbuffer())
    new.chmod(0o644)
    new.replace(file)


def _member(name: str, mode: int, when: int, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.mtime, member.type, member.uname, member.gname = mode, when, kind, "root", "root"
    return member


def read_tar(file: Path) -> dict[str, tuple[bytes, int]]:
    """Its files: content and mode by name."""
    with tarfile.open(file) as tar:
        files = [(member, tar.extractfile(member)) for member in tar.getmembers() if member.isfile()]
        return {member.name: (data.read(), 0o755 if member.mode & 0o100 else 0o644) for member, data in files if data}


def repack(file: Path, when: int) -> None:
    """A tarball that another program made, without what differs from one run to the next."""
    write_tar(file, ((name, data, mode) for name, (data, mode) in read_tar(file).items()), when)


def repack_collection(file: Path, when: int) -> None:
    """As ``repack``; the list of files in an Ansible collection is in the order of the directory, and has a sum."""
    files = read_tar(file)
    listed = json.loads(files["FILES.json"][0])
    listed["files"].sort(key=lambda entry: str(entry["name"]))
    content = json.dumps(listed, indent=1).encode()
    manifest = json.loads(files["MANIFEST.json"][0])
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(content).hexdigest()
    files["FILES.json"] = content, 0o644
    files["MANIFEST.json"] = json.dumps(manifest, indent=1).encode(), 0o644
    write_tar(file, ((name, data, mode) for name, (data, mode) in files.items()), when)


def needed(report: Path) -> list[str]:
    """The wheels, but for plimsoll's own, that pip would install: what its ``--report`` says."""
    installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    names = (Path(unquote(urlsplit(item["download_info"]["url"]).path)).name for item in installed)
    return sorted(name for name in names if not name.startswith("plimsoll_agent-"))


def describe(house: Path, description: Mapping[str, object]) -> None:
    """Write what the wheels in the directory are, and the sums of all its files."""
    (house / "wheelhouse.json").write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    files = sorted(path for path in house.iterdir() if path.name != "SHA256SUMS")
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (house / "SHA256SUMS").write_text(sums, encoding="ascii")


def pack(house: Path, output: Path, when: int) -> Path:
    """The directory as ``NAME.tar.gz``."""
    members = ((f"{house.name}/{path.name}", path.read_bytes(), 0o644) for path in house.iterdir())
    tarball = output / f"{house.name}.tar.gz"
    write_tar(tarball, members, when, level=1)  # wheels are packed already
    return tarball


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("epoch", "stage", "sdist", "collection", "name", "wheelhouse"):
        commands.add_parser(name).add_argument("words", nargs="*")
    asked = parser.parse_args()
    words = asked.words
    if asked.command == "epoch":
        print(epoch(ROOT))
    elif asked.command == "stage":
        stage(ROOT, Path(words[0]))
    elif asked.command == "sdist":
        repack(Path(words[0]), epoch(ROOT))
    elif asked.command == "collection":
        repack_collection(Path(words[0]), epoch(ROOT))
    else:
        here = machine.here()
        if asked.command == "name":
            print(f"plimsoll-{words[0]}-{here}")
            return
        directory, version, output, libvirt, *reports = words
        house = Path(directory)
        shutil.copyfile(ROOT / "script/constraints.txt", house / "constraints.txt")
        description: dict[str, object] = {"version": version, "os": here.os, "python": here.python, "arch": here.arch}
        wheels = {Path(report).stem: needed(Path(report)) for report in reports}
        description |= {
            "extras": [name for name in wheels if name != BASE],
            "libvirt": libvirt,
            "wheels": wheels,
        }
        describe(house, description)
        pack(house, Path(output), epoch(ROOT))


if __name__ == "__main__":
    main()
