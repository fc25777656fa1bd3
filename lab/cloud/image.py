"""The bootable guest image: built once with debootstrap, kept under a name made of its recipe."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import debian, keep, recipe, release
from .command import LabError, run

BUILD_SPACE = 4 * 1024**3


@dataclass(frozen=True)
class GuestImage:
    kernel: Path
    initrd: Path
    root: Path  # raw ext4, sparse


def cached(cache: Path) -> GuestImage | None:
    home = cache / _name()
    return _image(home) if home.is_dir() else None


def ensure(cache: Path, say: Callable[[str], None]) -> GuestImage:
    """The image for the present recipe, built first if there is none; others' builds are waited for."""
    name = _name()
    suite = release.of_guests()
    one_of_it = name.replace(recipe.key(suite), "[0-9a-f]" * 16)

    def make(build: Path) -> Path:
        (build / "out").mkdir()
        _make(suite, build / "tree", build / "out", build / "log")
        return build / "out"

    home = keep.ensure(
        cache,
        name,
        make,
        outdated=lambda: (root.parent for root in cache.glob(f"{one_of_it}/root.raw")),
        space=BUILD_SPACE,
        before=lambda: say(f"image: building a guest of Debian {suite} with debootstrap, once, in about a minute"),
    )
    return _image(home)


def _name() -> str:
    """Each release's has one of its own beside it."""
    suite = release.of_guests()
    return recipe.key(suite) if suite == recipe.SUITE else f"{suite}-guest-{recipe.key(suite)}"


def _image(home: Path) -> GuestImage:
    return GuestImage(home / "vmlinuz", home / "initrd", home / "root.raw")


def _make(suite: str, tree: Path, out: Path, log: Path) -> None:
    if suite == recipe.SUITE:
        debian.make(tree, suite, recipe.packages(suite), log)
    else:  # debootstrap of this machine does not find all that packages of a later release stand on
        debian.make(tree, suite, (), log)
        debian.add(tree, recipe.packages(suite), log)
    _configure(tree)
    run(["chroot", tree, "update-initramfs", "-u", "-k", "all"], timeout=300, boxed=True, log=log)
    kernel = _only(tree, "boot/vmlinuz-*")
    initrd = _only(tree, "boot/initrd.img-*")
    shutil.copyfile(kernel, out / "vmlinuz")
    shutil.copyfile(initrd, out / "initrd")
    _strip(tree)
    root = out / "root.raw"
    with root.open("wb") as file:
        file.truncate(recipe.SIZE)
    run(["mke2fs", "-q", "-t", "ext4", "-L", "root", "-m", "0", "-d", tree, root], timeout=300, log=log)


def _configure(tree: Path) -> None:
    for name, text in recipe.FILES.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if text.startswith("#!"):
            path.chmod(0o755)
    units = tree / "etc/systemd/system"
    for unit in recipe.MASKED:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    initramfs = tree / "etc/initramfs-tools"
    (initramfs / "modules").write_text("\n".join(recipe.MODULES) + "\n")
    (initramfs / "conf.d/small").write_text("MODULES=list\nBUSYBOX=n\nCOMPRESS=gzip\nRESUME=none\n")


def _strip(tree: Path) -> None:
    for name in recipe.DROPPED:
        path = tree / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for name in recipe.EMPTY_AGAIN:
        (tree / name).mkdir(parents=True, exist_ok=True)


def _only(tree: Path, pattern: str) -> Path:
    found = sorted(tree.glob(pattern))
    if not found:
        raise LabError(f"the guest's tree has no {pattern}")
    return found[-1]
