"""``plimsoll congestion fetch``."""

from __future__ import annotations

import argparse
import logging
import time
from datetime import UTC, datetime

from plimsoll_agent.app.congestion_fetch import Fetcher
from plimsoll_agent.errors import UsageError
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.moments import seconds_of

LOG = logging.getLogger(__name__)
_LONGEST = 60.0


class CongestionFetch(LocalCommand):
    """Fetch the factors of congested clusters, for passes.

    Passes and the daemon have no network: they read what this has fetched from the files in [congestion], and check
    the signatures themselves. An older, expired or forged file is refused, and the earlier one stays. Files count for
    90 seconds, so it has to run all the time, as the user of plimsoll catalogue refresh. With --every it goes on
    until a signal ends it.

    Exit status:
        0   fetched
        1   a file could not be fetched, or is refused
        64  usage

    Examples:
        plimsoll congestion fetch
        plimsoll congestion fetch --every 20s
        plimsoll congestion fetch --every 20s -v
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--every", metavar="SECONDS", help="go on, once in so many seconds (20s), at most 60; default: once"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        every = None if parsed_args.every is None else seconds_of("--every", parsed_args.every)
        if every is not None and not 1 <= every <= _LONGEST:
            raise UsageError(f"--every: must be from 1 to {_LONGEST:.0f} seconds: a file counts for 90")
        fetcher, faults = Fetcher(self.settings(parsed_args)), list[str]()
        while True:
            before, faults = faults, fetcher.fetch(datetime.now(UTC))
            for fault in faults:
                if fault not in before:
                    LOG.error("%s", fault)
            if every is None:
                return 1 if faults else 0
            if before and not faults:
                LOG.info("all files of congestion are fetched again")
            time.sleep(every)
