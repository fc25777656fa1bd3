"""``plimsoll settings``: the settings in force."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from plimsoll_agent.config import settings as config
from plimsoll_agent.errors import UsageError
from plimsoll_agent.terminal.base import OneLineErrors
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.util.quantities import Quantity, with_unit
from plimsoll_agent.util.text import nearest, printable


class SettingsList(OneLineErrors, Listing):
    """List the settings in force, and where each comes from.

    That is a file and its line, the environment, or the default.

    Secrets are masked.

    Exit status:
        0   done
        1   faulty settings
        64  usage

    Examples:
        plimsoll settings
        plimsoll settings --changed
        plimsoll settings libvirt
    """

    empty = "Every setting has its default."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "name", metavar="NAME", nargs="*", help="only these sections or settings (ceph, conf_files); default: all"
        )
        parser.add_argument("--changed", action="store_true", help="only settings that differ from their default")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        options = self.app.options
        settings = config.listed(options.config_file, options.config_dir)
        names = set(parsed_args.name)
        words = dict.fromkeys(word for setting in settings for word in (setting.section, setting.name))
        for name in sorted(names - words.keys()):
            raise UsageError(f"no section and no setting is named {name!r}; {_meant(name, words)}")
        if names:
            self.empty = "Every one of these settings has its default."
        number = sum(setting.changed for setting in settings)
        if number and not parsed_args.changed:
            self.closing = (f"* {number} of {len(settings)} differ from their default; --changed lists only these",)
        return _COLUMNS, [
            (
                setting.section,
                Shown(setting.name, f"{setting.name} *" if setting.changed else setting.name),
                Shown(setting.value, _text(setting.value, setting.quantity)),
                Shown(setting.origin, printable(setting.origin)),
                Shown(setting.default, _text(setting.default, setting.quantity) if setting.changed else "same"),
            )
            for setting in settings
            if (setting.changed or not parsed_args.changed) and (not names or names & {setting.section, setting.name})
        ]


def _meant(name: str, words: Iterable[str]) -> str:
    near = nearest(name, words)
    return "plimsoll settings lists all" if near is None else f"did you mean {near}?"


_COLUMNS = (
    Column("section"),
    Column("setting"),
    Column("value", wraps=True, most=20),
    Column("origin", most=48, least=16),
    Column("default", long=True),
)


def _text(value: object, quantity: Quantity | None) -> str:
    """As in the file, with a unit."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and quantity is not None:
        return with_unit(value, quantity)
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return printable(text) or "-"
