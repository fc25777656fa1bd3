"""``plimsoll simulate --from-prometheus``: what other rules or QoS specs would have done to the disks of a region."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import CannotTell, ConfigError, PlimsollError, UsageError
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.qos import file as qos_file
from plimsoll_agent.rules import loader
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.terminal.columns import NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import add_window, seconds_of
from plimsoll_agent.util import files
from plimsoll_agent.util.distribution import needs
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import minute, plural, printable
from plimsoll_insight.cli.plotting import NoNumbers, plotting
from plimsoll_insight.replay import messages, questions
from plimsoll_insight.replay.deciding import Deciding
from plimsoll_insight.replay.summary import TURNS, ReplayBy, Row, rows, worst_first
from plimsoll_insight.replay.values import Fate, FigureRange, ReplayVerdict
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.cli.base import RegionCommand
from plimsoll_monitoring.region.answers import Series

if TYPE_CHECKING:
    from plimsoll_insight.replay.columns import Rows, Steps

_SINCE, _LEAST, _MOST = "7d", "1h", "31d"
_TABLE = 40
_FIGURES = (
    Column("at_limit_before", head="AT LIMIT", right=True),
    Column("at_limit_after", head="WOULD BE", right=True),
    Column("served_before", head="IOPS", right=True, drop=9),
    Column("served_after", head="IOPS THEN", right=True, drop=9),
    Column("waited", right=True, drop=2),
    Column("longest_wait", head="LONGEST", right=True, drop=3),
    Column("burst_wait", head="BURST", right=True, drop=1),
    Column("share_known", head="KNOWN", right=True, long=True),
)
_LIMITS = Column("limits", wraps=True, drop=6)
_COUNTS = (
    Column("disks", right=True, drop=7),
    Column(ReplayVerdict.WORSE.value, right=True),
    Column("maybe_worse", head="MAYBE", right=True),
    Column("better", right=True, drop=5),
    Column("same", right=True, long=True),
    Column("untouched", right=True, drop=4),
    Column("unknown", right=True, drop=8),
)


class Replaying(RegionCommand, Listing):
    """A command that can replay what disks did against other rules and QoS specs."""

    empty = "No disk would get other limits."

    def add_source(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--from-prometheus",
            metavar="URL",
            dest="prometheus",
            nargs="?",
            const="",
            help="replay what the disks of a region did, by this Prometheus, or without URL by the one in the"
            " settings; their token is sent only to the same host and port, or if the settings have no url",
        )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_window(parser, "the load", _SINCE)
        parser.add_argument(
            "--rules", metavar="FILE", type=Path, help="rules to try; default: the rules file of the settings"
        )
        parser.add_argument(
            "--qos",
            metavar="FILE",
            type=Path,
            help="QoS specs and volume types to try, as plimsoll qos export writes them",
        )
        parser.add_argument(
            "--project", metavar="ID", action="append", default=[], help="only disks of this project; repeatable"
        )
        parser.add_argument(
            "--by", choices=[by.value for by in ReplayBy], help="rows for each of these; default: project"
        )
        parser.add_argument("--top", metavar="N", type=int, help="only the N worst rows; default: all")
        parser.add_argument(
            "--step", metavar="TIME", help="between two values; default: as nodes make passes, at most 5 min"
        )
        return parser

    def replay(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """The worst first. Raises ``PlimsollError``."""
        parsed_args.prometheus = parsed_args.prometheus or None
        fates = self._fates(parsed_args)
        by = ReplayBy(parsed_args.by or ReplayBy.PROJECT)
        several = len({fate.subject.region for fate in fates}) > 1
        self.closing = (messages.sum_line(fates), *self._lines)
        if parsed_args.formatter != "table":
            self.app.stderr.writelines(f"{line}\n" for line in self.closing)
        self.status = self.status or _status(fates) or (CannotTell.exit_status if self._ceilings else 0)
        columns = _columns(by, several=several)
        if by is ReplayBy.DISK:
            changing = [fate for fate in worst_first(fates) if fate.verdict is not ReplayVerdict.UNTOUCHED]
            cells = [_disk_cells(fate) for fate in changing]
        else:
            cells = [
                _group_cells(row, by) for row in rows(fates, by) if row.disks > row.verdicts[ReplayVerdict.UNTOUCHED]
            ]
        if parsed_args.plot is not None:
            self._plot(parsed_args.plot, fates, ReplayBy.PROJECT if by is ReplayBy.DISK else by, columns, cells)
        return columns, cells[: parsed_args.top]

    def _fates(self, parsed_args: argparse.Namespace) -> list[Fate]:
        step = _step(parsed_args)
        if parsed_args.plot is not None:
            with plotting(parsed_args.plot):
                pass
        try:
            from plimsoll_insight.replay.run import Replay, extent_of
        except ImportError as error:
            raise NoNumbers(f"a replay needs numpy: {needs('insight')}") from error
        settings = self.settings(parsed_args)
        rules = _rules(parsed_args.rules, settings)
        declaration = None if parsed_args.qos is None else qos_file.read(parsed_args.qos).declared
        selection = replace(self.selection(parsed_args), projects=tuple(parsed_args.project))
        prometheus = self.connect(parsed_args, settings)
        period = self.window(parsed_args, prometheus, _SINCE, _LEAST, _MOST)
        since, until = int(period.since.timestamp()), int(period.until.timestamp())
        ask = _Asking(prometheus)
        nodes = questions.nodes(ask.query, selection, until - since)
        if not nodes.nodes and not nodes.aggregates:
            raise self.nothing(selection)
        if not nodes.nodes:
            raise self.no_detail("disks")
        extent = extent_of(nodes, since, until, step)
        deciding = Deciding(rules, declaration, datetime.fromtimestamp(until, UTC))
        replay = Replay(ask.query, ask.columns, deciding.limits, extent, self._progress)
        fates = list(replay.run(nodes.nodes, selection))
        if not fates and selection.projects:
            raise UsageError(
                f"no disk of project {', '.join(map(printable, selection.projects))} at the end of the time"
            )
        self.warn(prometheus)
        keys = {node.key for node in nodes.nodes}
        several = len({region for region, _ in keys | nodes.unreachable}) > 1
        self.partly(nodes.aggregates, several=several)
        self.name_unreachable(nodes.unreachable, keys | nodes.aggregates, several=several)
        self._ceilings = rules.share_ceilings
        ceilings = messages.CEILINGS_LINE if self._ceilings else None
        lines = [
            *messages.unknown_lines(fates),
            messages.known_line(fates),
            messages.bound_line(extent.pass_seconds),
            ceilings,
        ]
        self._lines = tuple(line for line in lines if line)
        self._period = f"{minute(period.since)} to {minute(period.until)}"
        self._what = " and ".join(str(path) for path in (parsed_args.rules, parsed_args.qos) if path)
        return fates

    def _progress(self, count: int, whole: int) -> None:
        stderr = self.app.stderr
        if stderr.isatty():
            stderr.write(f"\r{count} of {plural(whole, 'disk')} replayed" if count < whole else "\r\x1b[K")
            stderr.flush()

    def _plot(
        self,
        path: Path,
        fates: Sequence[Fate],
        by: ReplayBy,
        columns: Sequence[Column],
        cells: Sequence[Sequence[object]],
    ) -> None:
        from plimsoll_insight.figures.page import FigureTable
        from plimsoll_insight.replay import plots

        several = len({fate.subject.region for fate in fates}) > 1
        table = FigureTable(
            "The worst first",
            [column.head for column in columns if not column.long],
            [
                [_text(cell) for column, cell in zip(columns, row, strict=True) if not column.long]
                for row in cells[:_TABLE]
            ],
        )
        answer, *others = self.closing
        sentences = [answer, f"{self._what}, against what disks did from {self._period}.", *others]
        figures = [
            (_name_of(row, by, several=several), row)
            for row in rows(fates, by)
            if row.disks > row.verdicts[ReplayVerdict.UNTOUCHED]
        ]
        content = plots.render(path.suffix, "Replay of other limits", sentences, figures, table)
        files.save(path, content, PlimsollError)


def _step(parsed_args: argparse.Namespace) -> int | None:
    """Seconds between two values. Raises ``UsageError``, also for other options that make no replay."""
    if parsed_args.rules is None and parsed_args.qos is None:
        raise UsageError("nothing to try: give --rules FILE, --qos FILE or both")
    if parsed_args.top is not None and parsed_args.top < 1:
        raise UsageError("--top must be 1 or more")
    step = None if parsed_args.step is None else seconds_of("--step", parsed_args.step)
    if step is not None and not 1 <= step <= 3600:
        raise UsageError("--step must be 1 s or more, and 1 h or less")
    return step


def _rules(path: Path | None, settings: Settings) -> Rules:
    """Those to try. Raises ``PlimsollError``."""
    file = path or settings.rules_file
    if path is None and not files.exists(file):
        raise ConfigError(f"{file}: no such file; give --rules FILE")
    return loader.parse(loader.read(file, required=True), str(file))


class _Asking:
    """Prometheus, with the deadline for each query: together they may take minutes."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus

    def query(self, promql: str) -> Sequence[Series]:
        self._prometheus.renew()
        return self._prometheus.query(promql)

    def columns(self, promql: str, steps: Steps) -> Rows:
        self._prometheus.renew()
        return self._prometheus.columns(promql, steps.first, steps.last, steps.seconds, steps.column)


