"""An act as a picture: requests per second over time, the limit while there is one, and what was done when."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from lab.demo.measured import Phase, Sampler
from lab.demo.stage import Stage
from plimsoll_probes.output.report.palette import VERDICTS

_MOST = 4
"""Rates of more than so many times the limit are drawn on a logarithmic axis, or they would flatten all others."""
_RED, _GREY = "#b3261e", "#444444"


def draw(stage: Stage, sampler: Sampler, title: str, file: Path) -> None:
    figure = Figure(figsize=(11, 5), dpi=120, layout="constrained")
    axes = figure.subplots()
    axes.plot(sampler.times, sampler.rates, color="#1f5f99", linewidth=1.4)
    axes.step(sampler.times, sampler.limits, where="post", color=_RED, linestyle="--", linewidth=1.4)
    for at, limit in _steps(sampler):
        axes.annotate(f"limit {limit:.0f}", (at, limit), xytext=(3, 8), textcoords="offset points", color=_RED,
                      bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"})  # fmt: skip
    top, highest = max(sampler.rates, default=1), max((limit for _, limit in _steps(sampler)), default=1)
    axes.set_ylabel(f"requests per second on {stage.target}")
    if top > _MOST * highest:
        axes.set_yscale("log")
        axes.set_ylim(highest / 10, 2 * top)
        axes.set_ylabel(f"requests per second on {stage.target}, logarithmic")
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, 1.15 * max(top, highest))
    for phase in stage.phases:
        _draw_phase(axes, phase)
    for at, what in stage.marks:
        axes.axvline(at, color=_GREY, linestyle=":", linewidth=1)
        axes.annotate(what, (at, 0.02), xycoords=("data", "axes fraction"), xytext=(-3, 0),
                      textcoords="offset points", rotation=90, ha="right", va="bottom", color=_GREY)  # fmt: skip
    axes.set_xlabel("seconds")
    axes.set_title(title, pad=34)
    axes.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
    stage.save(file.with_suffix(".json"))
    print(f"\nThe plot: {file.resolve()}")


def _draw_phase(axes: object, phase: Phase) -> None:
    """Its extent, and above the axes its name and figures, where no line is."""
    colour = VERDICTS[phase.verdict][0] if phase.verdict in VERDICTS else "#888888"
    axes.axvspan(phase.began, phase.began + phase.seconds, color=colour, alpha=0.12, linewidth=0)  # type: ignore[attr-defined]
    said = f"{phase.name}\n{phase.verdict or 'fio'}, {phase.iops:.0f}/s"
    axes.annotate(said, (phase.began + phase.seconds / 2, 1.01), xycoords=("data", "axes fraction"),  # type: ignore[attr-defined]
                  ha="center", va="bottom", fontsize=9, color=colour if phase.verdict else _GREY)  # fmt: skip


def _steps(sampler: Sampler) -> list[tuple[float, float]]:
    """When each limit began, and the limit; not when one ended."""
    pairs = zip(sampler.times, [float("nan"), *sampler.limits], sampler.limits, strict=False)
    return [(at, limit) for at, before, limit in pairs if limit == limit and limit != before]
