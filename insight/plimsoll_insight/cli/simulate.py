"""``plimsoll simulate``: other limits on a region's own past, or a scenario of disks and failures in a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from plimsoll_agent.errors import ConfigError, PlimsollError, UsageError
from plimsoll_agent.terminal.columns import NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.util import files, schema
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import meant, plural, printable
from plimsoll_insight.cli.plotting import plotting
from plimsoll_insight.cli.simulate_replay import Replaying
from plimsoll_insight.simulate import scenario as scenarios
from plimsoll_insight.simulate.congestion import NEAR, Arm, arms
from plimsoll_insight.simulate.engine import run
from plimsoll_insight.simulate.latency import percentile
from plimsoll_insight.simulate.results import SimulatedOutcome, SimulationResult, Slice, jain
from plimsoll_insight.simulate.scenario import Congestion, Scenario
from plimsoll_probes.output.messages import iops_words, latency_words

SAMPLES = (
    Path(__file__).resolve().parents[3] / "etc/scenarios",
    Path(sys.prefix) / "share/plimsoll/etc/scenarios",
)
"""Of a checkout, and as installed."""

_OF_REPLAYS = ("region", "node", "since", "until", "rules", "qos", "project", "by", "top", "step")
_MANY = 0.01
"""Of the requests: if more have not ended, the latencies of the others are too low."""

COLUMNS = (
    Column("disks", most=24),
    Column("number", right=True),
    Column("sent_iops", head="SENT", right=True, drop=2),
    Column("iops", right=True),
    Column("iops_per_disk", head="EACH", right=True, drop=3),
    Column("mean", right=True, drop=4),
    Column("p50", right=True),
    Column("p95", right=True),
    Column("p99", right=True),
    Column("p99_behind_throttle", head="CEPH P99", right=True, drop=1),
    Column("jain", right=True, drop=5),
    Column("unsent", right=True, long=True),
    Column("periods", long=True),
)


class Simulate(Replaying):
    """Try limits on a region's own past, or on a model.

    With --from-prometheus it replays what the disks of a region did against other rules or QoS specs, and shows who
    would be worse off. The limits that each disk would have are decided as on nodes. Figures are ranges, LOW..HIGH,
    where demand behind a limit cannot be seen. What no metric has is unknown, never guessed, and never no load.

    With a SCENARIO, a YAML file or the name of one that comes with plimsoll, it runs disks, limits and failures on a
    model of Ceph, and shows what latency and IOPS disks get. The same scenario and seed give the same figures on
    every machine. Latencies are what guests see, with the wait in QEMU's throttle. With congestion in the scenario it
    runs once for each way to act against it.

    Nothing is changed.

    Exit status:
        0   done; of a replay: no disk is worse off
        2   of a replay: some are or may be
        5   of a replay: none is as far as known, but some are unknown
        1   error
        64  usage

    Examples:
        plimsoll simulate --from-prometheus --since 7d --rules new.yaml
        plimsoll simulate --from-prometheus http://prometheus:9090 --qos qos.yaml --by disk
        plimsoll simulate shares-under-congestion --plot scenario.html
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("scenario", metavar="SCENARIO", nargs="?", help="a file, - for standard input, or a name")
        parser.add_argument("--samples", action="store_true", help="list the scenarios that come with plimsoll")
        parser.add_argument("--seed", metavar="N", type=int, help="of the random numbers; default: the scenario's")
        parser.add_argument(
            "--plot", metavar="FILE", type=Path, help="draw it too: NAME.html, a page with the table, .svg or .png"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        replays = parsed_args.prometheus is not None
        if [replays, parsed_args.samples, parsed_args.scenario is not None].count(True) != 1:
            raise UsageError("give --from-prometheus, a SCENARIO or --samples, and one of them only")
        if replays and parsed_args.seed is not None:
            raise UsageError("--seed is of a SCENARIO")
        if replays:
            return self.replay(parsed_args)
        for name in _OF_REPLAYS:
            if getattr(parsed_args, name) not in (None, []):
                raise UsageError(f"--{name} goes with --from-prometheus")
        if parsed_args.samples:
            return ("name", "title"), list(_samples())
        scenario = load(parsed_args.scenario)
        if parsed_args.seed is not None:
            scenario = replace(scenario, seed=parsed_args.seed)
        if scenario.congestion is not None:
            return self._congested(scenario, scenario.congestion, parsed_args.plot)
        result = run(scenario)
        sentences = tuple(_closing(scenario, result))
        self.closing = (scenario.title, *sentences)
        if parsed_args.plot is not None:
            self._draw(parsed_args.plot, scenario, result, [_answer(scenario, result), *sentences])
        return COLUMNS, [_cells(outcome, scenario) for outcome in result.outcomes]

    def _congested(
        self, scenario: Scenario, congestion: Congestion, plot: Path | None
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """A row for each arm and kind of disks."""
        each = arms(scenario, congestion)
        sentences = [_arm_words(arm) for arm in each]
        missing = (
            line
            for arm in each
            for outcome in arm.result.outcomes
            for line in _missing_words(outcome, f"{arm.name}, {outcome.disks.name}")
        )
        self.closing = (scenario.title, *sentences, *missing)
        if plot is not None:
            outcomes = [
                replace(outcome, disks=replace(outcome.disks, name=f"{arm.name}, {outcome.disks.name}"))
                for arm in each
                for outcome in arm.result.outcomes
            ]
            self._draw(plot, scenario, replace(each[0].result, outcomes=outcomes), sentences)
        rows = [(arm.name, *_cells(outcome, scenario)) for arm in each for outcome in arm.result.outcomes]
        return (Column("arm"), *COLUMNS), rows

    def _draw(self, plot: Path, scenario: Scenario, result: SimulationResult, sentences: Sequence[str]) -> None:
        with plotting(plot):
            from plimsoll_insight.simulate import plots
        files.save(plot, plots.render(plot.suffix, scenario, result, sentences), PlimsollError)
        self.closing = (*self.closing, f"Drawn: {plot}")


def load(name: str) -> Scenario:
    """Raises ``ConfigError``."""
    if name == "-":
        return scenarios.parse(schema.standard_input(), schema.STDIN)
    path = Path(name)
    if "/" not in name and not path.suffix:
        path = next((file for file in _files() if file.stem == name), path)
    text = schema.read(path)
    if text is None:
        words = printable(name)
        raise ConfigError(f"{words}: no such file or scenario; {meant(words, [file.stem for file in _files()])}")
    return scenarios.parse(text, str(path))


def _files() -> list[Path]:
    folder = next(filter(files.is_directory, SAMPLES), None)
    return [] if folder is None else sorted(file for file in folder.iterdir() if file.suffix == ".yaml")


def _samples() -> Iterator[tuple[str, str]]:
    for file in _files():
        yield file.stem, load(str(file)).title


def _cells(outcome: SimulatedOutcome, scenario: Scenario) -> tuple[object, ...]:
    disks, seconds = outcome.disks, scenario.seconds
    rate = sum(outcome.requests) / seconds
    fairness = jain(outcome.requests)
    return (
        disks.name,
        disks.number,
        _rate(outcome.sent / seconds),
        _rate(rate),
        _rate(rate / disks.number),
        _latency(outcome.mean),
        *(_latency(outcome.percentile(fraction)) for fraction in (0.5, 0.95, 0.99)),
        _latency(percentile(outcome.services, 0.99)),
        Shown(None, NOTHING) if fairness is None else Shown(round(fairness, 4), f"{fairness:.3f}"),
        outcome.unsent,
        Shown([_period(each) for each in outcome.slices], plural(len(outcome.slices), "period")),
    )


def _arm_words(arm: Arm) -> str:
    unknown = f" (no request of theirs ended in {arm.unknown})" if arm.unknown else ""
    return (
        f"{arm.name}: light disks were above {NEAR} times the objective in {arm.above} of"
        f" {plural(arm.periods, 'period')}{unknown};"
        f" x was {min(arm.factors[-arm.periods :]):.2f} at least, {arm.factors[-1]:.2f} at the end."
    )


def _missing_words(outcome: SimulatedOutcome, name: str) -> Iterator[str]:
    """What the figures of these disks leave out."""
    if outcome.unfinished > _MANY * outcome.sent:
        share = f"{100 * outcome.unfinished / outcome.sent:.0f} %"
        yield f"{name}: {share} of the requests had not ended at the end; latencies are of the others."
    if outcome.unsent:
        yield (
            f"{name}: {plural(outcome.unsent, 'request')} were not sent, since {scenarios.MOST_UNDER_WAY} of the disk"
            " waited already."
        )


def _period(each: Slice) -> dict[str, object]:
    return {
        "end": each.end,
        "iops": round(each.iops, 3),
        **{name: _round(getattr(each, name)) for name in ("p50", "p95", "p99")},
        "total_iops_sec": None if each.limit is None else round(each.limit, 3),
    }


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _rate(value: float) -> Shown:
    return Shown(round(value, 3), iops_words(value))


def _latency(seconds: float | None) -> Shown:
    return Shown(_round(seconds), NOTHING if seconds is None else latency_words(1e9 * seconds))


def _answer(scenario: Scenario, result: SimulationResult) -> str:
    """The headline of the page: what light disks get, or all where none is light."""
    outcomes = [outcome for outcome in result.outcomes if outcome.disks.light] or result.outcomes
    parts = [
        f"{outcome.disks.name}: p99 {_latency(outcome.percentile(0.99)).human_readable()},"
        f" {iops_words(sum(outcome.requests) / scenario.seconds)} IOPS"
        for outcome in outcomes
    ]
    return f"{'; '.join(parts)}."


def _closing(scenario: Scenario, result: SimulationResult) -> Iterator[str]:
    seconds = f"{scenario.seconds:g} s counted"
    yield f"{seconds}, {result.requests} requests in {result.events} events, seed {scenario.seed}."
    everything = [requests for outcome in result.outcomes for requests in outcome.requests]
    fairness = jain(everything)
    if fairness is not None and len(everything) > 1:
        yield f"Jain's index over all disks: {fairness:.3f} (1: all get the same)."
    for outcome in result.outcomes:
        slices = [each for each in outcome.slices if each.end > scenario.warm_up and each.p99 is not None]
        if outcome.disks.light and slices:
            worst = max(slices, key=lambda each: each.p99 or 0.0)
            latency = latency_words(1e9 * (worst.p99 or 0.0))
            yield f"{outcome.disks.name}: p99 was longest in the period until {worst.end:g} s, {latency}."
        yield from _missing_words(outcome, outcome.disks.name)
    if result.recovered or result.stale:
        yield f"{plural(result.recovered, 'object')} recovered, {result.stale} stale at the end."