def _status(fates: Iterable[Fate]) -> int:
    verdicts = {fate.verdict for fate in fates}
    if verdicts & {ReplayVerdict.WORSE, ReplayVerdict.MAYBE_WORSE}:
        return 2
    return 5 if ReplayVerdict.UNKNOWN in verdicts else 0


# --- cells


def _columns(by: ReplayBy, *, several: bool) -> list[Column]:
    region = Column("region", most=16, long=not several)
    if by is ReplayBy.DISK:
        return [
            region,
            Column("verdict"),
            Column("server", most=16),
            Column("guest", most=36, least=17, long=True),
            Column("guest_uuid", long=True),
            Column("disk"),
            Column("volume", long=True),
            Column("volume_type", head="TYPE", most=16, drop=7),
            Column("pool", long=True),
            Column("project", long=True),
            Column("project_name", head="PROJECT", most=16, drop=8),
            _LIMITS,
            Column("limits_before", long=True),
            Column("limits_after", long=True),
            *_FIGURES,
            Column("reason", long=True),
        ]
    names = {
        ReplayBy.PROJECT: [Column("project", most=36), Column("project_name", head="NAME", most=20)],
        ReplayBy.TYPE: [Column("volume_type", head="TYPE", most=24)],
        ReplayBy.POOL: [Column("cluster", long=True), Column("pool", most=24)],
    }[by]
    return [region, *names, *_COUNTS, _LIMITS, *_FIGURES, Column("reasons", long=True)]


