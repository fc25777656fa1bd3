"""The program check_plimsoll: arguments in, one report out. Whatever happens, it is a state and a sentence."""

from __future__ import annotations

import argparse
import io
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn

from nagiosplugin import Check
from nagiosplugin.state import ServiceState

from plimsoll_agent import config
from plimsoll_agent.adapters.deadline import Deadlines
from plimsoll_agent.errors import PlimsollError, Unanswered
from plimsoll_agent.measures import MEASURES, Level, Measure, Thresholds, checked_range
from plimsoll_agent.report import printable
from plimsoll_probes.nagios.judging import STATE, Judging, WorstFirst
from plimsoll_probes.nagios.measure import Measuring, NoData, Only, measure
from plimsoll_probes.nagios.wording import FIRST_LINE, WHOLE, Wording, head, output

SUBJECTS: Mapping[str, str] = {
    "limits": "do the disks of this node have the limits that they should have?",
    "agent": "does plimsoll run on this node, and with what it needs?",
    "probe": "do the probed guests of this node get what their limits allow?",
}
TIMEOUT = 8.0
"""Seconds: check_nrpe gives up after 10."""

_MOST_LINES = 20
_LONGEST_ERROR = 100
_UNKNOWN = STATE[Level.UNKNOWN]
_MISUSED = 3
"""Of --help too: to Nagios argparse's own 0 and 2 would be OK and CRITICAL."""


@dataclass(frozen=True, slots=True)
class Report:
    """What is printed, and the exit status."""

    text: str
    status: int


def main(argv: Sequence[str] | None = None) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):  # Nagios may run it with any locale
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    options = parser().parse_args(argv)
    report = _reported(options, datetime.now(UTC))
    sys.stdout.write(report.text)
    sys.stdout.flush()
    return report.status


def _reported(options: argparse.Namespace, now: datetime) -> Report:
    """The report within the time that there is, in a thread that is abandoned after it."""
    deadlines = Deadlines(options.timeout, at_once=1)
    try:
        return deadlines.call("the files of plimsoll", lambda: check(options, now))
    except Unanswered as error:
        return _plain_report(options.subject, _UNKNOWN, f"{error}; see --timeout, and the disk of this node")
    except PlimsollError as error:
        return _plain_report(options.subject, _UNKNOWN, str(error))
    except Exception as error:  # a traceback is no plugin output
        what = f"unforeseen {type(error).__name__}: {printable(str(error))[:_LONGEST_ERROR]}; please report it"
        return _plain_report(options.subject, _UNKNOWN, what)


def check(options: argparse.Namespace, now: datetime) -> Report:
    """Measure, judge and word. Raises ``ConfigError``."""
    only = Only(getattr(options, "guest", None), getattr(options, "volume_type", None))
    with _Warnings() as warnings:
        settings = config.load(options.config_file, options.config_dir)
        try:
            measured = measure(options.subject, options.state_dir or settings.state_dir, only, now)
        except NoData as error:
            return _plain_report(options.subject, STATE[options.no_data], str(error))
    ranges = thresholds(options, settings.health)
    wording = Wording(options.subject, measured.extent, None if options.verbose else _MOST_LINES)
    judging = [Judging(each.name, ranges[each.name]) for each in measures(options.subject)]
    nagios = Check(Measuring(measured), *judging, wording, WorstFirst())
    nagios()
    first = head(options.subject, nagios.state) + nagios.summary_str
    more = [*nagios.verbose_str, *(f"note: {line}" for line in warnings.lines)]
    return Report(output(first, nagios.perfdata, more, whole=None if options.verbose else WHOLE), nagios.exitcode)


def _plain_report(subject: str, state: ServiceState, said: str) -> Report:
    """Of more than one line, or of one that is too long for the first, all are told below."""
    first, *others = said.splitlines() or [""]
    line = head(subject, state) + first
    return Report(output(line, more=[first, *others] if others or len(line) > FIRST_LINE else []), int(state))


def measures(subject: str) -> list[Measure]:
    return [each for each in MEASURES if each.subject == subject]


