"""``plimsoll state check``: whether this version can read the state files of this node."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from plimsoll_agent.app.state_check import check
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.util import files

_COLUMNS = (
    Column("file"),
    Column("version", right=True),
    Column("reads_from", right=True, drop=2),
    Column("reads_to", right=True, drop=1),
    Column("condition"),
    Column("detail", wraps=True, note=True),
)


class StateCheck(LocalCommand, Listing):
    """Check that this version can read the state files.

    Run it before this version replaces another one. Nothing is written or converted. Files in the catalogue's
    directory are included.

    Exit status:
        0   done
        1   a file is corrupt, unreadable, or from a newer version
        64  usage

    Examples:
        plimsoll state check
        plimsoll state check --state-dir /srv/backup/plimsoll
        plimsoll state check -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--state-dir", metavar="DIR", type=Path, help="check this directory instead of state_dir in the settings"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings = self.settings(parsed_args)
        state_dir = parsed_args.state_dir
        try:
            if state_dir is not None and not files.is_directory(state_dir):
                raise UsageError(f"--state-dir {state_dir}: no such directory")
        except OSError as error:
            raise PlimsollError(f"--state-dir {state_dir}: {files.reason(error)}") from error
        checked_files = check(state_dir or settings.state_dir, settings.catalogue.directory)
        self.status = int(any(file.bad for file in checked_files))
        return _COLUMNS, [
            (str(file.path), file.version, file.oldest, file.newest, file.condition.value, file.detail)
            for file in checked_files
        ]
