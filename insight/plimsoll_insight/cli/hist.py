"""``plimsoll hist``: latency over time out of fio's histogram logs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.messages.tones import Tone
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.columns import NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import moment_of, time_of
from plimsoll_agent.util import files
from plimsoll_agent.util.distribution import needs
from plimsoll_agent.util.text import plural, printable, rounded, second
from plimsoll_insight.cli.plotting import NoNumbers, plotting
from plimsoll_probes.app.history import history_of
from plimsoll_probes.output.messages import iops_words, latency_words

if TYPE_CHECKING:
    from plimsoll_insight.figures.page import FigureTable
    from plimsoll_insight.hist.flows import LogExtent
    from plimsoll_insight.hist.percentiles import Latency, PercentileInterval
    from plimsoll_insight.hist.study import IntervalRow, Rows, Study, StudyPart, Usual, Whole
    from plimsoll_insight.hist.timeline import Timeline

_PERCENTILES = "50,95,99,99.9"
_MOST_PERCENTILES = 20
_PERCENTILE = re.compile(r"\d{1,3}(\.\d{1,12})?", re.ASCII)
_STALLS_TOLD = 10
_MOST_TABLED = 200
_TOLD_NS = 100
"""A bound of latencies that is worth telling: half of fio's bucket of a nanosecond is none."""
_BY = ("all", "guest", "group", "log")


