"""What the commands share: one-line errors, the node they work on, and limits on the command line."""

from __future__ import annotations

import argparse
import logging
import os
import pwd
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cliff import command

from plimsoll_agent import config, rules, rulesfile
from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.cli.app import Plimsoll
from plimsoll_agent.config import Settings
from plimsoll_agent.decide import Situation
from plimsoll_agent.errors import ConfigError, PlimsollError, UsageError
from plimsoll_agent.ledger import Ledger
from plimsoll_agent.limits import PARAMETERS, Limits, LimitsError
from plimsoll_agent.outcome import Outcome, PassReport, Scope
from plimsoll_agent.passes import Mode, run_pass
from plimsoll_agent.sources import SOURCES
from plimsoll_agent.state import State, StateError

LOG = logging.getLogger(__name__)


class OneLineErrors(command.Command):
    """A command whose errors are sentences on stderr and an exit status, never a traceback."""

    app: Plimsoll
    status = 0

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().run(parsed_args) or self.status
        except PlimsollError as error:
            LOG.error("%s", error)
            return error.exit_status


class NodeCommand(OneLineErrors):
    """A command about the guests of this node."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--uri", help="libvirt's URI, instead of the one in the settings")
        return parser

    def settings(self, parsed_args: argparse.Namespace) -> Settings:
        """Raises ``ConfigError``."""
        options = self.app.options
        settings = config.load(options.config_file, options.config_dir)
        return replace(settings, uri=parsed_args.uri) if parsed_args.uri else settings

    @contextmanager
    def libvirt(self, settings: Settings) -> Iterator[Libvirt]:
        """Raises ``Unreachable``. Tells the app when a call hangs, so that the process can leave all the same."""
        hypervisor = None
        try:
            hypervisor = Libvirt(settings.uri, deadline=settings.deadline, at_once=settings.bounds.at_once)
            yield hypervisor
            if not hypervisor.hung:
                hypervisor.close()
        finally:
            self.app.stuck |= hypervisor is None or hypervisor.hung


@dataclass(frozen=True, slots=True)
class Standing:
    """What a pass stands on: the rules, and what was wrong with the file if they are older ones."""

    situation: Situation
    complaint: str | None


def state_of(settings: Settings) -> State:
    """The node's state. The kernel tells one run of the node from the next."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return State(settings.state_dir, boot)


def standing(settings: Settings, by_hand: Limits | None, *, keep: bool) -> Standing:
    """Rules and memory of this node; ``keep`` notes rules that were found good for the day when they are not.

    Raises ``ConfigError`` when the rules are broken and there are no last good ones, ``StateError`` when the
    memory cannot be read.
    """
    state = state_of(settings)
    in_force, complaint = _rules(settings.rules_file, state, keep=keep)
    if by_hand is not None:
        in_force = in_force.with_command_line(by_hand)
    situation = Situation(now=datetime.now(UTC), rules=in_force, memory=state.load_memory(set_aside=keep))
    return Standing(situation, complaint)


def _rules(path: Path, state: State, *, keep: bool) -> tuple[rules.Rules, str | None]:
    """The rules to run on. A file that disappears, or is cut off, is a fault once there were rules in it."""
    last = _last_rules(state)
    try:
        text = rulesfile.read(path, required=path != config.RULES_FILE or bool(last and last.text.strip()))
        in_force = rulesfile.parse(text, str(path))
    except ConfigError as error:
        if last is None:
            raise
        try:
            return rulesfile.parse(last.text, str(state.last_rules)), (
                f"{error}\nThe pass ran on the last good rules ({last.written:%Y-%m-%d %H:%M} UTC)."
            )
        except ConfigError as another:
            raise ConfigError(f"{error}\n{another}") from another
    if keep:
        try:
            state.keep_rules(text)
        except StateError as trouble:
            LOG.warning("%s", trouble)
    return in_force, None


@dataclass(frozen=True, slots=True)
class _LastRules:
    text: str
    written: datetime


def _last_rules(state: State) -> _LastRules | None:
    try:
        text = state.last_rules.read_text(encoding="utf-8", errors="replace")
        return _LastRules(text, datetime.fromtimestamp(state.last_rules.stat().st_mtime, UTC))
    except OSError:
        return None


def run(
    settings: Settings,
    hypervisor: Libvirt,
    situation: Situation,
    *,
    scope: Scope,
    mode: Mode,
    sizes: bool = False,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> PassReport:
    """A pass over this node with its settings; the caller holds the node's lock when it may write."""
    return run_pass(
        scope,
        situation,
        mode,
        hypervisor=hypervisor,
        sources=SOURCES,
        ledger=Ledger(state_of(settings), _who()),
        bounds=settings.bounds,
        sizes=sizes,
        tell=tell,
    )


def _who() -> str:
    """Who makes the change, for the record: the user, and the one behind sudo."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user without an entry in the user database
        user = str(os.getuid())
    behind = os.environ.get("SUDO_USER")
    return f"{user} ({behind})" if behind else user


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
