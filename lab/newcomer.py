"""A bare Debian with a clone of this checkout's commit and nothing else of this machine: what a newcomer has.

``python -m lab.newcomer script/demo`` runs a command in that clone, and says what it has left behind.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.cloud import LabError, debian, preflight
from lab.cloud.command import DIES_WITH_US, run
from lab.cloud.layout import CHECKOUT, Layout

RELEASES = ("bookworm", "trixie")
HOME = Path("/var/tmp/plimsoll-newcomer")
CLONE = "root/plimsoll"
"""In a directory that no other user can enter, as root's clones are."""
# What was downloaded from elsewhere is no part of a machine. pip keeps wheels that it has built beside it, and these
# would hide that a compiler is missing.
DOWNLOADS = {"apt": "var/cache/apt/archives", "pip": "root/.cache/pip/http"}
VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL", "PLIMSOLL_LAB_MIRROR", "TERM")
# Another lab may be up on this machine, and its ports are this one's, too.
OFFSET = "PLIMSOLL_LAB_PORT_OFFSET"


def bare(release: str) -> debian.Kept:
    return debian.Kept(
        "newcomer" if release == RELEASES[0] else f"{release}-newcomer",
        release,
        ("ca-certificates", "git"),
        dropped=("var/cache/apt", "var/lib/apt/lists"),
    )


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it has left: processes, and where something is mounted."""

    status: int
    processes: list[str]
    mounts: list[str]


class Newcomer:
    """The machine as it is between commands: a directory."""

    def __init__(self, home: Path, cache: Path, release: str = RELEASES[0]) -> None:
        self._bare = bare(release)
        self.home = home
        self.root = home / "root"
        self.clone = self.root / CLONE
        self._cache = cache

    def make(self, say: Callable[[str], None]) -> None:
        """Nothing where it is there already."""
        if self.root.is_dir():
            return
        preflight.check_root()
        preflight.check_these(preflight.FOR_THE_IMAGE)
        tree, begun = self._bare.ensure(self._cache, say), self.home / "begun"
        shutil.rmtree(begun, ignore_errors=True)
        run(["cp", "--archive", tree, begun], timeout=300)
        debian.reach_mirrors(begun)
        run(["git", "clone", "--quiet", "--no-hardlinks", CHECKOUT, begun / CLONE])
        begun.rename(self.root)

    def run(
        self, words: Sequence[str], *, network: bool = True, each_line: Callable[[str], None] | None = None
    ) -> Ended:
        """A command in the clone; what it prints goes to the terminal, or line by line to ``each_line``."""
        downloads = self._cache / "downloads"
        for name in DOWNLOADS:
            (downloads / name).mkdir(parents=True, exist_ok=True)
        report = self.home / "report.json"
        report.unlink(missing_ok=True)
        spec = {
            "root": str(self.root),
            "binds": {str(downloads / name): inside for name, inside in DOWNLOADS.items()},
            "network": network,
            "environment": {
                "HOME": "/root",
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "LANG": "C.UTF-8",
                **{name: os.environ[name] for name in (*VARIABLES, OFFSET) if name in os.environ},
            },
            "directory": f"/{CLONE}",
            "words": list(words),
            "report": str(report),
        }
        namespaces = ["--fork", "--kill-child", "--pid", "--mount-proc", "--mount", "--uts", "--ipc"]
        argv = [*DIES_WITH_US, "unshare", *namespaces, *([] if network else ["--net"]), "--"]
        argv += [sys.executable, "-I", str(Path(__file__).with_name("newcomerboot.py")), json.dumps(spec)]
        output = subprocess.PIPE if each_line else None
        process = subprocess.Popen(
            argv,
            cwd="/",
            stdin=subprocess.DEVNULL if each_line else None,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            text=True,
        )
        try:
            for line in process.stdout or ():
                if each_line:
                    each_line(line.rstrip("\n"))
            while True:
                try:
                    process.wait()
                    break
                except KeyboardInterrupt:  # the command got it, too
                    pass
        finally:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        try:
            left = json.loads(report.read_text())
        except (OSError, ValueError):
            raise LabError(f"{self.home}: the machine did not start, or was killed") from None
        return Ended(process.returncode, left["processes"], left["mounts"])

    def remove(self) -> None:
        for name in ("root", "begun"):
            if (self.home / name).exists():
                shutil.rmtree(self.home / name)


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """While no other process is at work in that directory."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"{home}: another newcomer is at work there (--home DIRECTORY)") from None
        yield


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.newcomer", description=__doc__)
    parser.add_argument("--home", type=Path, default=HOME, help="where the machine lies; default: %(default)s")
    parser.add_argument("--release", choices=RELEASES, default=RELEASES[0], help="of Debian; default: %(default)s")
    parser.add_argument("--keep", action="store_true", help="leave it, and the next command goes on with it")
    parser.add_argument("--no-network", action="store_true", help="nothing but 127.0.0.1 can be reached")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="default: script/demo")
    arguments = parser.parse_args()
    newcomer = Newcomer(arguments.home.absolute(), Layout.from_environment().cache, arguments.release)
    try:
        with alone(newcomer.home):
            try:
                newcomer.make(print)
                ended = newcomer.run(arguments.words or ["script/demo"], network=not arguments.no_network)
            finally:
                if not arguments.keep:
                    newcomer.remove()
    except LabError as error:
        print(f"newcomer: {error}", file=sys.stderr)
        return 1
    for what in (*ended.processes, *ended.mounts):
        print(f"newcomer: left behind: {what}", file=sys.stderr)
    return ended.status or bool(ended.processes or ended.mounts)


if __name__ == "__main__":
    sys.exit(main())
