"""``plimsoll load``: which volumes make this node's load, and what their requests look like."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from plimsoll_agent.command.base import NodeCommand
from plimsoll_agent.command.formats import Shown
from plimsoll_agent.command.listing import Listing
from plimsoll_agent.command.moments import time_of
from plimsoll_agent.errors import UsageError
from plimsoll_agent.layout.columns import NOTHING, Column
from plimsoll_agent.messages import sentences
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.monitor.cells import iops, mib, percent
from plimsoll_agent.monitor.sampler import Sampler
from plimsoll_agent.reconcile.outcome import Scope
from plimsoll_agent.util.text import plural
from plimsoll_insight.load.tally import DIRECTIONS, Did, Share, Tally, heaviest, key_of, share_of, size_words

BY = ("volume", "guest", "project", "type")
_LEAST, _MOST = 0.5, 3600.0
_SIZES_SHOWN = 2


class Load(NodeCommand, Listing):
    """Watch the disks of this node for some time, and list who made the load: shares, rates and sizes of requests.

    QEMU is asked for its counters once each interval and guest, as by top. SIZES are the mean sizes of requests in
    intervals, the most frequent first: 4k 74 % are requests in intervals whose mean was 4 to 8 KiB.

    Exit status: 0, 1 error or incomplete, 64 usage.
    """

    empty = "No disk did anything."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--for", dest="length", metavar="TIME", default="10s", help="how long; default: 10s")
        parser.add_argument("--interval", metavar="TIME", default="1s", help="between two readings; default: 1s")
        parser.add_argument("--by", choices=BY, default="volume", help="rows for each of these; default: volume")
        parser.add_argument(
            "--guest",
            metavar="GUEST",
            action="append",
            default=[],
            help="only this guest, by its libvirt name or UUID",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        length = time_of("--for", parsed_args.length)
        interval = time_of("--interval", parsed_args.interval)
        if not _LEAST <= interval <= length <= _MOST:
            raise UsageError(f"--interval must be {_LEAST:g} seconds or more, and --for from there to an hour")
        settings = self.settings(parsed_args)
        tally = Tally()
        with self.libvirt(settings) as hypervisor:
            scope = Scope(frozenset(parsed_args.guest))
            sampler = Sampler(hypervisor, scope, clock=time.monotonic, at_once=settings.bounds.at_once)
            sampler.check()
            self._watch(sampler, tally, length, interval)
            sample = sampler.sample()
        for unreachable in sample.unreachable:
            self.app.stderr.write(f"{sentences.unreachable_words(unreachable)}\n")
        self.status = 1 if sample.unreachable or tally.unknown else 0
        whole, shares = (
            tally.whole,
            [each for each in tally.by(key_of(parsed_args.by)) if any(each.did.requests.values())],
        )
        disks = {key_of(parsed_args.by)(disk): disk for disk in tally.disks.values()}
        self.closing = tuple(_closing(shares, whole, tally, parsed_args.by))
        seconds = tally.seconds
        return _columns(parsed_args.by), [_cells(each, whole, seconds, disks, parsed_args.by) for each in shares]

    def _watch(self, sampler: Sampler, tally: Tally, length: float, interval: float) -> None:
        """Rounds begin on time, however long one took; progress on a terminal."""
        stderr, began = self.app.stderr, time.monotonic()
        rounds = round(length / interval)
        for number in range(rounds + 1):
            sampler.ask()
            tally.add(sampler.sample().usages)
            if stderr.isatty():
                stderr.write(f"\r{number * interval:.0f} s of {length:.0f} s" if number < rounds else "\r\x1b[K")
                stderr.flush()
            if number < rounds:
                time.sleep(max(began + (number + 1) * interval - time.monotonic(), 0))


def side_columns() -> list[Column]:
    """Of reads, then of writes: their share of all, their rate, and the mean size of a request."""
    return [
        column
        for direction in DIRECTIONS
        for column in (
            Column(f"{direction}_share", right=True),
            Column(f"{direction}_iops", right=True, drop=6),
            Column(f"{direction}_bytes_share", head=f"{direction.upper()} BYTES", right=True, drop=3),
            Column(f"{direction}_bytes_sec", head=f"{direction.upper()} MiB/s", right=True, drop=2),
            Column(f"{direction}_size", right=True, drop=5 if direction == "read" else 4),
        )
    ]


def side_cells(did: Did, whole: Did, seconds: float) -> list[Shown]:
    """The cells of these columns."""
    cells = []
    for direction in DIRECTIONS:
        size = did.mean_size(direction)
        cells += [
            _part(share_of(did, whole, "requests", direction)),
            _rate(did.requests[direction] / seconds, iops),
            _part(share_of(did, whole, "bytes", direction)),
            _rate(did.bytes[direction] / seconds, mib),
            Shown(None if size is None else round(size), NOTHING if size is None else size_words(size)),
        ]
    return cells


def _columns(by: str) -> Sequence[Column]:
    names = (
        [Column("server", most=16), Column("guest", most=32, least=17, drop=1)] if by in ("volume", "guest") else []
    )
    return (
        Column(by, most=36),
        *names,
        Column("disks", right=True, long=True),
        *side_columns(),
        Column("sizes", wraps=True, drop=1),
    )


def _cells(share: Share, whole: Did, seconds: float, disks: dict[str, Disk], by: str) -> tuple[object, ...]:
    disk = disks[share.name]
    names = (disk.guest.display_name, disk.guest.name) if by in ("volume", "guest") else ()
    sizes = Shown(_sizes_data(share.did), _sizes_words(share.did))
    return (share.name, *names, share.disks, *side_cells(share.did, whole, seconds), sizes)


def _part(share: float | None) -> Shown:
    return Shown(None if share is None else round(share, 4), NOTHING if share is None else percent(share))


def _rate(value: float, words: Any) -> Shown:
    return Shown(round(value, 3), words(value))


def _sizes_data(did: Did) -> dict[str, dict[str, float]]:
    return {
        direction: {str(size): round(part, 4) for size, part in sorted(did.usual_sizes(direction))}
        for direction in DIRECTIONS
    }


def _sizes_words(did: Did) -> str:
    parts = []
    for direction in DIRECTIONS:
        usual = did.usual_sizes(direction)[:_SIZES_SHOWN]
        if usual:
            parts.append(f"{direction} " + ", ".join(f"{size_words(size)} {percent(part)}" for size, part in usual))
    return "; ".join(parts) or NOTHING


def heaviest_lines(did: Sequence[Did], whole: Did, one: str, of: str) -> Iterator[str]:
    """How few make a quarter of the load; ``of`` is how many there are: "96", "96 in r1"."""
    for direction, verb in (("write", "written"), ("read", "read")):
        requests = heaviest(did, whole, "requests", direction)
        done = heaviest(did, whole, "bytes", direction)
        if requests is not None:
            number, part = requests
            also = "" if done is None else f", {percent(done[1])} of bytes {verb} from {done[0]}"
            yield f"{percent(part)} of {direction}s come from {plural(number, one)} of {of}{also}."


def _closing(shares: Sequence[Share], whole: Did, tally: Tally, by: str) -> Iterator[str]:
    yield from heaviest_lines([share.did for share in shares], whole, by, str(len(shares)))
    if tally.unknown:
        yield f"Incomplete: counters of {plural(len(tally.unknown), 'disk')} could not be read all the time."