def thresholds(options: argparse.Namespace, settings: Mapping[str, Thresholds]) -> dict[str, Thresholds]:
    """Those of the settings, and of the command line where it says another."""
    given = {
        each.name: {
            level: said
            for level in ("warning", "critical")
            if (said := getattr(options, f"{each.name}_{level}")) is not None
        }
        for each in measures(options.subject)
    }
    return {name: replace(settings[name], **said) for name, said in given.items()}


class _Warnings(logging.Handler):
    """What is logged meanwhile: Icinga takes stderr for a part of the output."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> _Warnings:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)


# --- the command line


class _Parser(argparse.ArgumentParser):
    """Nagios reads standard output and the exit status."""

    def __init__(self, **other: Any) -> None:
        super().__init__(allow_abbrev=False, **other)

    def error(self, message: str) -> NoReturn:
        sys.stdout.write(output(f"PLIMSOLL UNKNOWN - usage: {message}; see {self.prog} --help"))
        sys.exit(_MISUSED)

    def exit(self, _status: int = 0, message: str | None = None) -> NoReturn:
        sys.stdout.write(message or "")
        sys.exit(_MISUSED)


def parser() -> argparse.ArgumentParser:
    whole = _Parser(
        prog="check_plimsoll",
        description="Looks at what the last pass and the last probes came to: at files, and at no hypervisor.",
        epilog="Exit status: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; 3 also for a wrong command line and for --help.",
    )
    whole.add_argument("--version", action="version", version=f"check_plimsoll {_version()}")
    subjects = whole.add_subparsers(dest="subject", metavar="limits|agent|probe", required=True)
    for subject, question in SUBJECTS.items():
        one = subjects.add_parser(subject, help=question, description=question.capitalize())
        _add_common(one)
        if subject != "agent":
            one.add_argument("--guest", help="only this one: its name or uuid")
        if subject == "limits":
            one.add_argument("--volume-type", metavar="NAME", help="only disks of this volume type")
        _add_ranges(one, subject)
    return whole


def _add_common(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--config-file",
        metavar="FILE",
        type=Path,
        action="append",
        help="read this instead of /etc/plimsoll/plimsoll.conf; may be given more than once",
    )
    one.add_argument(
        "--config-dir",
        metavar="DIR",
        type=Path,
        action="append",
        help="read the *.conf in it instead of those in /etc/plimsoll/plimsoll.conf.d; may be given more than once",
    )
    one.add_argument("--state-dir", metavar="DIR", type=Path, help="instead of state_dir in the settings")
    one.add_argument(
        "--no-data",
        metavar="STATE",
        type=_level,
        default=Level.UNKNOWN,
        help="what it is while there was no pass yet, the guest is not here, or the state cannot be read:"
        " unknown (as shipped), critical, warning or ok",
    )
    one.add_argument(
        "-t", "--timeout", metavar="SECONDS", type=_seconds, default=TIMEOUT, help=f"as shipped {TIMEOUT:g}"
    )
    one.add_argument("-v", "--verbose", action="store_true", help="every line, however many there are")


def _add_ranges(one: argparse.ArgumentParser, subject: str) -> None:
    ranges = one.add_argument_group(
        "ranges",
        "10 (0 to 10 is well), 5:, ~:10, 5:10 or @5:10, '' for never; instead of those in the settings, [health]",
    )
    for each in measures(subject):
        for level, shipped in (("warning", each.warning), ("critical", each.critical)):
            ranges.add_argument(
                f"--{each.name.replace('_', '-')}-{level}",
                dest=f"{each.name}_{level}",
                metavar="RANGE",
                type=_range,
                help=f"{each.what} (as shipped {shipped or 'never'})",
            )


def _range(text: str) -> str:
    try:
        return checked_range(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _level(text: str) -> Level:
    try:
        return Level[text.upper()]
    except KeyError as error:
        states = ", ".join(level.name.lower() for level in Level)
        raise argparse.ArgumentTypeError(f"{text!r} is no state: {states}") from error


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 600")
    return seconds


def _version() -> str:
    try:
        return version("plimsoll-agent")
    except PackageNotFoundError:
        return "(not installed)"
