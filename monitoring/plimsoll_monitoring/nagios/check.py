"""The program check_plimsoll. After any error too it prints a state and a sentence."""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from nagiosplugin import Check
from nagiosplugin.state import ServiceState

from plimsoll_agent.adapters.deadline import Deadlines
from plimsoll_agent.app.node_setup import node_setup
from plimsoll_agent.config import settings as config
from plimsoll_agent.errors import DeadlineExceeded, PlimsollError
from plimsoll_agent.monitor.thresholds import MEASURES, SUBJECTS, Level, Measure, Thresholds, checked_range
from plimsoll_agent.util import quantities
from plimsoll_agent.util.distribution import version
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import printable
from plimsoll_monitoring.nagios.judging import STATE, FindingContext, Judging, WorstFirst
from plimsoll_monitoring.nagios.measure import Measuring, NoData, Only, measure
from plimsoll_monitoring.nagios.wording import FIRST_LINE, WHOLE, Wording, head, output

TIMEOUT = 8.0
"""Seconds: check_nrpe gives up after 10."""

_MOST_LINES = 20
_LONGEST_ERROR = 100
_UNKNOWN = STATE[Level.UNKNOWN]
_MISUSED = 3
"""Also for --help: argparse's 0 and 2 would be OK and CRITICAL to Nagios."""


@frozen
class Report:
    """What is printed, and the exit status."""

    text: str
    status: int


def main(argv: Sequence[str] | None = None) -> int:
    if sys.stdout is None:  # closed from the start: else a file of the state would take its number
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until the end
    if isinstance(sys.stdout, io.TextIOWrapper):  # Nagios may run it with any locale
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    try:
        return _run(argv)
    except OSError as error:  # a full file system, or a pipe that is closed: 1 would be WARNING
        # Else Python tries again at exit, and ends with status 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if sys.stderr is not None:
            sys.stderr.write(f"check_plimsoll: standard output: {error.strerror}\n")
        return int(_UNKNOWN)


def _run(argv: Sequence[str] | None) -> int:
    """Raises ``OSError`` where standard output cannot be written."""
    try:
        report = _report(options_of(argv), datetime.now(UTC))
        sys.stdout.write(report.text)
        status = report.status
    except SystemExit as stop:
        status = int(stop.code or 0)
    sys.stdout.flush()
    return status


def options_of(argv: Sequence[str] | None = None) -> argparse.Namespace:
    whole = parser()
    options = whole.parse_args(argv)
    if options.subject is None:
        whole.error("give a check: limits, agent or probe")
    return options


def _report(options: argparse.Namespace, now: datetime) -> Report:
    """The report, within the timeout: a thread does the work, and is abandoned after that."""
    deadlines = Deadlines(options.timeout, at_once=1)
    try:
        return deadlines.call("the files of plimsoll", lambda: check(options, now))
    except DeadlineExceeded as error:
        return _plain_report(options.subject, _UNKNOWN, f"{error}; check this node's disk, or raise --timeout")
    except PlimsollError as error:
        return _plain_report(options.subject, _UNKNOWN, str(error))
    except Exception as error:  # Nagios cannot use a traceback
        what = f"unexpected {type(error).__name__}: {printable(str(error))[:_LONGEST_ERROR]}; please report it"
        return _plain_report(options.subject, _UNKNOWN, what)


def check(options: argparse.Namespace, now: datetime) -> Report:
    """Measure, judge and report. Raises ``ConfigError``."""
    only = Only(getattr(options, "guest", None), getattr(options, "volume_type", None))
    with _Warnings() as warnings:
        settings = config.load(options.config_file, options.config_dir)
        try:
            # For the person who is told of it, not for the user of the check.
            setup = replace(node_setup(settings), sudo=False)
            measurement = measure(options.subject, options.state_dir or settings.state_dir, only, now, setup)
        except NoData as error:
            return _plain_report(options.subject, STATE[options.no_data], str(error))
    ranges = thresholds(options, settings.health)
    wording = Wording(options.subject, measurement.extent, None if options.verbose else _MOST_LINES)
    judging = [Judging(each.name, ranges[each.name]) for each in measures(options.subject)]
    findings = map(FindingContext, measurement.findings)
    nagios = Check(Measuring(measurement), *judging, *findings, wording, WorstFirst())
    nagios()
    first = head(options.subject, nagios.state) + nagios.summary_str
    more = [*nagios.verbose_str, *(f"note: {line}" for line in warnings.lines)]
    return Report(output(first, nagios.perfdata, more, whole=None if options.verbose else WHOLE), nagios.exitcode)


def _plain_report(subject: str, state: ServiceState, text: str) -> Report:
    """A report of one text. If it is too long for the first line, it is repeated in full below."""
    first, *others = text.splitlines() or [""]
    line = head(subject, state) + first
    return Report(output(line, more=[first, *others] if others or len(line) > FIRST_LINE else []), int(state))


