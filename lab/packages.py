"""Packages for tests: debs and rpms of this tree, and of versions that do not exist yet, in a signed repository.

``python -m lab.packages DIRECTORY VERSION...`` makes one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from lab import wheelhouses
from lab.wheelhouses import ROOT, VERSION, Changes, packing

_KEPT = 8
_KEY = "repository@plimsoll.invalid"


EXTRAS = ("openstack", "region")
"""Those of the tree's own version; others are the package for all nodes alone."""


def debs(version: str = VERSION, changes: Changes | None = None) -> list[Path]:
    """Made again where the tree has changed; ``changes`` as in ``wheelhouses.revise``."""
    return _made("deb", version, changes)


def rpms(version: str = VERSION) -> list[Path]:
    """For Debian, whose libraries they need."""
    return _made("rpm", version, None)


def _made(kind: str, version: str, changes: Changes | None) -> list[Path]:
    extras = EXTRAS if version == VERSION else ()
    tarball = wheelhouses.built()
    known = [
        wheelhouses.content(),
        packing.epoch(ROOT),  # the time of all files in them
        kind,
        version,
        extras,
        {name: str(text) for name, text in (changes or {}).items()},
    ]
    home = wheelhouses.cache() / "node-packages" / hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]
    with wheelhouses.alone():
        if not home.is_dir():
            home.parent.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home.parent) as name:
                house = wheelhouses.unpack(tarball, Path(name, "house"))
                house = wheelhouses.revise(house, version, changes, extras)
                options = ["--extras", ",".join(extras), "--output", f"{name}/dist"]
                _run([ROOT / "script/package", kind, *options, house])
                Path(name, "dist").rename(home)
            for old in sorted(home.parent.iterdir(), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
                shutil.rmtree(old, ignore_errors=True)
    return sorted(home.glob(f"*.{kind}"))


def repository(directory: Path, packages: Sequence[Path]) -> str:
    """Make one, signed with a key of its own; returns the public key, as ``plimsoll.asc`` there has it."""
    with tempfile.TemporaryDirectory() as keys:
        environment = os.environ | {"GNUPGHOME": keys}
        try:
            _run(["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", _KEY], environment)
            _run([ROOT / "script/package", "repo", "--sign", _KEY, directory, *packages], environment)
        finally:
            _run(["gpgconf", "--kill", "all"], environment)
    return (directory / "plimsoll.asc").read_text(encoding="ascii")


@contextmanager
def served(directory: Path, address: str) -> Iterator[str]:
    """Its URL; at an address that hosts of the lab reach."""
    with ThreadingHTTPServer((address, 0), partial(_Quiet, directory=str(directory))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{address}:{server.server_address[1]}"
        finally:
            server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def _run(argv: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(list(map(str, argv)), env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv[0]}: {(done.stderr or done.stdout).strip()[-2000:]}")


if __name__ == "__main__":
    repository(Path(sys.argv[1]), [package for version in sys.argv[2:] for package in debs(version)])
