"""What the guest's image is made of: data only, so that a hash of it names the image."""

from __future__ import annotations

import hashlib

SUITE = "bookworm"
"""Of the guest, unless PLIMSOLL_LAB_RELEASE is another one."""
SIZE = 2 * 1024**3

PACKAGES = (
    "dbus",
    "fio",
    "initramfs-tools",
    "kmod",
    "linux-image-cloud-amd64",
    "qemu-guest-agent",
    "systemd-sysv",
    "udev",
)

# Everything that the guest ever needs is loaded from the initial RAM disk; the tree keeps no modules.
MODULES = (
    "virtio_pci",
    "virtio_blk",
    "virtio_scsi",
    "sd_mod",
    "virtio_console",
    "virtio_rng",
    "ext4",
    "crc32c_generic",
)

# Under emulation each of these costs a second or more, and none serves a guest that only runs fio.
MASKED = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dbus.service",
    "dbus.socket",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "kmod-static-nodes.service",
    "ldconfig.service",
    "modprobe@configfs.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "motd-news.timer",
    "serial-getty@ttyS0.service",
    "systemd-binfmt.service",
    "systemd-journal-catalog-update.service",
    "systemd-initctl.socket",
    "systemd-journal-flush.service",
    "systemd-journald.service",
    "systemd-journald.socket",
    "systemd-journald-audit.socket",
    "systemd-journald-dev-log.socket",
    "systemd-logind.service",
    "systemd-machine-id-commit.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-remount-fs.service",
    "systemd-sysctl.service",
    "systemd-sysext.service",
    "systemd-sysusers.service",
    "systemd-timesyncd.service",
    "systemd-update-done.service",
    "systemd-update-utmp.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-user-sessions.service",
    "systemd-hwdb-update.service",
    "systemd-modules-load.service",
    "systemd-tmpfiles-clean.timer",
    "systemd-tmpfiles-setup.service",
    "systemd-tmpfiles-setup-dev.service",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
)

_NOTHING = "#!/bin/sh\n"
FILES = {
    "etc/hostname": "plimsoll-guest\n",
    "etc/hosts": "127.0.0.1 localhost plimsoll-guest\n",
    "etc/fstab": "",
    "etc/machine-id": "5e1fca11ab1e4d0c9a7e0b5ca1ab1e00\n",
    "etc/systemd/system.conf.d/quick.conf": "[Manager]\nDefaultTimeoutStopSec=3s\nShowStatus=no\n",
    # Of a boot of 27 core-seconds udev takes six in the initial RAM disk, where modules are loaded by name, and three
    # in the system, for devices that nothing waits for.
    "etc/initramfs-tools/scripts/init-top/udev": _NOTHING,
    "etc/initramfs-tools/scripts/init-bottom/udev": _NOTHING,
    "etc/systemd/system/systemd-udev-trigger.service.d/few.conf": (
        "[Service]\nExecStart=\n"
        "ExecStart=-udevadm trigger --action=add --subsystem-match=block --subsystem-match=virtio-ports\n"
    ),
}

# Not needed to run, and the image is copied into Ceph at each start.
DROPPED = (
    "boot",
    "lib/modules",
    "usr/share/bash-completion",
    "usr/share/doc",
    "usr/share/i18n",
    "usr/share/info",
    "usr/share/initramfs-tools",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/zoneinfo",
    "usr/lib/udev/hwdb.d",
    "usr/lib/udev/hwdb.bin",
    "var/cache/apt",
    "var/cache/debconf",
    "var/lib/apt/lists",
    "var/log",
)
EMPTY_AGAIN = ("boot", "lib/modules", "var/cache/apt", "var/log")

KERNEL_ARGUMENTS = (
    "root=/dev/vda rootflags=noatime rw quiet loglevel=3 console=ttyS0 mitigations=off net.ifnames=0 audit=0 "
    "apparmor=0 random.trust_cpu=on nowatchdog no_timer_check tsc=reliable fsck.mode=skip noresume "
    "no5lvl cryptomgr.notests"
)
EMULATED = f"{KERNEL_ARGUMENTS} clocksource=hpet"
"""The speed of an emulated TSC is measured while it boots, wrongly where others take the core meanwhile: its clock is
then too fast or too slow until it boots again."""


def packages(suite: str) -> tuple[str, ...]:
    """No longer in what debootstrap always installs since Debian 13: mke2fs, which the guest runs."""
    return PACKAGES if suite == SUITE else (*PACKAGES, "e2fsprogs")


def key(suite: str = SUITE) -> str:
    parts = (suite, SIZE, packages(suite), MODULES, MASKED, sorted(FILES.items()), DROPPED, EMPTY_AGAIN)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