def measures(subject: str) -> list[Measure]:
    return [each for each in MEASURES if each.subject == subject]


def thresholds(options: argparse.Namespace, settings: Mapping[str, Thresholds]) -> dict[str, Thresholds]:
    """The ranges of the settings; the command line overrides them."""
    overrides = {
        each.name: {
            level: text
            for level in ("warning", "critical")
            if (text := getattr(options, f"{each.name}_{level}")) is not None
        }
        for each in measures(options.subject)
    }
    return {name: replace(settings[name], **levels) for name, levels in overrides.items()}


class _Warnings(logging.Handler):
    """Collects what is logged: Icinga treats stderr as a part of the output."""

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
    """Prints usage errors to standard output, which Nagios reads."""

    def __init__(self, **other: Any) -> None:
        super().__init__(allow_abbrev=False, **other)

    def error(self, message: str) -> NoReturn:
        sys.stdout.write(output(f"PLIMSOLL UNKNOWN - usage: {message}; see {self.prog} --help"))
        sys.exit(_MISUSED)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.dest == "subject" and value not in SUBJECTS:
            self.error(f"there is no check {value}: use limits, agent or probe")
        super()._check_value(action, value)

    def exit(self, _status: int = 0, message: str | None = None) -> NoReturn:
        sys.stdout.write(message or "")
        sys.exit(_MISUSED)


def parser() -> argparse.ArgumentParser:
    whole = _Parser(
        prog="check_plimsoll",
        description="Checks the results of the last pass and the newest probes. It reads only files.",
        epilog="Exit status: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; 3 also for a wrong command line and for --help.",
    )
    whole.add_argument("--version", action="version", version=f"check_plimsoll {_version()}")
    _add_common(whole)
    subjects = whole.add_subparsers(dest="subject", title="checks", metavar="limits|agent|probe")
    for subject, question in SUBJECTS.items():
        one = subjects.add_parser(subject, help=question, description=question.capitalize())
        _add_common(one, within=True)
        if subject != "agent":
            one.add_argument("--guest", help="only this guest, by its name or UUID")
        if subject == "limits":
            one.add_argument("--volume-type", metavar="NAME", help="only disks of this volume type")
        _add_ranges(one, subject)
    return whole


def _add_common(one: argparse.ArgumentParser, *, within: bool = False) -> None:
    """Options that may stand before the check and after it; ``within``: after it they replace those before."""

    def default(value: object) -> Any:
        return argparse.SUPPRESS if within else value

    one.add_argument(
        "--config-file",
        metavar="FILE",
        type=Path,
        action="append",
        default=default(None),
        help="read FILE instead of /etc/plimsoll/plimsoll.conf; repeatable",
    )
    one.add_argument(
        "--config-dir",
        metavar="DIR",
        type=Path,
        action="append",
        default=default(None),
        help="read DIR/*.conf instead of /etc/plimsoll/plimsoll.conf.d/*.conf; repeatable",
    )
    one.add_argument(
        "--state-dir", metavar="DIR", type=Path, default=default(None), help="instead of state_dir in the settings"
    )
    one.add_argument(
        "--no-data",
        metavar="STATE",
        type=_level,
        default=default(Level.UNKNOWN),
        help="the state while there was no pass yet, the guest is not here, or the state files cannot be read:"
        " unknown (default), critical, warning or ok",
    )
    one.add_argument(
        "-t", "--timeout", metavar="SECONDS", type=_seconds, default=default(TIMEOUT), help=f"default: {TIMEOUT:g}"
    )
    one.add_argument("-v", "--verbose", action="store_true", default=default(False), help="print every line")


def _add_ranges(one: argparse.ArgumentParser, subject: str) -> None:
    ranges = one.add_argument_group(
        "ranges",
        "10 (alarm outside 0 to 10), 5:, ~:10, 5:10 or @5:10, '' for never; they override [health] in the settings",
    )
    for each in measures(subject):
        for level, default in (("warning", each.warning), ("critical", each.critical)):
            ranges.add_argument(
                f"--{each.name.replace('_', '-')}-{level}",
                dest=f"{each.name}_{level}",
                metavar="RANGE",
                type=partial(_range, each.unit),
                help=f"{each.what} (default: {default or 'never'})",
            )


def _range(unit: str, text: str) -> str:
    try:
        return checked_range(text, unit)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _level(text: str) -> Level:
    try:
        return Level[text.upper()]
    except KeyError as error:
        states = ", ".join(level.name.lower() for level in Level)
        raise argparse.ArgumentTypeError(f"{text!r} is not a state: {states}") from error


def _seconds(text: str) -> float:
    try:
        seconds = quantities.read_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not 0.1 <= seconds <= 600:
        raise argparse.ArgumentTypeError(f"must be from 0.1 to 600 seconds, not {text}")
    return seconds


def _version() -> str:
    try:
        return version()
    except ModuleNotFoundError:
        return "(not installed)"