def _disk_cells(fate: Fate) -> list[object]:
    subject = fate.subject
    before, after = subject.actual, fate.limits
    facts = {name: _name(value) for name, value in subject.facts.items()}
    turn = "?" if before is None or after is None else messages.turn_words(before, after)
    return [
        _name(subject.region),
        Shown(fate.verdict.value, messages.VERDICTS[fate.verdict]),
        facts.get("server", _name("")),
        _name(subject.domain),
        subject.uuid,
        subject.target,
        *(facts.get(name, _name("")) for name in ("volume", "volume_type", "pool", "project", "project_name")),
        Shown(turn if turn != "?" else None, turn),
        _limits_cell(before),
        _limits_cell(after),
        *_figures(fate),
        Shown(fate.why.value, messages.REASONS[fate.why]) if fate.why else Shown(None, NOTHING),
    ]


def _group_cells(row: Row, by: ReplayBy) -> list[object]:
    columns = _columns(by, several=True)
    names = [_name(row.labels.get(column, "")) for column in columns[1 : columns.index(_COUNTS[0])]]
    turns = [messages.turn_words(*turn) for turn in row.turns]
    more = f"; {len(turns) - TURNS} more" if len(turns) > TURNS else ""
    return [
        _name(row.region),
        *names,
        row.disks,
        *(
            row.verdicts.get(verdict, 0)
            for verdict in (
                ReplayVerdict.WORSE, ReplayVerdict.MAYBE_WORSE, ReplayVerdict.BETTER,
                ReplayVerdict.SAME, ReplayVerdict.UNTOUCHED, ReplayVerdict.UNKNOWN
            )
        ),
        Shown(turns[:TURNS], "; ".join(turns[:TURNS]) + more or NOTHING),
        *_figures(row),
        Shown(
            {why.value: number for why, number in row.reasons.items()},
            ", ".join(f"{why.value} {number}" for why, number in row.reasons.items()) or NOTHING,
        ),
    ]  # fmt: skip


def _figures(of: Fate | Row) -> Iterator[Shown]:
    yield _number(of.at_limit_before, lambda value: messages.share_words(FigureRange(value, value)))
    yield _span(of.at_limit, messages.share_words)
    yield _number(of.served_before, lambda value: messages.rate_words(FigureRange(value, value)))
    yield _span(of.served, messages.rate_words)
    yield _span(of.waited, messages.count_words)
    yield _span(of.longest, messages.wait_words)
    yield _number(of.hidden, messages.seconds_words)
    yield _number(of.share_known, lambda value: f"{100 * value:.0f} %")


def _span(span: FigureRange | None, words: Any) -> Shown:
    if span is None:
        return Shown(None, "?")
    high = None if span.high is None else _round(span.high)
    return Shown({"low": _round(span.low), "high": high}, words(span))


def _number(value: float | None, words: Any) -> Shown:
    return Shown(None, "?") if value is None else Shown(_round(value), words(value))


def _round(value: float) -> float:
    return float(f"{value:.6g}")


def _limits_cell(limits: Limits | None) -> Shown:
    return Shown(None if limits is None else limits.in_effect(), "?" if limits is None else str(limits.in_effect()))


def _name(value: str | None) -> Shown:
    return Shown(value or None, value or NOTHING)


def _name_of(row: Row, by: ReplayBy, *, several: bool) -> str:
    labels: Mapping[str, str] = row.labels
    name = {
        ReplayBy.PROJECT: labels.get("project_name") or labels.get("project"),
        ReplayBy.TYPE: labels.get("volume_type"),
        ReplayBy.POOL: labels.get("pool"),
    }[by]
    return f"{row.region}: {name or NOTHING}" if several else name or NOTHING


def _text(cell: object) -> str:
    return cell.human_readable() if isinstance(cell, Shown) else str(cell)
