"""What commands share: one-line errors, the node's settings and libvirt, limits on the command line."""

from __future__ import annotations

import argparse
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from cliff import command

from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.messages.limits import listed
from plimsoll_agent.model.approvals import LEAST_DIGITS, Approval, is_digest
from plimsoll_agent.model.limits import PARAMETERS, Limits, LimitsError, Parameter
from plimsoll_agent.terminal.folding import folding
from plimsoll_agent.terminal.main import Plimsoll, plain_parser
from plimsoll_agent.terminal.output import Terminal, marked, terminal_of
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import meant, printable

if TYPE_CHECKING:
    from plimsoll_agent.adapters.libvirt.client import Libvirt
    from plimsoll_agent.config.settings import Settings

LOG = logging.getLogger(__name__)
_LONGEST_REASON = 200
YES = ("y", "yes")
"""Answers that agree."""


class OneLineErrors(command.Command):
    """A command whose errors are a line on stderr and an exit status, never a traceback."""

    app: Plimsoll
    status = 0
    prints_files = False
    """Its output is text that is kept as it is, such as a file; or it fills the screen."""

    def __init__(self, app: Plimsoll, app_args: argparse.Namespace | None, cmd_name: str | None = None) -> None:
        super().__init__(app, app_args)  # without a name: else cliff searches every package's metadata for hooks

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = plain_parser(super().get_parser(prog_name))
        # argparse takes -2h for an option unless it looks like a negative number, so --for -2h would end with
        # "expected one argument".
        parser._negative_number_matcher = re.compile(r"-\d\w*$", re.ASCII)
        # Options may stand between words: disk hold add GUEST --for 2h DISK.
        parser.parse_args = parser.parse_intermixed_args  # type: ignore[method-assign]
        return parser

    @property
    def colour(self) -> str:
        """What ``--color`` says, for ``terminal.output``."""
        return str(getattr(self.app_args, "color", "auto"))

    @property
    def terminal(self) -> Terminal:
        """Where the command's output goes."""
        return terminal_of(self.app.stdout, self.colour)

    def wants_exact(self, parsed_args: argparse.Namespace) -> bool:
        """Whether ``-v`` was given; cliff takes it for the program's own wherever it stands."""
        return bool(parsed_args.verbose) or getattr(self.app_args, "verbose_level", 1) > 1

    def warn_of(self, text: str) -> None:
        """Say on stderr what the result lacks."""
        self.app.stderr.write(f"{marked(self.app.stderr, 'warning', text)}\n")

    def before_error(self) -> None:
        """Say what an error may follow from, before it is told."""

    def answer_to(self, question: str) -> str:
        """The line that a person types at the question, without case and spaces around it."""
        self.app.stdout.write(question)
        self.app.stdout.flush()
        return self.app.stdin.readline().strip().lower()

    def get_epilog(self) -> str:
        return self._epilog or ""  # cliff's own searches every package's list of files for the distribution

    def run(self, parsed_args: argparse.Namespace) -> int:
        parsed_args.colour = self.colour  # formatters are given no more than these
        stdout = self.app.stdout
        if self._speaks(parsed_args):
            self.app.stdout = folding(stdout)
        try:
            return super().run(parsed_args) or self.status
        except PlimsollError as error:
            self.before_error()
            LOG.error("%s", error)
            return error.exit_status
        finally:
            if self.app.stdout is not stdout:
                with suppress(OSError):  # the program's end says so
                    self.app.stdout.flush()
            self.app.stdout = stdout

    def _speaks(self, parsed_args: argparse.Namespace) -> bool:
        """Whether it prints sentences for people, which may be folded."""
        format = getattr(parsed_args, "formatter", None) or getattr(parsed_args, "format", None)
        wide = getattr(parsed_args, "max_width", None) is not None
        return format in (None, "text", "table") and not wide and not self.prints_files


class LocalCommand(OneLineErrors):
    """A command about this node and its files, without libvirt."""

    def settings(self, parsed_args: argparse.Namespace) -> Settings:
        """Raises ``ConfigError``."""
        # A fifth of the start of a command that reads logs, and needs none.
        from plimsoll_agent.config import settings as config

        return config.load(self.app.options.config_file, self.app.options.config_dir)


