"""The ``plimsoll`` program: shared options, exit statuses, and its exit."""

from __future__ import annotations

import argparse
import gc
import io
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from plimsoll_agent.errors import UsageError
from plimsoll_agent.terminal.folding import Folding, folding
from plimsoll_agent.terminal.output import COLOUR_CHOICES, marked
from plimsoll_agent.terminal.overview import in_order, noun_of, of_noun, unknown
from plimsoll_agent.util.distribution import commands, version
from plimsoll_agent.util.on_demand import postponed

# For plugins, a log file and the metadata of other packages, which no command of plimsoll has: a fifth of a start.
with postponed("stevedore", "importlib.metadata", "logging.handlers"):
    from cliff.app import App
    from cliff.commandmanager import CommandManager, EntryPointWrapper
    from cliff.help import HelpCommand

if TYPE_CHECKING:
    from cliff.command import Command

# Priorities of sd-daemon(3): the journal files a line that begins with <3> as an error.
_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}


class _JournalFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        priority = _PRIORITIES.get(record.levelno, 6)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


class _TerminalFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        mark = (
            "error: " if record.levelno >= logging.ERROR else "warning: " if record.levelno >= logging.WARNING else ""
        )
        return f"{mark}{text}"


def is_journal(stream: TextIO) -> bool:
    """Whether the stream is the one that systemd connected to the journal (JOURNAL_STREAM of systemd.exec(5))."""
    journal = os.environ.get("JOURNAL_STREAM")
    if not journal:
        return False
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return journal == f"{status.st_dev}:{status.st_ino}"


class _Command(EntryPointWrapper):
    """A command, of which nothing is imported before it is run."""

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self._value = value

    def load(self) -> type[Command]:
        module, _, name = self._value.partition(":")
        command: type[Command] = getattr(import_module(module), name)
        return command

    @property
    def value(self) -> str:
        return self._value


class _Commands(CommandManager):
    """plimsoll's own commands. Unlike cliff it imports only the command to run, and searches no other package."""

    def load_commands(self, namespace: str) -> None:
        self.group_list.append(namespace)
        self.commands |= {name: _Command(name, value) for name, value in commands().items()}


class Help(HelpCommand):
    """Print help on plimsoll, or on one command."""

    app: Plimsoll

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        names = [name for name, _ in self.app.command_manager]
        if not parsed_args.cmd:
            self.app.write_help()
        elif noun := noun_of(parsed_args.cmd, names):
            self.app.stdout.writelines(f"{line}\n" for line in of_noun(noun, names, self.app.summary_of))
        else:
            try:
                self.app.command_manager.find_command(parsed_args.cmd)
            except ValueError:
                return self.app.refuse(parsed_args.cmd)
            return int(super().take_action(parsed_args))
        return 0


def plain_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """An error in the arguments is one line, and one that names the help, instead of the whole usage."""

    def error(message: str) -> NoReturn:
        text = marked(sys.stderr, "error", message)
        parser.exit(UsageError.exit_status, f"{text}\nsee: {parser.prog} --help\n")

    def format_help() -> str:
        from plimsoll_agent.terminal.help import text_of  # here, since only help needs it

        return text_of(parser)

    parser.error = error  # type: ignore[method-assign]
    parser.format_help = format_help  # type: ignore[method-assign]
    parser.color = False  # type: ignore[attr-defined]  # autopage makes it true for a terminal
    return parser


