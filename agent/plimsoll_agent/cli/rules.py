"""``plimsoll rules check``: the faults of a rules file."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from plimsoll_agent.app.context import rules_text
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.rules import loader
from plimsoll_agent.rules.loader import CheckedRules
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.store.state import State
from plimsoll_agent.terminal.base import LocalCommand, add_format, add_verbose, text_of
from plimsoll_agent.util import schema
from plimsoll_agent.util.schema import FaultSeverity, Remark
from plimsoll_agent.util.text import plural

_STDIN = "-"


class RulesCheck(LocalCommand):
    """Check a rules file, and list its faults by line.

    Each fault has its line and the nearest valid word.

    Warnings are for what is valid but probably not intended, such as a rule that has ended, or one that an earlier
    rule makes ineffective, or one that leaves out what the default limits, or a limit below the lowest in [brake].
    With -v the exact value of each number with a unit is listed too.

    FILE must not be empty: {} is for no rules. Without FILE a pass decides: on a node that had no rules, the default
    file may be missing or empty.

    Exit status:
        0   no faults
        1   faults (with --strict also warnings)
        64  usage

    Examples:
        plimsoll rules check
        plimsoll rules check new.yaml --strict
        plimsoll rules check new.yaml -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "file",
            metavar="FILE",
            nargs="?",
            help="the rules file, or - for standard input; default: rules_file in the settings",
        )
        parser.add_argument("--strict", action="store_true", help="end with status 1 for warnings too")
        add_format(parser)
        add_verbose(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = self.settings(parsed_args)
        origin, text = _read(parsed_args.file, settings)
        result = loader.check(text, datetime.now(UTC), settings.brake.lowest)
        if parsed_args.format != "text":
            data = [_data(origin, remark) for remark in result.remarks]
            self.app.stdout.write(f"{text_of(data, parsed_args.format)}\n")
        else:
            for remark in result.remarks:
                if remark.severity is not FaultSeverity.NOTE or self.wants_exact(parsed_args):
                    self.app.stdout.write(f"{_words(origin, remark)}\n")
            if result.rules is not None:
                self.app.stdout.write(f"{origin}: {_sum(result, result.rules)}\n")
        return int(result.rules is None or (parsed_args.strict and result.warnings > 0))


def _read(file: str | None, settings: Settings) -> tuple[str, str]:
    """The name for messages, and the text. Raises ``ConfigError``."""
    if file == _STDIN:
        return schema.STDIN, loader.some(schema.standard_input(), schema.STDIN)
    if file:
        return file, loader.read(Path(file), required=True)
    return str(settings.rules_file), rules_text(settings, State(settings.state_dir))


def _data(origin: str, remark: Remark) -> dict[str, object]:
    return {
        "file": origin,
        "line": remark.line,
        "key": remark.key,
        "code": remark.code.value,
        "text": remark.text,
        "severity": remark.severity.value,
    }


def _words(origin: str, remark: Remark) -> str:
    return f"{remark.at(origin)}{' (warning)' if remark.severity is FaultSeverity.WARNING else ''}"


def _sum(result: CheckedRules, rules: Rules) -> str:
    """``7 rules and a default, no faults``."""
    default = "a default" if rules.default is not None else "no default"
    warnings = f", {plural(result.warnings, 'warning')}" if result.warnings else ""
    return f"{plural(len(rules.rules) or 'no', 'rule')} and {default}, no faults{warnings}"