class Hist(LocalCommand, Listing):
    """Show latency over time from fio's histogram logs.

    Logs are merged exactly, into percentiles of each interval.

    A FILE is a log that fio wrote (write_hist_log), its JSON+ output, or either in gzip or zstd. Of a DIRECTORY,
    all logs in it; the guest is the directory below it, else the name before _clat_hist. Logs without times of the
    Unix epoch begin together. WAITING is the mean number of requests that were waiting; an interval in which some
    waited and none completed is stalled, one in which next to none did is nearly stalled.

    Exit status:
        0   done
        5   cannot tell from what was read
        1   error
        64  usage

    Examples:
        plimsoll hist results
        plimsoll hist results --by guest --interval 10s
        plimsoll hist node1_clat_hist.1.log --percentiles 50,99 --plot latency.html
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("paths", metavar="FILE|DIRECTORY", nargs="*", type=Path, help="logs, or where they are")
        parser.add_argument(
            "--probes",
            metavar="MOMENT",
            help="the results of this node's probes since then (7d, 2026-11-20), not files",
        )
        parser.add_argument("--interval", metavar="DURATION", help="length of an interval; default: some 60 in all")
        parser.add_argument(
            "--percentiles", metavar="P,P,...", default=_PERCENTILES, help=f"which; default: {_PERCENTILES}"
        )
        parser.add_argument(
            "--by", choices=_BY, default="all", help="rows for each of these too; default: all together"
        )
        parser.add_argument(
            "--group", metavar="NAME=PATTERN", action="append", default=[],
            help="guests or files that match this shell pattern are a group; repeatable; implies --by group",
        )  # fmt: skip
        parser.add_argument(
            "--offset", metavar="PATTERN=DURATION", action="append", default=[],
            help="these guests or files began so much later than the others; repeatable",
        )  # fmt: skip
        parser.add_argument(
            "--plot", metavar="FILE", type=Path, help="draw percentiles and a heat map too: NAME.png, .svg or .html"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        try:
            import numpy  # noqa: F401
        except ImportError as error:
            raise NoNumbers(f"hist needs numpy: {needs('insight')}") from error
        from plimsoll_insight.hist import study as studies

        fractions = _fractions(parsed_args.percentiles)
        width = None if parsed_args.interval is None else _milliseconds("--interval", parsed_args.interval)
        if bool(parsed_args.paths) == bool(parsed_args.probes):
            raise UsageError("give files or directories, or --probes, and not both")
        if width is not None and width < 1:
            raise UsageError("--interval: at least 1ms")
        unread: list[str] = []
        parts = self._probe_parts(parsed_args) if parsed_args.probes else _log_parts(parsed_args, unread)
        unread += [*_damages(parts), *_simultaneous(parts)]
        if parsed_args.formatter != "table":
            # The closing lines are not there, and the figures are not all.
            self.app.stderr.writelines(f"{line}\n" for line in unread)
        if not parts:
            raise UsageError("--probes: no probe completed a request since then; see: plimsoll probe history")
        study = studies.study(parts, width, fractions, self._progress)
        by = "group" if parsed_args.group else parsed_args.by
        whole = studies.Whole(study)
        if parsed_args.plot is None:
            rows = study.rows(_key(by), whole.add)
            self.closing = (*_closing(study, rows, whole), *unread)
        else:
            rows = _plot(parsed_args.plot, study, _key(by), unread, whole)
            self.closing = (*_closing(study, rows, whole), *unread, f"Drawn: {parsed_args.plot}")
        spans = study.spans(_key(by))
        usual = studies.usual_of(rows)
        return _columns(fractions, by), (_cells(row, study, by, spans[row.whose], usual) for row in rows)

    def _progress(self, count: int, whole: int) -> None:
        stderr = self.app.stderr
        if stderr.isatty():
            stderr.write(f"\r{count} of {plural(whole, 'log')} read" if count < whole else "\r\x1b[K")
            stderr.flush()

    def _probe_parts(self, parsed_args: argparse.Namespace) -> list[StudyPart]:
        from plimsoll_insight.hist.probed import part_of

        since = moment_of("--probes", parsed_args.probes, datetime.now(UTC))
        with history_of(self.settings(parsed_args)) as history:
            parts = [part_of(result) for result in history.runs(since=since)]
        return [part for part in parts if part is not None]


def _plot(
    path: Path, study: Study, key: Callable[[StudyPart], str] | None, unread: Sequence[str], whole: Whole
) -> Rows:
    with plotting(path):
        from plimsoll_insight.hist import plots
        from plimsoll_insight.hist.heat import Heat
    heat = Heat(study.scale)

    def watch(timeline: Timeline, count: int) -> None:
        heat.add(timeline, count)
        whole.add(timeline, count)

    rows = study.rows(key, watch)
    sentences = [_answer(study, rows, whole), *_closing(study, rows, whole), *unread]
    tables = [_table(study, rows)] if study.clock.number <= _MOST_TABLED else []
    image = plots.render(path.suffix, study, rows, heat, sentences, tables)
    files.save(path, image, PlimsollError)
    return rows


def _table(study: Study, rows: Rows) -> FigureTable:
    """What the figures show, for those who cannot see them: all requests together, interval by interval."""
    from plimsoll_insight.figures.page import FigureTable
    from plimsoll_insight.hist.study import ALL, usual_of

    columns, span, usual = _columns(study.fractions, "all"), study.spans(None)[ALL], usual_of(rows)
    places = [number for number, column in enumerate(columns) if not column.long and column != "direction"]
    together = {row.interval.begin_ms: row for row in rows if row.whose == ALL}  # of a time they come last
    body = [_cells(row, study, "all", span, usual) for row in together.values()]
    return FigureTable(
        "Intervals",
        [columns[number].head for number in places],
        [[cell.human_readable() for number in places if isinstance(cell := cells[number], Shown)] for cells in body],
    )


def _log_parts(parsed_args: argparse.Namespace, unread: list[str]) -> list[StudyPart]:
    """Logs that can be read; of the others a line is added to ``unread``. Raises ``UnreadableLog`` where none can."""
    from plimsoll_insight.files.packed import UnreadableLog
    from plimsoll_insight.hist.flows import Log, survey
    from plimsoll_insight.hist.sources import FileChoice, LogSource, sources
    from plimsoll_insight.hist.study import StudyPart

    def part(source: LogSource) -> StudyPart:
        extent = survey(source)
        name = printable(str(source.path))
        return StudyPart(
            name=name,
            guest=source.guest,
            group=source.group,
            extent=extent,
            offset_ms=source.offset_ms,
            flows=Log(source, extent).flows,
        )

    groups = dict(_pair("--group", text) for text in parsed_args.group)
    offsets = {
        pattern: _milliseconds("--offset", text)
        for pattern, text in (_pair("--offset", text) for text in parsed_args.offset)
    }
    parts, errors = [], []
    for source in sources(parsed_args.paths, FileChoice(groups, offsets)):
        try:
            parts.append(part(source))
        except UnreadableLog as error:
            errors.append(error)
    if errors and not parts:
        raise errors[0]
    unread += [f"Not counted: {error}" for error in errors[:_STALLS_TOLD]]
    if len(errors) > _STALLS_TOLD:
        unread.append(f"{len(errors) - _STALLS_TOLD} more files could not be read.")
    return parts


def _damages(parts: Iterable[StudyPart]) -> list[str]:
    bad = [part for part in parts if part.extent.damaged]
    lines = [f"{part.name}: {part.extent.damaged}; what was before is counted." for part in bad[:_STALLS_TOLD]]
    return [*lines, *([f"{len(bad) - _STALLS_TOLD} more files are damaged."] if len(bad) > _STALLS_TOLD else [])]


def _simultaneous(parts: Iterable[StudyPart]) -> list[str]:
    """Jobs of which fio's JSON does not tell when they began."""
    jobs = {part.name: part.extent.simultaneous for part in parts if part.extent.simultaneous}
    if not jobs:
        return []
    names = f"{next(iter(jobs))}{f' and {len(jobs) - 1} more' if len(jobs) > 1 else ''}"
    return [f"{names}: {sum(jobs.values())} jobs without job_start: they are taken to have begun together."]


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=") if option == "--offset" else text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"{option} {text}: write NAME=VALUE")
    return name, value


