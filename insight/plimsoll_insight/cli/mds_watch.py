"""``plimsoll mds watch``: what the ranks of a CephFS do over time, and whether its balancer is thrashing."""

from __future__ import annotations

import argparse
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from threading import Event
from typing import Any

from plimsoll_agent.errors import CannotTell, PlimsollError, UsageError
from plimsoll_agent.messages.tones import Tone
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.cells import iops, percent
from plimsoll_agent.terminal.columns import NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import time_of, zone_of
from plimsoll_agent.terminal.until import ended_early
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import plural, printable, second
from plimsoll_insight.cli.cluster_options import add_file_system, cluster_of, file_system_of
from plimsoll_insight.files.packed import UnreadableLog, opened
from plimsoll_insight.mds import exports
from plimsoll_insight.mds.moves import DirectoryMove, most_within
from plimsoll_insight.mds.verdict import WITHIN, MdsAnswer, MdsVerdict, judge, judge_moves, pins
from plimsoll_insight.mds.watch import (
    RankDid,
    RanksPeriod,
    RanksReading,
    fragmented,
    load_shares,
    ranks_of,
    spans,
    together,
)
from plimsoll_insight.slow.events import LogClock
from plimsoll_monitoring.region.messages import seconds_words

_BY = ("rank", "directory", "time")
_LEAST, _MOST = 1.0, 600.0
_DEADLINE = 30.0
_NAMED = 3
"""Directories in a sentence."""
_LISTED = 0.01
"""Directories that did not move are listed from this share of the load on."""
_LEVEL = (
    "ceph config set mds debug_mds 4/5 has each export logged from then on; without logs, mds watch asks the ranks"
)


@frozen(kw_only=True)
class _View:
    """What was found out; ``parts`` and ``readings`` are empty for logs."""

    verdict: MdsVerdict
    moves: Sequence[DirectoryMove]
    parts: Sequence[RanksPeriod]
    readings: Sequence[RanksReading]
    unknown: Sequence[str]
    next: str | None = None

    @property
    def last(self) -> RanksReading | None:
        return self.readings[-1] if self.readings else None


