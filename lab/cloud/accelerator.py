"""Whether KVM can be used here, found out by booting a kernel with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .command import IN_A_BOX
from .image import GuestImage

DEADLINE = 6.0
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def kvm_boots(image: GuestImage, cache: Path) -> bool:
    """A /dev/kvm that opens is no proof: on some machines guests hang on it. Tried once per boot here."""
    verdict = cache / "kvm"
    asked = f"{BOOT_ID.read_text().strip()} {image.kernel.parent.name}"
    if verdict.exists():
        *known, answer = verdict.read_text().rsplit(" ", 1)
        if known == [asked]:
            return answer == "yes"
    boots = Path("/dev/kvm").exists() and _greets(image)
    verdict.write_text(f"{asked} {'yes' if boots else 'no'}")
    return boots


def _greets(image: GuestImage) -> bool:
    argv = [
        *("qemu-system-x86_64", "-machine", "q35,accel=kvm", "-cpu", "host", "-m", "256", "-nodefaults"),
        *("-display", "none", "-serial", "stdio", "-no-reboot"),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
        # No root: the initial RAM disk gives up and panics, which ends QEMU.
        *("-append", "console=ttyS0 panic=-1 root=/dev/none rootdelay=0 init=/none"),
    ]
    with subprocess.Popen(
        [*IN_A_BOX, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            out, _ = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired as error:
            process.kill()
            out = error.stdout or b""
        # User space was reached, not only the kernel's first line.
        return b"Run /init as init process" in out or b"Kernel panic" in out
