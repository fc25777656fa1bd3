"""``script/package repo``: an apt and a dnf repository in one directory, signed."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ospackage import NAME, PackageError, run, status_of


def add(directory: Path, packages: Sequence[Path], key: str) -> None:
    """Copy the packages into ``directory/apt`` and ``directory/dnf``, and make and sign what apt and dnf read there.

    Earlier versions stay: a downgrade needs them.
    """
    for package in packages:
        target = directory / place(package.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and package.suffix == ".deb" and target.read_bytes() != package.read_bytes():
            raise PackageError(f"{target}: is another package of this version: build yours with a higher --revision")
        shutil.copyfile(package, target)
        if package.suffix == ".rpm":
            # Debian's rpm looks for gpg2, which is gpg there.
            names = ["--define", f"_gpg_name {key}", "--define", f"__gpg {shutil.which('gpg') or 'gpg'}"]
            run(["rpmsign", *names, "--addsign", str(target)], f"{target} could not be signed")
    for suite in sorted((directory / "apt/pool").glob("*")):
        _make_suite(directory / "apt", suite.name, key)
    for repository in sorted((directory / "dnf").glob("*/*")):
        run(["createrepo_c", "--quiet", "--general-compress-type=gz", str(repository)], "createrepo_c failed")
        _sign(key, repository / "repodata/repomd.xml", "repomd.xml.asc", "--armor", "--detach-sign")
    files = sorted(path for path in directory.rglob("*") if path.suffix in (".deb", ".rpm"))
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(directory)}\n" for path in files)
    (directory / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    _sign(key, directory / "SHA256SUMS", "SHA256SUMS.asc", "--armor", "--detach-sign")
    exported = run(["gpg", "--batch", "--armor", "--export", key], f"gpg has no public key {key}")
    (directory / "plimsoll.asc").write_text(exported, encoding="ascii")


def place(name: str) -> PurePosixPath:
    """Where a package with this file name is in a repository. Raises ``PackageError``."""
    if found := re.fullmatch(r"[a-z-]+_[^_]+\+([^_+]+)_[a-z0-9]+\.deb", name):
        return PurePosixPath("apt/pool") / found[1] / name
    if found := re.fullmatch(r"[a-z-]+-[^-]+-[^-.]+[.+]([^-]+)\.([^.]+)\.rpm", name):
        return PurePosixPath("dnf") / found[1] / found[2] / name
    raise PackageError(f"{name}: is not the name of a deb or rpm that script/package has made")


def _make_suite(apt: Path, suite: str, key: str) -> None:
    home = apt / "dists" / suite
    architectures = sorted({path.stem.rpartition("_")[2] for path in (apt / "pool" / suite).glob("*.deb")})
    for architecture in architectures:
        index = home / f"main/binary-{architecture}/Packages"
        index.parent.mkdir(parents=True, exist_ok=True)
        printed = run(
            ["apt-ftparchive", "--arch", architecture, "packages", f"pool/{suite}"],
            "apt-ftparchive failed",
            where=apt,
        )
        index.write_text(printed, encoding="utf-8")
        with index.with_name("Packages.gz").open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
            packed.write(printed.encode())
    values = {
        "Origin": NAME, "Label": NAME, "Suite": suite, "Codename": suite, "Components": "main",
        "Architectures": " ".join(architectures),
    }  # fmt: skip
    options = [word for name, value in values.items() for word in ("-o", f"APT::FTPArchive::Release::{name}={value}")]
    for name in ("Release", "Release.gpg", "InRelease"):
        (home / name).unlink(missing_ok=True)
    printed = run(["apt-ftparchive", *options, "release", f"dists/{suite}"], "apt-ftparchive failed", where=apt)
    (home / "Release").write_text(printed, encoding="utf-8")
    _sign(key, home / "Release", "Release.gpg", "--armor", "--detach-sign")
    _sign(key, home / "Release", "InRelease", "--clear-sign")


def _sign(key: str, file: Path, signature: str, *how: str) -> None:
    output = str(file.with_name(signature))
    run(
        ["gpg", "--batch", "--yes", "--local-user", key, *how, "--output", output, str(file)],
        f"{file} could not be signed",
    )


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="script/package repo", description="Adds packages to a repository in a directory, and signs it."
    )
    parser.add_argument("--sign", required=True, metavar="KEY", help="gpg's name of the key")
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("packages", type=Path, nargs="+", metavar="FILE", help="debs and rpms")
    asked = parser.parse_args(argv)

    def make() -> None:
        add(asked.directory.resolve(), asked.packages, asked.sign)
        print(asked.directory)

    return status_of(make)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
