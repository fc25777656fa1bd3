"""``script/package container``: an image with what debs have, by podman or docker."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import packing
from ospackage import NAME, PackageError, run, status_of

_HOME = packing.ROOT / "packaging/container"
BASES = {
    "debian12": "docker.io/library/debian:12-slim",
    "debian13": "docker.io/library/debian:13-slim",
    "ubuntu24.04": "docker.io/library/ubuntu:24.04",
}
"""The image of the system that debs are for, by its name in theirs."""


def version_and_system(names: Sequence[str]) -> tuple[str, str]:
    """``0.1.0-1`` and ``debian12``, which all of these file names have. Raises ``PackageError``."""
    found = {}
    for name in names:
        match = re.fullmatch(rf"({NAME}(?:-[a-z]+)?)_([^_]+)\+([^_+]+)_[a-z0-9]+\.deb", name)
        if not match:
            raise PackageError(f"{name}: is not the name of a deb that script/package has made")
        found[match[1]] = match[2], match[3]
    if NAME not in found:
        raise PackageError(f"the package {NAME} is missing: name its deb too")
    if len({*found.values()}) > 1 or len(found) < len(names):
        raise PackageError(f"{', '.join(names)}: are not one deb of each package, of one version, for one system")
    return found[NAME]


def build(debs: Sequence[Path], engine: str, base: str | None, tag: str | None, when: int) -> str:
    """The name of the image, which is in the engine's store. Raises ``PackageError``."""
    version, system = version_and_system([deb.name for deb in debs])
    base = base or BASES.get(system)
    if base is None:
        raise PackageError(f"there is no image of {system} to build on: name one with --base")
    # A tag has neither + nor ~.
    name = tag or f"localhost/{NAME}:{re.sub('[^A-Za-z0-9_.-]', '-', f'{version}-{system}')}"
    labels = {
        "org.opencontainers.image.title": NAME,
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    with tempfile.TemporaryDirectory(prefix="plimsoll-container-") as context:
        for file in (*_HOME.iterdir(), *debs):
            shutil.copy(file, context)
        run(build_words(engine, name, base, labels, context, when), f"{engine} could not build the image")
    return name


def build_words(engine: str, name: str, base: str, labels: Mapping[str, str], context: str, when: int) -> list[str]:
    # OCI's own format has no health check. Any registry takes docker's, in which docker builds anyway.
    of_engine = ["--format=docker", f"--timestamp={when}", "--layers"] if engine == "podman" else []
    described = [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
    return [
        engine, "build", *of_engine, *described, "--file", f"{context}/Containerfile", "--build-arg", f"BASE={base}",
        "--tag", name, context,
    ]  # fmt: skip


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="script/package container", description="Builds an image of a container with what debs have."
    )
    parser.add_argument("debs", type=Path, nargs="+", metavar="DEB", help="of one version, for one system")
    parser.add_argument("--engine", choices=("podman", "docker"), default="podman", help="default: podman")
    parser.add_argument("--base", metavar="IMAGE", help="of that system; default: docker.io's official one")
    parser.add_argument("--tag", metavar="NAME", help=f"of the image; default: localhost/{NAME}:VERSION-SYSTEM")
    asked = parser.parse_args(argv)

    def make() -> None:
        print(build(asked.debs, asked.engine, asked.base, asked.tag, packing.epoch(packing.ROOT)))

    return status_of(make)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
