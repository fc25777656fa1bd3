"""An act as a picture: requests per second over time, and what was done when."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from tests.lab.demo.measured import Sampler
from tests.lab.demo.stage import SECONDS, Stage


def draw(stage: Stage, sampler: Sampler, limits: list[int], title: str, file: Path) -> None:
    figure = Figure(figsize=(10, 4.5), dpi=120, layout="constrained")
    axes = figure.subplots()
    axes.plot(sampler.times, sampler.rates, color="#1f5f99", linewidth=1.4)
    for limit in limits:
        axes.axhline(limit, color="#b3261e", linestyle="--", linewidth=1.2)
        axes.annotate(
            f"total_iops_sec {limit}",
            (0.995, limit),
            xycoords=("axes fraction", "data"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="right",
            color="#b3261e",
        )
    top = max(max(sampler.rates, default=0), *limits) * 1.15
    axes.set_ylim(0, top)
    for at, what in stage.marks:
        axes.axvline(at, color="#555555", linestyle=":", linewidth=1)
        axes.annotate(what, (at, top), xytext=(4, -12), textcoords="offset points", color="#333333")
    for phase in stage.phases:
        axes.annotate(
            f"fio: {phase.iops:.0f}/s",
            (phase.began + SECONDS / 2, phase.iops),
            xytext=(0, 14),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        )
    axes.set_xlabel("seconds")
    axes.set_ylabel(f"requests per second on {stage.target}")
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
    print(f"\nThe plot: {file.resolve()}")
