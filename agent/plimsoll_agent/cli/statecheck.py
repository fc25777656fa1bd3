"""``plimsoll state check``: whether this plimsoll can read what another one left on the node."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cliff import lister

from plimsoll_agent.cli.base import LocalCommand
from plimsoll_agent.statecheck import check


class StateCheck(LocalCommand, lister.Lister):
    """Say of every state file which version it is of, and whether this plimsoll reads it.

    Nothing is written, and no older file is brought up: it is for the moment before this plimsoll takes the place of
    another one. Files of the catalogue's directory are looked at as well.

    Exit status: 0, 1 when a file is corrupt, cannot be read, or is of a newer plimsoll, 64 usage.
    """

    formatter_namespace = "plimsoll.formatter.list"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--state-dir", metavar="DIR", type=Path, help="look there, instead of in the state_dir of the settings"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings = self.settings(parsed_args)
        checked = check(parsed_args.state_dir or settings.state_dir, settings.catalogue.directory)
        self.status = int(any(file.bad for file in checked))
        return ("file", "version", "reads_from", "reads_to", "condition", "detail"), [
            (str(file.path), file.version, file.oldest, file.newest, file.condition.value, file.detail)
            for file in checked
        ]
