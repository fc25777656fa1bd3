"""Who will feel new limits, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from plimsoll_agent.messages.limits import (
    rate_words,
)
from plimsoll_agent.messages.lines import DiskLine, Severity, TextLine
from plimsoll_agent.model.impact import Impact
from plimsoll_agent.util import durations
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import plural

NOT_YET = "no pass has measured the {} yet"
"""With how many of what."""
NEVER = "passes measure disks only where [metrics] textfile_dir is set"


def missing_words(is_measuring: bool) -> str:
    """Why no use of disks is known on a node whose passes measure, or do not."""
    return NOT_YET if is_measuring else NEVER


def with_impacts(
    lines: Iterable[tuple[str, DiskLine | None]], impacts: Mapping[str, Impact | None]
) -> list[DiskLine]:
    """The lines that there are, by ``Disk.key``: of disks that may get other limits with what they did lately."""
    if not any(impacts.values()):  # without any measurement one line says so
        impacts = {}
    return [_with_impact(line, impacts[key]) if key in impacts else line for key, line in lines if line is not None]


def _with_impact(line: DiskLine, impact: Impact | None) -> DiskLine:
    why = f"{impact_words(impact)}; {line.why}"
    return replace(line, why=why, share=0.0 if impact is None else impact.share)


def impact_words(impact: Impact | None) -> str:
    """``does 140 IOPS now, would be at limit 71 % of 26 h``; no figures for a disk that will not feel it."""
    if impact is None:
        return "use unknown"
    if not impact.felt:
        return "will not feel it"
    now = rate_words(round(impact.present), impact.unit)
    share = "less than 1" if impact.share < 0.01 else f"{100 * impact.share:.0f}"
    return f"does {now} now, would be at limit {share} % of {_span(impact.seconds)}"


def impact_lines(
    impacts: Mapping[str, Impact | None],
    noun: str = "disk",
    source: str = "averages between passes",
    missing: str = NOT_YET,
) -> Iterator[TextLine]:
    """``Of 14 disks with a lower or a first limit, 3 will feel it, 9 will not (averages between passes of 26 h).``"""
    figures = [impact for impact in impacts.values() if impact is not None]
    hits, unknown = sum(impact.felt for impact in figures), len(impacts) - len(figures)
    if not impacts:
        return
    if not figures:
        yield TextLine(f"Who will feel it is unknown: {missing.format(plural(len(impacts), noun))}.")
        return
    others = "will not" if hits else "will not feel it"
    numbers = ((hits, "will feel it"), (len(figures) - hits, others), (unknown, "may: their use is unknown"))
    parts = {what: number for number, what in numbers if number}
    span = _span(max(impact.seconds for impact in figures))
    text = f"{plural(len(impacts), noun)} with a lower or a first limit"
    if len(parts) > 1:
        text = f"Of {text}, {', '.join(f'{number} {what}' for what, number in parts.items())}"
    else:
        text = f"{text} {next(iter(parts))}"
    text = f"{text} ({source} of {span})."
    yield TextLine(text, Severity.LOWERED if hits else Severity.PLAIN)


def _span(seconds: float) -> str:
    return durations.words(timedelta(seconds=seconds))
