"""What the commands share: one-line errors, the node they work on, and limits on the command line."""

from __future__ import annotations

import argparse
import difflib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cliff import command

from plimsoll_agent import config
from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.approvals import LEAST_DIGITS, Approval, is_digest
from plimsoll_agent.cli.app import Plimsoll
from plimsoll_agent.config import Settings
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.limits import PARAMETERS, Limits, LimitsError
from plimsoll_agent.report import printable

LOG = logging.getLogger(__name__)
_LONGEST_REASON = 200


class OneLineErrors(command.Command):
    """A command whose errors are sentences on stderr and an exit status, never a traceback."""

    app: Plimsoll
    status = 0

    def __init__(self, app: Plimsoll, app_args: argparse.Namespace | None, cmd_name: str | None = None) -> None:
        super().__init__(app, app_args)  # with a name cliff looks for hooks in the metadata of every package

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        # To argparse -2h is an option unless it looks like a negative number: --for -2h would end with "expected one
        # argument", not with what is wrong.
        parser._negative_number_matcher = re.compile(r"-\d\w*$", re.ASCII)
        return parser

    def get_epilog(self) -> str:
        return self._epilog or ""  # cliff's own looks for the distribution in every package's list of files

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().run(parsed_args) or self.status
        except PlimsollError as error:
            LOG.error("%s", error)
            return error.exit_status


class LocalCommand(OneLineErrors):
    """A command about this node and its files, which asks no hypervisor."""

    def settings(self, parsed_args: argparse.Namespace) -> Settings:
        """Raises ``ConfigError``."""
        return config.load(self.app.options.config_file, self.app.options.config_dir)


class NodeCommand(LocalCommand):
    """A command about the guests of this node."""

    unheard = False
    """Nobody takes what it says any more."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--uri", help="libvirt's URI, instead of the one in the settings")
        return parser

    def settings(self, parsed_args: argparse.Namespace) -> Settings:
        settings = super().settings(parsed_args)
        return replace(settings, uri=parsed_args.uri) if parsed_args.uri else settings

    def say(self, line: str) -> None:
        """Print a line at once: a pass that waits for a guest has said already what it did.

        A reader that went away, or a full disk behind it, must not end a pass in the middle.
        """
        if self.unheard:
            return
        try:
            print(self.app.for_journal(line), file=self.app.stdout, flush=True)
        except OSError as error:
            self.unheard = True
            LOG.error("standard output is gone (%s); the pass goes on unheard", error)

    @contextmanager
    def libvirt(self, settings: Settings) -> Iterator[Libvirt]:
        """Raises ``Unreachable``."""
        hypervisor = Libvirt(settings.uri, deadline=settings.deadline, at_once=settings.bounds.at_once)
        yield hypervisor
        if not hypervisor.hung:
            hypervisor.close()


def given_reason(text: str) -> str:
    """Why a person does something, in one line that can be shown. Raises ``UsageError``."""
    if not text.strip() or len(text) > _LONGEST_REASON:
        raise UsageError(f"--reason: say in 1 to {_LONGEST_REASON} characters why, for those who will see it")
    return printable(text)


def given_approval(where: str, typed: str, remove: bool) -> Approval:
    """What a person typed for a digest. Raises ``UsageError``."""
    if not is_digest(typed.lower()):
        raise UsageError(
            f"{where} {typed}: give at least {LEAST_DIGITS} digits of the digest, as plimsoll plan prints it"
        )
    return Approval(typed.lower(), remove)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """One option for each of the 19 parameters, under libvirt's names."""
    group = parser.add_argument_group(
        "limits", "the full set for every RBD disk, before all rules but those that say manage: false; 0 is unlimited"
    )
    for parameter in PARAMETERS:
        unit = "seconds" if parameter.role == "length" else "bytes" if parameter.role == "size" else parameter.unit
        group.add_argument(
            f"--{parameter.name.replace('_', '-')}", type=int, metavar=unit.upper(), dest=parameter.name
        )


def given_limits(parsed_args: argparse.Namespace) -> Limits | None:
    """The limits on the command line, None when there are none. Raises ``UsageError``."""
    given = {p.name: value for p in PARAMETERS if (value := getattr(parsed_args, p.name)) is not None}
    if not given:
        return None
    try:
        return Limits.from_mapping(given)
    except LimitsError as error:
        raise UsageError(f"limits on the command line: {error}") from error


def limits_from(text: str | None) -> Limits | None:
    """The set that ``--limits`` says in one word, None without it. Raises ``UsageError``."""
    if text is None:
        return None
    if text == "unlimited":
        return Limits()
    # No group_name: what several disks share belongs into a rule, which speaks of all of them.
    known = [parameter.name for parameter in PARAMETERS]
    given: dict[str, object] = {}
    for word in text.replace(",", " ").split():
        name, _, value = word.partition("=")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise UsageError(f"--limits: {name} is no limit; {meant}")
        if name in given:
            raise UsageError(f"--limits: {name} stands there twice")
        given[name] = int(value) if value.isascii() and value.isdigit() else value
    try:
        if given:
            return Limits.from_mapping(given)
    except LimitsError as error:
        raise UsageError(f"--limits: {error}") from error
    raise UsageError("--limits: says nothing; write total_iops_sec=500, or unlimited")
