"""Calls to the node's systemd, and how programs are run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from plimsoll_installer.errors import InstallError
from plimsoll_installer.hand import Ended, Hand
from plimsoll_installer.layout import Layout

# systemd-tmpfiles(8): invalid lines were ignored. It reads all files of the node, so they may not be plimsoll's.
_LINES_IGNORED = 65


@dataclass(frozen=True, slots=True)
class System:
    """The system of the node; with a directory for a test it does nothing."""

    hand: Hand
    layout: Layout
    is_up: bool
    """Whether systemd runs as the first process."""
    is_node: bool
    """Whether this is the machine itself, and not a directory for a test."""
    is_labelled: bool
    """Whether SELinux is enabled."""

    def reload(self) -> None:
        """Let systemd read the units again. Raises ``InstallError``."""
        if self.is_node and self.is_up:
            self.hand.call(["systemctl", "daemon-reload"], "systemctl daemon-reload")

    def make_users(self) -> None:
        """Raises ``InstallError``."""
        if self.is_node and self.layout.sysusers.exists():
            self.hand.call(["systemd-sysusers", str(self.layout.sysusers)], "systemd-sysusers")

    def make_directories(self) -> None:
        """Raises ``InstallError``."""
        if not (self.is_node and self.layout.tmpfiles.exists()):
            return
        # Not by the name of plimsoll's file: a site's file that overrides it would not be read (tmpfiles.d(5)).
        prefixes = [f"--prefix={path}" for path in self.layout.states]
        ended = self.hand.run(["systemd-tmpfiles", "--create", *prefixes])
        if ended.status not in (0, _LINES_IGNORED):
            lines = ended.err.strip().splitlines()
            raise InstallError(f"systemd-tmpfiles: {lines[-1] if lines else f'exit status {ended.status}'}")

    def relabel(self, directory: Path) -> None:
        """Give programs the SELinux label that systemd needs to start them. Raises ``InstallError``."""
        if self.is_node and self.is_labelled:
            self.hand.call(["restorecon", "-R", str(directory)], f"restorecon {directory}")

    def disable(self, units: Sequence[str]) -> None:
        """Stop and disable them. Raises ``InstallError``."""
        if self.is_node and units:
            # Without a running systemd there is nothing to stop, but the links are removed.
            now = ["--now"] if self.is_up else []
            self.hand.call(["systemctl", "disable", "--quiet", *now, *units], "systemctl disable")
            if self.is_up:
                self.hand.run(["systemctl", "reset-failed", *units])

    def known(self, database: str, names: Sequence[str]) -> list[str]:
        """Those that the node has in ``passwd``, or in ``group``."""
        return [name for name in names if self.is_node and self.hand.run(["getent", database, name]).status == 0]


def runner(keep: Callable[[], Sequence[int]]) -> Callable[[Sequence[str]], Ended]:
    """Runs programs with an empty environment: no proxy, no settings of pip or Python, no home.

    ``keep`` returns the open files that they inherit: the lock, so that other runs wait for a pip that outlives us.
    """

    def run(argv: Sequence[str]) -> Ended:
        clean = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": "/",
            "PIP_CONFIG_FILE": os.devnull,
        }
        try:
            done = subprocess.run(  # noqa: S603  # no shell, and no text of guests or tenants
                list(argv),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                env=clean,
                cwd="/",
                umask=0o022,
                pass_fds=tuple(keep()),
                check=False,
            )
        except FileNotFoundError:
            return Ended(127, "", f"{argv[0]} is not on this node")
        except OSError as error:
            return Ended(126, "", f"{argv[0]}: {error.strerror}")
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def system_of(hand: Hand, layout: Layout) -> System:
    """The system of this machine."""
    is_up = Path("/run/systemd/system").is_dir()  # sd_booted(3)
    return System(hand, layout, is_up, layout.is_node, is_labelled=Path("/sys/fs/selinux/enforce").exists())
