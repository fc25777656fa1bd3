"""The ``plimsoll`` command: options that all commands share, exit statuses, and a defined way out."""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import NoReturn, TextIO

from cliff.app import App
from cliff.commandmanager import CommandManager

from plimsoll_agent.errors import UsageError

# Priorities of sd-daemon(3): the journal files a line that begins with <3> as an error.
_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}


class _JournalFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        priority = _PRIORITIES.get(record.levelno, 6)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


def _is_journal(stream: TextIO) -> bool:
    """Whether the stream is the one that systemd connected to the journal (JOURNAL_STREAM of systemd.exec(5))."""
    journal = os.environ.get("JOURNAL_STREAM")
    if not journal:
        return False
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return journal == f"{status.st_dev}:{status.st_ino}"


class _Commands(CommandManager):
    """plimsoll's own commands, of which only the one that was asked for is imported; cliff imports them all.

    Nor does it look through every other package of the node for more of them.
    """

    def load_commands(self, namespace: str) -> None:
        self.group_list.append(namespace)
        for point in distribution("plimsoll-agent").entry_points.select(group=namespace):
            self.commands[point.name.replace("_", " ")] = point


class Plimsoll(App):
    """Composition root of the commands."""

    NAME = "plimsoll"

    @property
    def settings_options(self) -> list[str]:
        """The options that make another plimsoll read the same settings."""
        files, directories = self.options.config_file or (), self.options.config_dir or ()
        # It may run in another directory.
        return [f"--config-file={file.absolute()}" for file in files] + [
            f"--config-dir={one.absolute()}" for one in directories
        ]

    def __init__(self) -> None:
        super().__init__(
            description="Keeps block I/O limits in force on the RBD disks of this node's guests.",
            version=distribution("plimsoll-agent").version,
            command_manager=_Commands("plimsoll.commands"),
            deferred_help=True,
        )

    def build_option_parser(
        self, description: str | None, version: str | None, argparse_kwargs: dict[str, object] | None = None
    ) -> argparse.ArgumentParser:
        parser = super().build_option_parser(description, version, argparse_kwargs)
        parser.add_argument(
            "--config-file",
            metavar="FILE",
            type=Path,
            action="append",
            help="read this instead of /etc/plimsoll/plimsoll.conf; may be given more than once",
        )
        parser.add_argument(
            "--config-dir",
            metavar="DIR",
            type=Path,
            action="append",
            help="read *.conf in it instead of /etc/plimsoll/plimsoll.conf.d",
        )
        return parser

    def configure_logging(self) -> None:
        super().configure_logging()
        if _is_journal(self.stderr):
            for handler in logging.getLogger("").handlers:
                handler.setFormatter(_JournalFormatter("%(message)s"))

    def for_journal(self, line: str) -> str:
        """The line with its priority where standard output is the journal: a guest's name must not choose it."""
        return f"<6>{line}" if _is_journal(self.stdout) else line

    def interact(self) -> None:
        """Options without a command: cliff would open a prompt of its own."""
        self.parser.print_usage(self.stderr)
        self.stderr.write("plimsoll: no command given; see: plimsoll --help\n")
        raise SystemExit(UsageError.exit_status)

    def run_subcommand(self, argv: list[str]) -> int:
        try:
            self.command_manager.find_command(argv)
        except ValueError:
            super().run_subcommand(argv)  # says what was meant perhaps; its 2 would say "changes"
            return UsageError.exit_status
        return super().run_subcommand(argv)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command and leave at once, by its status; a thread that is stuck in libvirt does not hold the process."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an arrow must not end a pass in a terminal that has none
            stream.reconfigure(errors="replace")
    app = Plimsoll()
    try:
        status = app.run(arguments or ["help"])
    except SystemExit as stop:  # argparse: 0 for --help and --version, 2 for what it cannot read
        status = UsageError.exit_status if stop.code == 2 else int(stop.code or 0)
    if not _flushed():
        status = status or 1
    # Python's own way out joins threads, and takes every module apart: a tenth of a pass that has nothing to change.
    os._exit(status)


def _flushed() -> bool:
    """Send out what is still held back; False, and nothing more is tried, when nobody takes it."""
    logging.shutdown()
    all_taken = True
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: it was closed before we began
        try:
            stream.flush()
        except OSError:
            all_taken = False
            # Else Python tries again on its way out, and ends with a status of its own (120).
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return all_taken


if __name__ == "__main__":
    main()
