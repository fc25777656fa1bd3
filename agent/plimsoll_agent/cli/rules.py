"""``plimsoll rules``: what is wrong with a rules file, before a pass has to find out."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from plimsoll_agent import config, rulesfile
from plimsoll_agent.cli.base import OneLineErrors
from plimsoll_agent.rules import Rules
from plimsoll_agent.rulesfile import Checked, Remark, Severity

_STDIN = "-"


class RulesCheck(OneLineErrors):
    """Say everything that is wrong with a rules file, with the line and the nearest right word.

    Warnings are about what is allowed and perhaps not meant: a rule whose time has passed, or one that an
    earlier rule leaves nothing to say.

    Exit status: 0 no fault, 1 faults, 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "file",
            metavar="FILE",
            nargs="?",
            help="the rules, or - for standard input; default: the rules_file of the settings",
        )
        parser.add_argument("-f", "--format", choices=("text", "json"), default="text", help="default: text")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        origin, text = self._read(parsed_args.file)
        checked = rulesfile.check(text, datetime.now(UTC))
        if parsed_args.format == "json":
            self.app.stdout.write(f"{json.dumps([_data(origin, remark) for remark in checked.remarks], indent=2)}\n")
        else:
            for remark in checked.remarks:
                self.app.stdout.write(f"{_words(origin, remark)}\n")
            if checked.rules is not None:
                self.app.stdout.write(f"{origin}: {_sum(checked, checked.rules)}\n")
        return 1 if checked.rules is None else 0

    def _read(self, given: str | None) -> tuple[str, str]:
        """The name for messages, and the text. Raises ``ConfigError``."""
        if given == _STDIN:
            written = sys.stdin.buffer.read(rulesfile.LARGEST + 1) if sys.stdin else b""  # None: it is closed
            return "<stdin>", rulesfile.decoded(written, "<stdin>", required=True)
        options = self.app.options
        path = Path(given) if given else config.load(options.config_file, options.config_dir).rules_file
        return str(path), rulesfile.read(path, required=True)


def _data(origin: str, remark: Remark) -> dict[str, object]:
    return {
        "file": origin,
        "line": remark.line,
        "key": remark.key,
        "text": remark.text,
        "severity": remark.severity.value,
    }


def _words(origin: str, remark: Remark) -> str:
    return f"{remark.at(origin)}{' (warning)' if remark.severity is Severity.WARNING else ''}"


def _sum(checked: Checked, rules: Rules) -> str:
    """``7 rules and a default, no fault``."""
    default = "a default" if rules.default is not None else "no default"
    warnings = len(checked.remarks)
    told = f", {_number(warnings, 'warning')}" if warnings else ""
    return f"{_number(len(rules.rules), 'rule')} and {default}, no fault{told}"


def _number(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
