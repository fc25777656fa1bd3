"""What the node's systemd is asked for, and how programs are run at all."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from plimsoll_installer.errors import InstallError
from plimsoll_installer.hand import Ended, Hand
from plimsoll_installer.layout import Layout

# systemd-tmpfiles(8): lines that are not valid were ignored. All files of the node are read, so they may be others'.
_LINES_IGNORED = 65


@dataclass(frozen=True, slots=True)
class System:
    """Nothing of it happens where this is no node."""

    hand: Hand
    layout: Layout
    is_up: bool
    """Whether systemd runs here as the first process."""
    is_node: bool
    """Whether this is the machine itself, and not a directory for a test."""
    is_labelled: bool
    """Whether SELinux holds it."""

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
        # Not by the name of our file: what the site puts before it would not be read (tmpfiles.d(5)).
        prefixes = [f"--prefix={path}" for path in self.layout.states]
        ended = self.hand.run(["systemd-tmpfiles", "--create", *prefixes])
        if ended.status not in (0, _LINES_IGNORED):
            lines = ended.err.strip().splitlines()
            raise InstallError(f"systemd-tmpfiles: {lines[-1] if lines else f'exit status {ended.status}'}")

    def relabel(self, directory: Path) -> None:
        """What systemd starts has to bear the label of programs. Raises ``InstallError``."""
        if self.is_node and self.is_labelled:
            self.hand.call(["restorecon", "-R", str(directory)], f"restorecon {directory}")

    def disable(self, units: Sequence[str]) -> None:
        """Stop them and have them not start again. Raises ``InstallError``."""
        if self.is_node and units:
            # Without systemd running there is nothing to stop, and the links are taken away all the same.
            now = ["--now"] if self.is_up else []
            self.hand.call(["systemctl", "disable", "--quiet", *now, *units], "systemctl disable")
            if self.is_up:
                self.hand.run(["systemctl", "reset-failed", *units])

    def known(self, database: str, names: Sequence[str]) -> list[str]:
        """Those that the node has in ``passwd``, or in ``group``."""
        return [name for name in names if self.is_node and self.hand.run(["getent", database, name]).status == 0]


def runner(keep: Callable[[], Sequence[int]]) -> Callable[[Sequence[str]], Ended]:
    """Runs programs with nothing of our environment: no proxy, no setting of pip or Python, no home.

    ``keep`` names the files that they hold open with us: the lock, so that a pip that outlives us is waited for.
    """

    def run(argv: Sequence[str]) -> Ended:
        clean = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": "/",
            "PIP_CONFIG_FILE": os.devnull,
        }
        try:
            done = subprocess.run(  # noqa: S603  # no shell, and nothing that a guest or a tenant has said
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
    """This machine's, as it is found to be."""
    is_up = Path("/run/systemd/system").is_dir()  # sd_booted(3)
    return System(hand, layout, is_up, layout.is_node, is_labelled=Path("/sys/fs/selinux/enforce").exists())
