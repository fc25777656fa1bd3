"""``plimsoll drill mark``: adds to a recording what operators do."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from plimsoll_agent.app.context import who
from plimsoll_agent.errors import UsageError
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.util.text import printable
from plimsoll_insight.drill.recording import RecordingWriter

_LONGEST = 200


class DrillMark(LocalCommand):
    """Add a mark to the recording of a drill.

    A mark has the time and your name: say what you do, at the moment when you do it.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll drill mark drill.jsonl "power off node12"
        plimsoll drill mark drill.jsonl "power on node12"
        plimsoll drill mark /srv/drill.jsonl "rack 3 is back"
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("file", metavar="FILE", type=Path, help="the recording")
        parser.add_argument("text", metavar="TEXT", help="such as: OSDs of host-3 stopped")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        text = printable(parsed_args.text.strip())
        if not 0 < len(text) <= _LONGEST:
            raise UsageError(f"TEXT: must have 1 to {_LONGEST} characters")
        RecordingWriter.more(parsed_args.file).write(time.time(), {"mark": text, "by": who()})