class Plimsoll(App):
    NAME = "plimsoll"

    @property
    def settings_options(self) -> list[str]:
        """The options with which another plimsoll process reads the same settings."""
        files, directories = self.options.config_file or (), self.options.config_dir or ()
        # Absolute, since it may run in another directory.
        return [f"--config-file={file.absolute()}" for file in files] + [
            f"--config-dir={one.absolute()}" for one in directories
        ]

    def __init__(self) -> None:
        super().__init__(
            description="Keeps block I/O limits on the RBD disks of this node's guests.",
            version=version(),
            command_manager=_Commands("plimsoll.commands"),
            deferred_help=True,
        )
        self.command_manager.add_command("help", Help)

    def build_option_parser(
        self, description: str | None, version: str | None, argparse_kwargs: dict[str, object] | None = None
    ) -> argparse.ArgumentParser:
        parser = plain_parser(super().build_option_parser(description, version, argparse_kwargs))
        parser.add_argument(
            "--config-file",
            metavar="FILE",
            type=Path,
            action="append",
            help="read FILE instead of /etc/plimsoll/plimsoll.conf; repeatable",
        )
        parser.add_argument(
            "--config-dir",
            metavar="DIR",
            type=Path,
            action="append",
            help="read DIR/*.conf instead of /etc/plimsoll/plimsoll.conf.d/*.conf; repeatable",
        )
        parser.add_argument(
            "--color",
            choices=COLOUR_CHOICES,
            default="auto",
            help="colour in output for people; default: auto, on a terminal and without NO_COLOR",
        )
        return parser

    def configure_logging(self) -> None:
        super().configure_logging()
        if isinstance(self.stderr, Folding):
            self.stderr.choose_colour(self.options.color)
        formatter: type[logging.Formatter] = logging.Formatter
        if is_journal(self.stderr):
            formatter = _JournalFormatter
        elif self.stderr.isatty():
            formatter = _TerminalFormatter
        for handler in logging.getLogger("").handlers:
            if not isinstance(handler, logging.FileHandler):
                handler.setFormatter(formatter("%(message)s"))

    def for_journal(self, line: str) -> str:
        """The line, with its priority if standard output is the journal, so that a guest's name cannot set it."""
        return f"<6>{line}" if is_journal(self.stdout) else line

    def interact(self) -> None:
        """Refuses options without a command, for which cliff would open a prompt."""
        self.stderr.write(f"{marked(self.stderr, 'error', 'no command given; see: plimsoll --help')}\n")
        raise SystemExit(UsageError.exit_status)

    def run_subcommand(self, argv: list[str]) -> int:
        names = [name for name, _ in self.command_manager]
        argv = in_order(argv, names)
        try:
            self.command_manager.find_command(argv)
        except ValueError:
            return self.refuse(argv)
        return super().run_subcommand(argv)

    def refuse(self, argv: list[str]) -> int:
        """Say that there is no such command, and which may be meant."""
        first, *others = unknown(argv, [name for name, _ in self.command_manager], self.summary_of)
        self.stderr.writelines(f"{line}\n" for line in (marked(self.stderr, "error", first), *others))
        return UsageError.exit_status

    def print_help_if_requested(self) -> None:
        if self.options.deferred_help:
            self.write_help()
            raise SystemExit(0)

    def write_help(self) -> None:
        """All commands in groups, and the general options."""
        from autopage.argparse import help_pager  # here, since only help needs it

        from plimsoll_agent.terminal.overview import overview

        with help_pager(self.stdout) as out:
            out.writelines(
                f"{line}\n" for line in overview((name for name, _ in self.command_manager), self.summary_of)
            )

    def summary_of(self, name: str) -> str:
        """What a command does, in a few words."""
        return (self.command_manager.commands[name].load().__doc__ or "").split("\n")[0].rstrip(".")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit at once with its status; a thread stuck in libvirt does not hold the process."""
    # Modules and disks stay, and collecting garbage as often as Python does takes a tenth of the imports' time.
    gc.set_threshold(50_000)
    arguments = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed from the start: else a file of ours would take its number
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  # until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without arrows must not end a pass
            stream.reconfigure(errors="replace")
    sys.stderr = folding(sys.stderr, marks=True)
    app = Plimsoll()
    try:
        status = app.run(arguments or ["help"])
    except SystemExit as stop:  # 0 for --help and --version; 2 is argparse's, of cliff's own commands
        status = UsageError.exit_status if stop.code == 2 else int(stop.code or 0)
    if not _flushed():
        status = status or 1
    # Python's own exit joins threads and tears down every module, which takes a tenth of a pass without changes.
    os._exit(status)


def _flushed() -> bool:
    """Flush all output; False if it cannot be written."""
    logging.shutdown()
    all_taken = True
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            all_taken = False
            # Else Python tries again at exit, and ends with status 120.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return all_taken


if __name__ == "__main__":
    main()
