"""Plugin output for Nagios: a first line that fits a text message, performance data, and the rest below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nagiosplugin import Summary
from nagiosplugin.state import ServiceState

from plimsoll_agent.monitor.thresholds import Level
from plimsoll_agent.util.text import printable
from plimsoll_monitoring.nagios.judging import STATE, FigureResult, decimal
from plimsoll_monitoring.node.health import JudgedFigure, duration_words, words

FIRST_LINE = 199
"""Characters of the first line, without the figures."""
PACKET = 1000
"""Bytes of the first line with the figures: version 2 of NRPE's protocol cuts after 1023."""
WHOLE = 7500
"""Bytes of everything: Nagios cuts after 8 KiB."""

_LINE = 300
_LONGEST_DO = 110

# Characters that are special to Nagios or to a shell that sends its mails; ' is an apostrophe here.
_DANGEROUS = str.maketrans({"|": "?", "`": "?", "$": "?", "\\": "?", '"': "?", "<": "?", "&": "+", "'": "\u2019"})


class Wording(Summary):  # type: ignore[misc]  # nagiosplugin has no types
    """Names the guest and what to do, within what ``head`` leaves of the first line."""

    def __init__(self, subject: str, extent: str, most: int | None) -> None:
        """``most`` lines about one figure; None for all."""
        self._room = FIRST_LINE - max(len(head(subject, state)) for state in STATE.values())
        self._extent = extent
        self._most = most

    def ok(self, _results: Iterable[FigureResult]) -> str:
        return shorten(self._extent, self._room)

    def problem(self, results: Iterable[FigureResult]) -> str:
        worst, *others = [each.finding for each in results if each.finding.level is not Level.OK]
        text, do = words(worst), shorten(worst.figure.do, _LONGEST_DO)
        end = f"; {do}" if do else ""
        also = [f" (also {', '.join(map(_brief, others))})", f" (+{len(others)} more)"] if others else [""]
        tail = next((f"{end}{each}" for each in also if len(text + end + each) <= self._room), f"{end}{also[-1]}")
        return shorten(text, self._room - len(tail)) + tail

    def verbose(self, results: Iterable[FigureResult]) -> list[str]:
        """All findings, worst first, each with its disks or guests below."""
        return [line for each in results for line in self._lines(each.finding)]

    def _lines(self, finding: JudgedFigure) -> Iterator[str]:
        """``CRITICAL failed 3 (warning never, critical 0): disks whose change failed``, then the disks."""
        measure, figure, ranges = finding.measure, finding.figure, finding.thresholds
        levels = f"warning {ranges.warning or 'never'}, critical {ranges.critical or 'never'}"
        yield f"{finding.level.name} {measure.name} {_value(finding)} ({levels}): {measure.what}"
        if finding.level is Level.OK:
            return
        if figure.do:
            yield f"  next: {figure.do}"
        lines = figure.each or (words(finding),)
        yield from (f"  {line}" for line in lines[: self._most])
        if len(lines) > len(lines[: self._most]):
            yield f"  and {len(lines) - len(lines[: self._most])} more: -v shows all"


def _brief(finding: JudgedFigure) -> str:
    return f"{finding.measure.name} {_value(finding)}"


def _value(finding: JudgedFigure) -> str:
    """``3``, ``2 h 5 min``, or ``unknown``."""
    value = finding.figure.value
    if value is None:
        return "unknown"
    return duration_words(value) if finding.measure.unit == "s" else decimal(value)


def head(subject: str, state: ServiceState) -> str:
    return f"PLIMSOLL {subject.upper()} {str(state).upper()} - "


def output(first: str, figures: Iterable[str] = (), more: Iterable[str] = (), *, whole: int | None = WHOLE) -> str:
    """The plugin output: the first line with the figures, then as much of the rest as fits into ``whole`` bytes.

    Text from a tenant cannot break a line or begin performance data.
    """
    perfdata = " ".join(figures)
    ending = f" | {perfdata}" if perfdata else ""
    first = _in_bytes(shorten(harmless(first), FIRST_LINE), PACKET - len(ending)) + ending
    lines, length = [first], len(first.encode())
    for line in (shorten(harmless(each), _LINE) for each in more):
        length += len(line.encode()) + 1
        if whole is not None and length > whole:
            lines.append("and more: -v shows all")
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def harmless(text: str) -> str:
    return printable(text).translate(_DANGEROUS)


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(most - 1, 0)]}…"


def _in_bytes(text: str, most: int) -> str:
    raw = text.encode()
    return text if len(raw) <= most else f"{raw[: most - 3].decode(errors='ignore')}…"
