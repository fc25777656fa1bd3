"""What Nagios and its readers are told: a first line that fits a text message, figures, and the rest below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nagiosplugin import Summary
from nagiosplugin.state import ServiceState

from plimsoll_agent.health import Finding, span_words, words
from plimsoll_agent.measures import Level
from plimsoll_agent.report import printable
from plimsoll_probes.nagios.judging import STATE, Judged, decimal

FIRST_LINE = 199
"""Characters of the first line, without the figures."""
PACKET = 1000
"""Bytes of the first line with the figures: version 2 of NRPE's protocol cuts after 1023."""
WHOLE = 7500
"""Bytes of everything: Nagios cuts after 8 KiB."""

_LINE = 300
_LONGEST_DO = 90

# What Nagios and a shell between it and a mail would not take as it is meant; ' is an apostrophe here.
_DANGEROUS = str.maketrans({"|": "?", "`": "?", "$": "?", "\\": "?", '"': "?", "<": "?", "&": "+", "'": "\u2019"})


class Wording(Summary):  # type: ignore[misc]  # nagiosplugin has no types
    """Says which guest it is and what to do, in what the ``head`` of the first line leaves of it."""

    def __init__(self, subject: str, extent: str, most: int | None) -> None:
        """``most`` lines about one figure; None for all."""
        self._room = FIRST_LINE - max(len(head(subject, state)) for state in STATE.values())
        self._extent = extent
        self._most = most

    def ok(self, _results: Iterable[Judged]) -> str:
        return shortened(self._extent, self._room)

    def problem(self, results: Iterable[Judged]) -> str:
        worst, *others = [each.finding for each in results if each.finding.level is not Level.OK]
        said, do = words(worst), shortened(worst.figure.do, _LONGEST_DO)
        end = f"; {do}" if do else ""
        also = [f" (also {', '.join(map(_brief, others))})", f" (+{len(others)} more)"] if others else [""]
        tail = next((f"{end}{each}" for each in also if len(said + end + each) <= self._room), f"{end}{also[-1]}")
        return shortened(said, self._room - len(tail)) + tail

    def verbose(self, results: Iterable[Judged]) -> list[str]:
        """Every finding, the worst first, and below each what it is about."""
        return [line for each in results for line in self._lines(each.finding)]

    def _lines(self, finding: Finding) -> Iterator[str]:
        """``CRITICAL failed 3 (warning never, critical 0): disks whose change failed``, and each of the disks."""
        measure, figure, ranges = finding.measure, finding.figure, finding.thresholds
        told = f"warning {ranges.warning or 'never'}, critical {ranges.critical or 'never'}"
        yield f"{finding.level.name} {measure.name} {_value(finding)} ({told}): {measure.what}"
        if finding.level is Level.OK:
            return
        if figure.do:
            yield f"  what to do: {figure.do}"
        lines = figure.each or (words(finding),)
        yield from (f"  {line}" for line in lines[: self._most])
        if len(lines) > len(lines[: self._most]):
            yield f"  and {len(lines) - len(lines[: self._most])} more: -v shows all"


def _brief(finding: Finding) -> str:
    return f"{finding.measure.name} {_value(finding)}"


def _value(finding: Finding) -> str:
    """``3``, ``2 h 5 min``, or ``not known``."""
    value = finding.figure.value
    if value is None:
        return "not known"
    return span_words(value) if finding.measure.unit == "s" else decimal(value)


def head(subject: str, state: ServiceState) -> str:
    return f"PLIMSOLL {subject.upper()} {str(state).upper()} - "


def output(first: str, figures: Iterable[str] = (), more: Iterable[str] = (), *, whole: int | None = WHOLE) -> str:
    """All that is printed: the first line with the figures, then so much of the rest as ``whole`` bytes take.

    Whatever a guest chose stays in its line, and begins no figures.
    """
    told = " ".join(figures)
    ending = f" | {told}" if told else ""
    first = _in_bytes(shortened(harmless(first), FIRST_LINE), PACKET - len(ending)) + ending
    lines, length = [first], len(first.encode())
    for line in (shortened(harmless(each), _LINE) for each in more):
        length += len(line.encode()) + 1
        if whole is not None and length > whole:
            lines.append("and more: -v shows all")
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def harmless(text: str) -> str:
    return printable(text).translate(_DANGEROUS)


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(most - 1, 0)]}…"


def _in_bytes(text: str, most: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= most else f"{encoded[: most - 3].decode(errors='ignore')}…"