class NodeCommand(LocalCommand):
    """A command about the guests of this node."""

    stdout_gone = False
    """Standard output cannot be written any more."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--uri", help="libvirt URI, instead of the one in the settings")
        return parser

    def settings(self, parsed_args: argparse.Namespace) -> Settings:
        settings = super().settings(parsed_args)
        return replace(settings, uri=parsed_args.uri) if parsed_args.uri else settings

    def say(self, line: str) -> None:
        """Print a line at once. A closed standard output, or a full disk behind it, must not end a command."""
        if self.stdout_gone:
            return
        try:
            print(self.app.for_journal(line), file=self.app.stdout, flush=True)
        except OSError as error:
            self.stdout_gone = True
            LOG.error("standard output cannot be written (%s); the pass continues without it", error)

    @contextmanager
    def libvirt(self, settings: Settings) -> Iterator[Libvirt]:
        """Raises ``Unreachable``."""
        # 12 MiB and 15 ms, which most commands do without.
        from plimsoll_agent.adapters.libvirt.client import Libvirt

        hypervisor = Libvirt(settings.uri, deadline=settings.deadline, at_once=settings.bounds.at_once)
        yield hypervisor
        if not hypervisor.hung:
            hypervisor.close()


def add_format(parser: argparse.ArgumentParser) -> None:
    """Of commands whose text is neither a list nor one thing."""
    parser.add_argument(
        "-f",
        "--format",
        choices=("text", "json", "yaml"),
        default="text",
        metavar="FORMAT",
        help="text (the default), json or yaml",
    )


def add_guests(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--guest",
        metavar="GUEST",
        action="append",
        default=[],
        help="only this guest, by its libvirt name, UUID or server name; repeatable",
    )


def add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show libvirt's parameters, and exact bytes and requests"
    )


def given_reason(text: str) -> str:
    """The reason that an operator gave, as one line. Raises ``UsageError``."""
    if not text.strip() or len(text) > _LONGEST_REASON:
        raise UsageError(f"--reason: must have 1 to {_LONGEST_REASON} characters")
    return printable(text)


def given_duration(option: str, text: str, instead: str = "") -> timedelta:
    """How long something lasts that an operator decides, at most a year; ``instead`` is what to do for longer.

    Raises ``UsageError``.
    """
    span = any_duration(option, text)
    if span > durations.LONGEST_EXCEPTION:
        raise UsageError(f"{option}: {text} is more than a year{instead}")
    return span


def any_duration(option: str, text: str) -> timedelta:
    """Raises ``UsageError``."""
    try:
        return durations.parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def given_approval(where: str, word: str, remove: bool) -> Approval:
    """The approval of a typed digest. Raises ``UsageError``."""
    if not is_digest(word.lower()):
        raise UsageError(
            f"{where} {word}: give at least {LEAST_DIGITS} digits of the digest that plimsoll plan prints"
        )
    return Approval(word.lower(), remove)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """One option for each of the 19 parameters, under libvirt's names."""
    group = parser.add_argument_group(
        "limits",
        "the full set for every RBD disk, before all rules except manage: false; with units (2k, 100MiB) or without;"
        " 0 is unlimited",
    )
    for parameter in PARAMETERS:
        unit = "seconds" if parameter.role == "length" else "bytes" if parameter.role == "size" else parameter.unit
        group.add_argument(option_of(parameter), metavar=unit.upper(), dest=parameter.name)


def option_of(parameter: Parameter) -> str:
    return f"--{parameter.name.replace('_', '-')}"


def given_limits(parsed_args: argparse.Namespace) -> Limits | None:
    """The limits on the command line, None without any. Raises ``UsageError``."""
    values: dict[str, object] = {}
    for parameter in PARAMETERS:
        text = getattr(parsed_args, parameter.name)
        if text is not None:
            values[parameter.name] = _number(option_of(parameter), parameter, text)
    if not values:
        return None
    try:
        return Limits.from_mapping(values)
    except LimitsError as error:
        raise UsageError(f"limits on the command line: {error}") from error


def _number(where: str, parameter: Parameter, text: str) -> int:
    """Raises ``UsageError``."""
    try:
        return parameter.read(text)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error


def limits_from(text: str | None) -> Limits | None:
    """The limits of ``--limits``, None without it. Raises ``UsageError``."""
    if text is None:
        return None
    if text == "unlimited":
        return Limits()
    values = _values("--limits", text)
    try:
        if values:
            return Limits.from_mapping(values)
    except LimitsError as error:
        raise UsageError(f"--limits: {error}") from error
    raise UsageError("--limits: is empty; write total_iops_sec=500, or unlimited")


def values_from(words: Sequence[str]) -> dict[str, int]:
    """The parameters of ``--set``. Raises ``UsageError``."""
    values = _values("--set", " ".join(words))
    if words and not values:
        raise UsageError("--set: is empty; write --set total_iops_sec=500")
    return values


def limits_with(present: Limits, values: Mapping[str, int]) -> Limits:
    """The limits of a disk after ``--set``. Raises ``UsageError``."""
    try:
        return present.with_changes(values)
    except LimitsError as error:
        had = present.in_effect()
        clash = dict.fromkeys(name for problem in error.problems for name in problem.names)
        rest = {name: had[name] for name in clash if name in had and name not in values}
        # A limit that is removed takes its burst along.
        rest = {name: value for name, value in rest.items() if name.removesuffix("_max") not in rest.keys() - {name}}
        if not rest:
            raise UsageError(f"--set: {error}") from error
        off = " ".join(f"--set {name}=0" for name in rest)
        raise UsageError(
            f"--set: {error.problems[0].text}. The disk has {listed(rest)}:"
            f" change that instead, or remove it too: {off}"
        ) from error


def _values(option: str, text: str) -> dict[str, int]:
    """``NAME=VALUE,NAME=VALUE``. Raises ``UsageError``."""
    # No group_name: a group is for several disks, and belongs in a rule.
    parameters = {parameter.name: parameter for parameter in PARAMETERS}
    values: dict[str, int] = {}
    # A blank within a value stands before its unit.
    for word in filter(None, map(str.strip, re.split(r",|\s(?=\s*\w+=)", text))):
        name, _, value = word.partition("=")
        if name not in parameters:
            raise UsageError(f"{option}: no such limit: {name}; {meant(name, parameters)}")
        if name in values:
            raise UsageError(f"{option}: {name} is given twice")
        values[name] = _number(f"{option}: {name}", parameters[name], value)
    return values


def text_of(data: object, format: str) -> str:
    """``data`` as JSON or YAML, without a newline at its end."""
    if format == "json":
        return json.dumps(data, indent=2)
    import yaml  # here, since few ask for it

    plain = json.loads(json.dumps(data))  # it refuses what JSON takes as text, such as members of enums
    # As JSON: names that tenants chose turn no line of a terminal around.
    return str(yaml.safe_dump(plain, sort_keys=False)).rstrip("\n")