def _milliseconds(option: str, text: str) -> int:
    return round(1000 * time_of(option, text))


def _fractions(text: str) -> list[Fraction]:
    words = [each.strip() for each in text.split(",")]
    if not all(map(_PERCENTILE.fullmatch, words)):
        raise UsageError(f"--percentiles {text}: write numbers with commas between them, like {_PERCENTILES}")
    fractions = [Fraction(each) / 100 for each in words]
    if len(set(fractions)) < len(fractions):
        raise UsageError(f"--percentiles {text}: one is there twice")
    if not all(0 < each <= 1 for each in fractions) or len(fractions) > _MOST_PERCENTILES:
        raise UsageError(f"--percentiles {text}: up to {_MOST_PERCENTILES} numbers above 0 and up to 100")
    return fractions


def _key(by: str) -> Callable[[StudyPart], str] | None:
    keys: dict[str, Callable[[StudyPart], str]] = {
        "guest": lambda part: part.guest,
        "group": lambda part: part.group,
        "log": lambda part: part.name,
    }
    return keys.get(by)


def _columns(fractions: Sequence[Fraction], by: str) -> Sequence[Column]:
    from plimsoll_insight.hist.percentiles import name_of

    percentiles = [Column(name_of(each), right=True) for each in fractions]
    return (
        *([] if by == "all" else [Column(by, most=32)]),
        Column("begin", right=True),
        Column("end", right=True, long=True),
        Column("direction"),
        Column("requests", right=True, drop=1),
        Column("iops", right=True),
        *percentiles,
        Column("slowest", right=True),
        Column("saturated", right=True, long=True),
        Column("waiting", right=True, drop=2),
        Column("state"),
    )


def _cells(
    row: IntervalRow,
    study: Study,
    by: str,
    span: tuple[float, float],
    usual: Mapping[tuple[str | None, str], Usual],
) -> tuple[object, ...]:
    from plimsoll_insight.hist.study import seconds_of

    interval = row.interval
    seconds = seconds_of(interval, span)
    return (
        *([] if by == "all" else [row.whose if row.whose is not None else Shown(None, "all")]),
        _time(interval.begin_ms, study),
        _time(interval.end_ms, study),
        interval.direction,
        Shown(round(interval.completed, 3), f"{interval.completed:.0f}"),
        Shown(round(interval.completed / seconds, 3), iops_words(interval.completed / seconds)),
        *(_latency(each) for each in interval.percentiles),
        _latency(interval.slowest),
        Shown(round(interval.saturated, 3), f"{interval.saturated:.0f}"),
        Shown(round(interval.waiting, 3), f"{interval.waiting:.1f}"),
        _state(interval, usual.get((row.whose, interval.direction))),
    )


def _time(milliseconds: float, study: Study) -> Shown:
    if study.is_of_epoch:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
        return Shown(time.isoformat(timespec="milliseconds"), second(time))
    return Shown(milliseconds / 1000, f"{milliseconds / 1000:.10g} s")


def _latency(latency: Latency | None) -> Shown:
    """In seconds, for programs; in fio's last bucket its lower edge, as it has no other."""
    if latency is None:
        return Shown(None, NOTHING)
    words = f"> {latency_words(latency.lower)}" if latency.upper is None else latency_words(latency.middle)
    return Shown(latency.middle / 1e9, words)


def _state(interval: PercentileInterval, usual: Usual | None) -> Shown:
    if interval.is_stalled:
        return Shown("stalled", "stalled", Tone.CRITICAL)
    if usual is not None and usual.is_nearly_stalled(interval):
        return Shown("nearly-stalled", "nearly stalled", Tone.CRITICAL)
    if not interval.completed:
        return Shown("idle", "idle", Tone.FAINT)
    if interval.is_saturated:
        return Shown("saturated", "saturated", Tone.WARNING)
    return Shown("ok", "ok")


def _closing(study: Study, rows: Iterable[IntervalRow], run: Whole) -> Iterable[str]:
    from plimsoll_insight.hist.percentiles import bound_of
    from plimsoll_insight.hist.study import ALL, stalls

    whole = sum(row.interval.completed for row in rows if row.whose == ALL and row.interval.direction != "all")
    share, least = bound_of({scale for part in study.parts for scale in part.extent.scales}, study.scale)
    bound = f"{100 * share:.2g} % of the exact ones"
    if least >= _TOLD_NS:
        bound += f", or {least / 1000:g} µs where that is more"
    logs = plural(len(study.parts), "log")
    yield from _of_whole_run(run, study)
    yield f"{whole:.0f} requests in {logs}; percentiles are within {bound}."
    runs = stalls(rows)
    for stall in runs[:_STALLS_TOLD]:
        yield _stall(stall, study)
    if len(runs) > _STALLS_TOLD:
        yield f"{len(runs) - _STALLS_TOLD} more stalls; -f json has all intervals."
    if any(row.interval.is_saturated for row in rows):
        yield "saturated: fio's last bucket begins at 17.05 s and has no upper edge: these took so long, or longer."
    yield from _losses([part.extent for part in study.parts], study)