class MdsWatch(LocalCommand, Listing):
    """List what the ranks of a CephFS do, and say whether its balancer is thrashing.

    It watches all ranks for some time: requests, forwards, latency, sessions, cache, which directories move from rank
    to rank, and with --by directory which have the load. Each --interval asks each rank for its counters and
    subtrees; at the end it names the directories and says what to pin. It changes nothing: mds settle does.

    Thrashing is a directory that moved 4 times within 10 minutes, or a tenth of the requests forwarded in the second
    half of the time. Uneven is one rank with nine tenths of the requests while another is idle.

    A LOG is an MDS's, plain, gzip or zstd, for its exports alone: of Nautilus and before as it is, since Octopus with
    debug_mds at 4 or more.

    Exit status:
        0   thrashing, uneven or calm
        5   cannot tell
        1   error
        64  usage

    Examples:
        plimsoll mds watch
        plimsoll mds watch --fs cephfs --for 10m --by directory
        plimsoll mds watch /var/log/ceph/ceph-mds.a.log
    """

    empty = "No directory moved."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "logs", metavar="LOG", nargs="*", type=Path, help="logs of MDSs, in place of a running cluster"
        )
        parser.add_argument("--for", dest="length", metavar="TIME", default="2m", help="how long; default: 2m")
        parser.add_argument("--interval", metavar="TIME", default="10s", help="between two readings; default: 10s")
        parser.add_argument("--by", choices=_BY, help="rows for each of these; default: rank, of logs directory")
        parser.add_argument("--timezone", metavar="ZONE", help="of times of logs without one; default: UTC")
        add_file_system(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        by = parsed_args.by or ("directory" if parsed_args.logs else "rank")
        if parsed_args.logs:
            if by != "directory":
                raise UsageError("--by: logs have directories only")
            view = _of_logs(parsed_args.logs, LogClock(zone_of(parsed_args.timezone)))
        else:
            view = self._watch(parsed_args)
        self.closing = (*_sentences(view), *view.unknown, *_next(view))
        if view.verdict.answer is MdsAnswer.CANNOT_TELL:
            self.status = CannotTell.exit_status
        if parsed_args.formatter != "table":
            self.app.stderr.writelines(f"{line}\n" for line in view.unknown)
        else:
            self.empty = " ".join((self.empty or "", *self.closing))
        match by:
            case "rank":
                return RANK_COLUMNS, list(_rank_rows(view))
            case "time":
                return TIME_COLUMNS, list(_time_rows(view))
            case _:
                return DIRECTORY_COLUMNS, list(_directory_rows(view))

    def _watch(self, parsed_args: argparse.Namespace) -> _View:
        length, interval = time_of("--for", parsed_args.length), time_of("--interval", parsed_args.interval)
        if not _LEAST <= interval <= _MOST or length < interval:
            raise UsageError("--interval: must be from 1 second to 10 minutes, and --for an interval or more")
        from plimsoll_insight.adapters.file_system import LiveFileSystems  # logs are read without it

        live = LiveFileSystems(cluster_of(parsed_args, lambda: self.settings(parsed_args).ceph, _DEADLINE))
        file_system = file_system_of(live.all(), parsed_args.fs)
        readings: list[RanksReading] = []
        with ended_early() as stop:

            def look() -> RanksReading:
                return live.reading(file_system.name, loads=parsed_args.by == "directory")

            for reading in _readings(look, length, interval, stop):
                readings.append(reading)
                self._say(
                    f"{file_system.name}: {durations.words(timedelta(seconds=reading.time - readings[0].time))}"
                )
        self._say("")
        parts = spans(readings)
        if not parts:
            raise PlimsollError("ended after one reading: two are needed to tell what ranks do")
        whole = together(parts)
        unknown = [f"rank {rank}: no answer, and so not counted: {why}" for rank, why in _errors(readings).items()]
        verdict = judge(whole, together(parts[len(parts) // 2 :]), complete=not unknown)
        return _View(verdict=verdict, moves=whole.moves, parts=parts, readings=readings, unknown=unknown)

    def _say(self, words: str) -> None:
        stderr = self.app.stderr
        if stderr.isatty():
            stderr.write(f"\r\x1b[K{words}")
            stderr.flush()


def _readings(
    look: Callable[[], RanksReading], length: float, interval: float, stop: Event
) -> Iterator[RanksReading]:
    """Raises ``PlimsollError`` where the first one fails; later what was read before counts."""
    end = time.monotonic() + length
    due = time.monotonic()
    begin = time.time() - due
    ranks: set[int] = set()
    for number in count(1):
        try:
            reading = look()
        except PlimsollError as error:
            if number == 1:
                raise
            reading = RanksReading(0.0, {}, dict.fromkeys(ranks, str(error)))
        ranks |= {*reading.ranks, *reading.errors}
        yield replace(reading, time=begin + time.monotonic())  # intervals must not follow a clock that is set
        due = max(due + interval, time.monotonic())
        if (due > end and number > 1) or stop.wait(due - time.monotonic()):
            return


def _errors(readings: Sequence[RanksReading]) -> dict[int, str]:
    return {rank: printable(why) for reading in readings for rank, why in reading.errors.items()}


def _of_logs(paths: Sequence[Path], clock: LogClock) -> _View:
    """Raises ``PlimsollError``."""
    moves: set[DirectoryMove] = set()
    of_daemons: list[exports.RankSpan] = []
    unknown: list[str] = []
    for path in dict.fromkeys(paths):
        try:
            clock.until = path.stat().st_mtime
        except FileNotFoundError as error:
            raise UsageError(f"{path}: no such file") from error
        with opened(path) as stream:
            log = exports.read(stream, clock)
        if not log.is_of_mds:
            raise UnreadableLog(f"{path}: no line of an MDS; give ceph-mds.NAME.log")
        moves.update(log.moves)
        if log.last is not None:
            of_daemons.append(log.last)
        if not log.tells:
            unknown.append(f"{path}: it would not tell of exports, as debug_mds was below 4.")
    next = f"Next: {_LEVEL}." if unknown else None
    ranks = exports.side_by_side(of_daemons)
    if missing := sorted({move.target for move in moves} - ranks):
        names = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
        unknown.append(f"No log of {names} of the same time: a rank's log has the exports from it alone.")
    elif not ranks:
        unknown.append("No log of another rank of the same time: a rank's log has the exports from it alone.")
    in_order = sorted(moves, key=lambda move: move.time)
    verdict = judge_moves(in_order, complete=not unknown)
    return _View(verdict=verdict, moves=in_order, parts=(), readings=(), unknown=unknown, next=next)


# --- words


def _sentences(view: _View) -> Iterator[str]:
    verdict = view.verdict
    if verdict.repeated:
        words = ", ".join(
            f"{printable(path)} {number} times" for path, number in islice(verdict.repeated.items(), _NAMED)
        )
        more = len(verdict.repeated) - _NAMED
        rest = f", and {plural(more, 'more directory', 'more directories')}" if more > 0 else ""
        yield f"Thrashing: within {WITHIN / 60:.0f} minutes the balancer moved {words}{rest}."
    if verdict.forwarded is not None:
        yield f"Thrashing: ranks forwarded {percent(verdict.forwarded)} of the requests in the second half."
    if verdict.uneven is not None:
        uneven = verdict.uneven
        idle = f"rank{'s' if len(uneven.idle) > 1 else ''} {', '.join(map(str, uneven.idle))}"
        yield f"Uneven: rank {uneven.most} served {percent(uneven.share)} of the requests, {idle} next to none."
    if verdict.answer is MdsAnswer.CALM:
        yield f"Calm: no sign of thrashing{' or of uneven load' if view.readings else ' in these logs'}."
    if verdict.answer is MdsAnswer.CANNOT_TELL:
        yield "No sign of thrashing in what is known; so it cannot be told."


def _next(view: _View) -> Iterator[str]:
    if view.next is not None:
        yield view.next
    last = view.last
    if last is None or view.verdict.answer in (MdsAnswer.CALM, MdsAnswer.CANNOT_TELL):
        return
    directories = list(view.verdict.repeated) or list(fragmented(last.owners or {}))
    proposals = pins(directories, sorted({*last.ranks, *last.errors}))
    options = " ".join(f"--pin {printable(shlex.quote(pin))}" for pin in proposals) or "--pin DIR=distributed"
    yield f"Next: plimsoll mds settle --dry-run --mount DIR {options}"


# --- rows


def _share(part: int, whole: int) -> Shown:
    return _known_share(part / whole if whole else None)


def _known_share(share: float | None) -> Shown:
    return Shown(None if share is None else round(share, 4), NOTHING if share is None else percent(share))


def _rate(number: int, seconds: float) -> Shown:
    rate = number / seconds if seconds > 0 else None
    return Shown(None if rate is None else round(rate, 3), NOTHING if rate is None else iops(rate))


def _seconds(value: float | None) -> Shown:
    return Shown(value, NOTHING if value is None else seconds_words(value))


def _cache(size: int | None) -> Shown:
    return Shown(size, NOTHING if size is None else f"{size / 2**20:.0f} MiB")


_ANSWER = Column("answer", long=True)
RANK_COLUMNS = (
    Column("rank", right=True),
    Column("daemon", most=24),
    Column("requests_sec", head="REQ/S", right=True),
    Column("forwarded", right=True),
    Column("latency", right=True),
    Column("sessions", right=True, drop=2),
    Column("inodes", right=True, drop=3),
    Column("caps", right=True, drop=1),
    Column("cache_bytes", head="CACHE", right=True, drop=4),
    Column("subtrees", right=True),
    Column("exported", right=True),
    Column("imported", right=True, drop=5),
    _ANSWER,
)


def _rank_rows(view: _View) -> Iterator[Sequence[object]]:
    if view.last is None:
        return
    whole = together(view.parts)
    for rank in sorted({*view.last.ranks, *view.last.errors}):
        now = view.last.ranks.get(rank)
        did = whole.ranks.get(rank, RankDid(rank))
        is_known = did.seconds > 0
        moment = (None,) * 5 if now is None else (
            now.counters.sessions, now.counters.inodes, now.counters.caps, _cache(now.counters.cache),
            now.counters.subtrees,
        )  # fmt: skip
        yield (
            rank, None if now is None else printable(now.daemon), _rate(did.requests, did.seconds),
            _share(did.forwards, did.requests), _seconds(did.latency), *moment,
            did.exported if is_known else None, did.imported if is_known else None, view.verdict.answer.value,
        )  # fmt: skip


TIME_COLUMNS = (
    Column("begin", head="UTC"),
    Column("end", long=True),
    Column("requests_sec", head="REQ/S", right=True),
    Column("forwarded", right=True),
    Column("latency", right=True),
    Column("moves", right=True),
    Column("ranks", head="REQ/S BY RANK", wraps=True),
    _ANSWER,
)


def _time_rows(view: _View) -> Iterator[Sequence[object]]:
    for part in view.parts:
        did = part.ranks.values()
        seconds = part.end - part.begin if did else 0.0  # without a rank that is known nothing is, and not 0
        replies = sum(each.replies for each in did)
        latency = sum(each.reply_seconds for each in did) / replies if replies else None
        rates = {each.rank: each.requests / each.seconds for each in did if each.seconds > 0}
        yield (
            _moment(part.begin), _moment(part.end), _rate(part.requests, seconds),
            _share(part.forwards, part.requests), _seconds(latency),
            None if part.unknown else len(part.moves),
            Shown({str(rank): round(rate, 3) for rank, rate in rates.items()},
                  "  ".join(f"{rank}: {iops(rate)}" for rank, rate in rates.items()) or NOTHING),
            view.verdict.answer.value,
        )  # fmt: skip


def _moment(time: float) -> Shown:
    moment = datetime.fromtimestamp(time, UTC)
    return Shown(moment.isoformat(timespec="milliseconds"), f"{moment:%H:%M:%S}")


DIRECTORY_COLUMNS = (
    Column("directory", most=60, least=20),
    Column("load", right=True),
    Column("moves", right=True),
    Column("most_in_10_minutes", head="IN 10 MIN", right=True),
    Column("last", wraps=True),
    Column("ranks", wraps=True),
    _ANSWER,
)


def _directory_rows(view: _View) -> Iterator[Sequence[object]]:
    """Those that moved, then others with much of the load. ``moves`` are of all fragments of the directory, and
    ``most_in_10_minutes`` of that which moved most.
    """
    last: dict[str, DirectoryMove] = {}
    number: Counter[str] = Counter()
    for move in view.moves:
        last[move.directory.path] = move
        number[move.directory.path] += 1
    shares = load_shares(view.readings)
    most = most_within(view.moves, WITHIN)
    paths = dict.fromkeys((*most, *(path for path, share in shares.items() if share >= _LISTED)))
    now = ranks_of(paths, (view.last.owners or {}) if view.last else {})
    for path in paths:
        share = shares.get(path, 0.0) if shares else None
        tone = Tone.WARNING if path in view.verdict.repeated else None
        yield (
            printable(path), _known_share(share), number[path],
            Shown(most.get(path, 0), str(most.get(path, 0)), tone), _last_move(last.get(path)),
            Shown(now[path] or None, ", ".join(map(str, now[path])) or NOTHING), view.verdict.answer.value,
        )  # fmt: skip


def _last_move(move: DirectoryMove | None) -> Shown:
    if move is None:
        return Shown(None, NOTHING)
    moment = datetime.fromtimestamp(move.time, UTC)
    return Shown({"time": moment.isoformat(timespec="milliseconds"), "from": move.source, "to": move.target},
                 f"{second(moment)} from {move.source} to {move.target}")  # fmt: skip
