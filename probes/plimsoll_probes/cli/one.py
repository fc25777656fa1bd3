"""``plimsoll probe show`` and ``compare``: one result, and its comparison with earlier ones."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from plimsoll_agent.messages.record import time_words
from plimsoll_agent.messages.sentences import short_size
from plimsoll_agent.terminal.base import any_duration
from plimsoll_agent.terminal.page import Page
from plimsoll_agent.util import durations
from plimsoll_agent.util.text import plural, printable
from plimsoll_probes.cli.base import HistoryCommand, add_one, one
from plimsoll_probes.evaluate import compare
from plimsoll_probes.evaluate.compare import ENOUGH, QUANTILES, Comparison, Then
from plimsoll_probes.model.finding import Verdict
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.result import Measured, ProbeResult
from plimsoll_probes.output import messages, serialize
from plimsoll_probes.output.messages import Streak, quantile_name

_ERROR = "Each percentile is the middle of one of fio's buckets, off by at most 0.8 %; the maximum is exact."


class ProbeShow(HistoryCommand, Page):
    """Show one result and the reason of its verdict.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll probe show
        plimsoll probe show 17
        plimsoll probe show --guest instance-00000412 --job write
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_one(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[object]]:
        with self.history(parsed_args) as history:
            result = one(history, parsed_args)
            streak = history.streak(result)
        if result.measured is not None:
            names = (*map(quantile_name, QUANTILES), "max")
            self.table = ("of", "requests", "rate", *names), list(_rows(result.measured))
            self.closing = [_ERROR]
        return self.page(
            parsed_args, _shown(result, streak), serialize.result_data(result, histograms=True, streak=streak)
        )


def _shown(result: ProbeResult, streak: Streak | None) -> dict[str, str]:
    subject, measurement, counters, circumstances = (
        result.subject,
        result.measured,
        result.counted,
        result.circumstances,
    )
    names = [subject.guest_name, subject.guest_uuid] if subject.display_name else [subject.guest_uuid]
    rows = {
        "result": messages.UNKNOWN if result.id is None else str(result.id),
        "guest": f"{messages.guest_words(subject.guest_name, subject.display_name)} ({printable(', '.join(names))})",
        "project": _text(subject.project),
        "disk": _disk(result),
        "volume type": _text(subject.volume_type),
        "directory": _text(subject.directory),
        "node": _text(result.node),
        "began": f"{time_words(result.started)} UTC",
        "ended": f"{time_words(result.ended)} UTC",
        "job": messages.job_words(result.job),
        "rule": _text(result.rule),
        "objective": messages.objective_words(result.objective),
        "promised": messages.limits_words(circumstances.promised),
        "actual before": messages.limits_words(circumstances.before),
        "actual after": messages.limits_words(circumstances.after),
        "cluster before": messages.health_words(circumstances.health_before),
        "cluster after": messages.health_words(circumstances.health_after),
    }
    if measurement is not None:
        rows |= {
            "fio": f"{printable(measurement.fio)}, engine {printable(measurement.engine)}",
            "done": f"{plural(measurement.operations, 'request')} in {measurement.seconds:.1f} s:"
            f" {messages.iops_words(measurement.iops)} IOPS,"
            f" {messages.rate_words(measurement.bytes / measurement.seconds)}",
            "unfinished": str(measurement.unfinished),
            "cpu busy": messages.share_words(measurement.cpu_busy),
        }
    if counters is not None:
        rate = (
            "" if counters.last_rate is None else f", {messages.iops_words(counters.last_rate)} IOPS in its last part"
        )
        rows["host counted"] = (
            f"{plural(counters.operations, 'request')}, {short_size(counters.bytes)} in"
            f" {counters.seconds:.1f} s{rate}"
        )
    return rows | {"verdict": messages.verdict_words(result, streak)}


def _disk(result: ProbeResult) -> str:
    subject = result.subject
    if subject.disk is None:
        return "unknown"
    what = f"volume {subject.volume_id}" if subject.volume_id else f"own disk {subject.image}"
    return printable(f"{subject.target}, {what}, pool {subject.pool}")


def _rows(measurement: Measured) -> Iterator[Sequence[object]]:
    for name, flow in measurement.flows:
        yield _row(name, flow.operations, flow.bytes, measurement.seconds, flow.latency, flow.latency_max)
    if len(list(measurement.flows)) == 2:
        operations, size = measurement.operations, measurement.bytes
        yield _row("both", operations, size, measurement.seconds, measurement.latency, measurement.latency_max)


