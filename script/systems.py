"""``script/package systems``: debs for several systems, each built in a container of its own, by podman or docker."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import packing
from container import BASES
from ospackage import PackageError, run, status_of

_HOME = packing.ROOT / "packaging/systems"


def images(named: Sequence[str]) -> dict[str, str]:
    """The image of each system: ``debian13``, or ``debian13=IMAGE`` for another one. Raises ``PackageError``."""
    found = {}
    for name in named:
        system, _, image = name.partition("=")
        found[system] = image or BASES.get(system, "")
        if not found[system]:
            raise PackageError(f"{name}: is none of {', '.join(BASES)}; name an image of it: {system}=IMAGE")
    return found


def build_words(engine: str, base: str, revision: int, network: str | None, context: str, into: Path) -> list[str]:
    at = [] if network is None else ["--network", network]
    arguments = ["--build-arg", f"BASE={base}", "--build-arg", f"REVISION={revision}"]
    return [engine, "build", *at, *arguments, "--output", f"type=local,dest={into}", context]


def build(asked: argparse.Namespace) -> list[Path]:
    """The debs of all systems, or of none. Raises ``PackageError``."""
    of_systems = images(asked.systems)
    if run(["git", "status", "--porcelain"], "git does not answer", where=packing.ROOT).strip():
        raise PackageError(f"{packing.ROOT}: has changes that are in no commit; commit them, since a commit is built")
    asked.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="plimsoll-systems-") as work:
        context, made = Path(work, "context"), Path(work, "dist")
        shutil.copytree(_HOME, context)
        run(["git", "bundle", "create", "--quiet", context / "plimsoll.bundle", "HEAD"], "git", where=packing.ROOT)
        index = os.environ.get("PIP_INDEX_URL")
        (context / "pip.conf").write_text(f"[global]\nindex-url = {index}\n" if index else "")
        for system, base in of_systems.items():
            print(f"{system}: builds on {base}", file=sys.stderr, flush=True)
            words = build_words(asked.engine, base, asked.revision, asked.network, str(context), made)
            _run(words, f"{asked.engine} could not build the debs of {system}", asked.output / f"{system}.log")
        return [Path(shutil.copy(deb, asked.output)) for deb in sorted(made.glob("*.deb"))]


def _run(words: Sequence[str], trouble: str, log: Path) -> None:
    """What an engine says of a build that fails is long: it goes to the log."""
    try:
        run(words, trouble)
    except PackageError as error:
        log.write_text(f"{error}\n", encoding="utf-8")
        raise PackageError(f"{trouble}: {str(error).splitlines()[-1]}; all it said is in {log}") from error


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="script/package systems",
        description="Builds debs of the checkout's commit for several systems, each in a container of that system.",
    )
    parser.add_argument(
        "systems", nargs="+", metavar="SYSTEM[=IMAGE]", help=f"{', '.join(BASES)}; with the image to build on"
    )
    parser.add_argument("--engine", choices=("podman", "docker"), default="podman", help="default: podman")
    parser.add_argument("--network", metavar="NAME", help="of the engine, for apt and pip; default: its own")
    parser.add_argument("--revision", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--output", type=Path, default=Path("dist"), metavar="DIR", help="default: dist")
    asked = parser.parse_args(argv)
    return status_of(lambda: print(*build(asked), sep="\n"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