def _answer(study: Study, rows: Iterable[IntervalRow], run: Whole) -> str:
    """``Stalled twice, for 15.5 s in all: …``, or the slowest of what the highest percentile is of."""
    from plimsoll_insight.hist.percentiles import name_of
    from plimsoll_insight.hist.study import stalls

    runs = stalls(rows)
    if runs:
        seconds = sum(each[-1].end_ms - each[0].begin_ms for each in runs) / 1000
        how, number = _stalled([interval for each in runs for interval in each])
        times = {1: "once, for", 2: "twice, for"}.get(len(runs), f"{len(runs)} times, for")
        return f"{how} {times} {rounded(seconds)} s{' in all' * (len(runs) > 1)}: {number} completed"
    intervals = [each for each in run.intervals() if each.completed]
    if not intervals:
        return "No request completed"
    parts = [
        f"{each.direction} {name_of(study.fractions[-1])} {_latency(each.percentiles[-1]).human_readable()}"
        for each in intervals
    ]
    return f"No stall of an interval; {', '.join(parts)}"


def _of_whole_run(run: Whole, study: Study) -> Iterable[str]:
    from plimsoll_insight.hist.percentiles import name_of

    begin, end = study.spans(None)[None]
    seconds = max((end - begin) / 1000, 0.001)
    for each in run.intervals():
        if not each.completed:
            continue
        parts = [
            f"{name_of(fraction)} {_latency(latency).human_readable()}"
            for fraction, latency in zip(study.fractions, each.percentiles, strict=True)
        ]
        rate = iops_words(each.completed / seconds)
        slowest = _latency(each.slowest).human_readable()
        yield f"Whole run, {each.direction}: {rate} IOPS for {seconds:.10g} s; {', '.join(parts)}, slowest {slowest}."


def _stall(run: Sequence[PercentileInterval], study: Study) -> str:
    begin, end = (_time(each, study).human_readable() for each in (run[0].begin_ms, run[-1].end_ms))
    most = max(interval.waiting for interval in run)
    how, number = _stalled(run)
    return f"{how}: {number} completed from {begin} to {end}; up to {most:.0f} waited."


def _stalled(intervals: Sequence[PercentileInterval]) -> tuple[str, str]:
    """``Stalled``, or nearly so where each interval had completions; and how many there were."""
    number = sum(each.completed for each in intervals)
    how = "Stalled" if any(each.is_stalled for each in intervals) else "Nearly stalled"
    return how, f"only {plural(max(1, round(number)), 'request')}" if number else "no request"


def _of_servers(study: Study) -> Iterable[str]:
    """What a server of fio did to the rows that it sent."""
    undone = [part.name for part in study.parts if part.extent.is_subtracted]
    if undone:
        yield (
            f"{plural(len(undone), 'log')} of fio --client: each row had the row two before in it, as fio's server"
            " subtracts in place; it is taken out."
        )
    doubtful = [part.name for part in study.parts if part.extent.may_be_subtracted]
    if doubtful:
        yield (
            f"{_first_of(doubtful)}: of fio --client, whose server may have put requests into several rows; the"
            " counts do not tell. fio's JSON has them right."
        )


def _of_fast(study: Study) -> Iterable[str]:
    """Of logs that end where those of some releases of fio are cut."""
    names = [part.name for part in study.parts if part.extent.may_be_cut]
    if names:
        yield (
            f"{_first_of(names)}: no request took 0.79 ms or longer; if it is of fio 3.6 to 3.16, these are left"
            " out: take fio's JSON."
        )


def _first_of(names: Sequence[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]


def _losses(extents: Sequence[LogExtent], study: Study) -> Iterable[str]:
    interval = max((extent.interval_ms for extent in extents if sum(extent.rows) > 1), default=0)
    if interval:
        yield (
            "fio never logs its last interval: up to"
            f" {rounded(interval / 1000)} s at the end of each log are not in these figures (fio's JSON has them)."
        )
    yield from _of_servers(study)
    yield from _of_fast(study)
    incomplete = sum(extent.unread.incomplete for extent in extents)
    if incomplete:
        yield f"{plural(incomplete, 'log')} ended in the middle of a line, which is left out."
    bad = [(part.name, part.extent.unread) for part in study.parts if part.extent.unread.lines]
    for name, unread in bad[:_STALLS_TOLD]:
        yield f"{name}: {plural(unread.lines, 'line')} not understood and left out, the first is line {unread.first}."