def _row(name: str, operations: int, size: int, seconds: float, latency: Histogram, slowest: int) -> Sequence[object]:
    quantiles = [messages.quantile_words(latency.quantile(fraction, slowest)) for fraction in QUANTILES]
    maximum = messages.latency_words(slowest) if operations else messages.UNKNOWN
    return name, operations, messages.rate_words(size / seconds), *quantiles, maximum


def _text(value: str | None) -> str:
    return printable(value) if value else messages.UNKNOWN


class ProbeCompare(HistoryCommand, Page):
    """Compare a result with those of the days before it.

    Those are of the same guest, directory and job.

    Inconclusive results, and those with other parameters or under reduced limits, are left out.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll probe compare
        plimsoll probe compare 17 --since 14d
        plimsoll probe compare --guest instance-00000412 --job mixed
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_one(parser)
        parser.add_argument(
            "--since", metavar="DURATION", default="7d", help="how far back from the result; default: 7d"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[object]]:
        span = any_duration("--since", parsed_args.since)
        with self.history(parsed_args) as history:
            run = one(history, parsed_args)
            others = history.runs(
                guest=run.subject.guest_uuid, job=run.job.name, since=run.started - span, until=run.started
            )
        comparison = compare.compare(run, others, span)
        if comparison.rows:
            self.table = ("of", "quantile", "before", "now", "ratio"), list(_compared_rows(comparison))
        self.closing = list(_notes(comparison))
        return self.page(parsed_args, _compared(comparison), serialize.comparison_data(comparison))


def _compared(comparison: Comparison) -> dict[str, str]:
    run, then, now = comparison.run, comparison.then, comparison.now
    number = "no result" if run.id is None else f"result {run.id}"
    guest = messages.guest_words(run.subject.guest_name, run.subject.display_name)
    rows = {
        "run": f"{guest} {printable(run.subject.directory)} {run.job.name}, {time_words(run.started)} UTC ({number})",
        "verdict": messages.verdict_words(run),
        "before": "nothing to compare with" if then is None else _against(then, comparison.span),
    }
    if then is not None and now is not None:
        rows["IOPS"] = _then_and_now(messages.iops_words, then.iops, now.iops)
        rows["rate"] = _then_and_now(messages.rate_words, then.bytes_per_second, now.bytes_per_second)
    verdicts = [f"{comparison.verdicts[one]} {one}" for one in Verdict if one in comparison.verdicts]
    return rows | {"verdicts before": ", ".join(verdicts) or messages.UNKNOWN}


def _against(then: Then, span: timedelta) -> str:
    requests = max(histogram.count for histogram in then.latency.values()) if then.latency else 0
    return f"{plural(then.runs, 'run')} in the {durations.words(span)} before, {plural(requests, 'request')}"


def _then_and_now(say: Callable[[float], str], then: float, now: float) -> str:
    return f"{say(then)} before, {say(now)} now ({_times(compare.ratio(now, then))})"


def _times(ratio: float | None) -> str:
    return messages.UNKNOWN if ratio is None else f"{ratio:.2f}×"


def _compared_rows(comparison: Comparison) -> Iterator[Sequence[object]]:
    for row in comparison.rows:
        quantiles = messages.quantile_words(row.then), messages.quantile_words(row.now)
        yield row.direction, quantile_name(row.fraction), *quantiles, _times(row.ratio)
        if row.fraction == QUANTILES[-1] and comparison.then is not None and comparison.now is not None:
            then, now = (side.latency_max.get(row.direction) for side in (comparison.then, comparison.now))
            ratio = compare.ratio(now, then) if now is not None and then is not None else None
            yield row.direction, "max", _slowest(then), _slowest(now), _times(ratio)


def _slowest(nanoseconds: int | None) -> str:
    return messages.UNKNOWN if nanoseconds is None else messages.latency_words(nanoseconds)


def _notes(comparison: Comparison) -> Iterator[str]:
    """Warnings: nothing, too little, or unlike results to compare with."""
    then, span = comparison.then, durations.words(comparison.span)
    if comparison.now is None:
        yield "nothing to compare: the run has no result"
    if then is None:
        yield f"nothing to compare with: no result of this guest, directory and job in the {span} before"
    elif then.runs < ENOUGH:
        yield f"only {plural(then.runs, 'run')} to compare with: too few for a reliable comparison"
    if comparison.other_limits:
        yield f"with other limits than now: {plural(comparison.other_limits, 'run')}"
    if comparison.other_jobs:
        yield f"left out, with other parameters: {plural(comparison.other_jobs, 'run')}"
