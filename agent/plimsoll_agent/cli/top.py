"""``plimsoll top``: what each disk does now against its limit, again and again, or once."""

from __future__ import annotations

import argparse
import codecs
import json
import logging
import os
import select
import shutil
import signal
import socket
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from threading import Event, Thread
from types import FrameType

from rich.console import Console, Group
from rich.live import Live

from plimsoll_agent.cli import topview
from plimsoll_agent.cli.base import NodeCommand
from plimsoll_agent.cli.topview import Shown, View
from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.outcome import Scope
from plimsoll_agent.sampler import Sampler
from plimsoll_agent.usage import WINDOW

LEAST_INTERVAL = 0.5
_AT_A_PIPE = 240
"""Columns where there is no terminal that has a width."""


class Top(NodeCommand):
    """Show what each disk does now against its limit, closest to the wall first. Needs a terminal, or --once."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--guest", metavar="GUEST", action="append", default=[], help="only this guest, by libvirt's name or uuid"
        )
        parser.add_argument(
            "--interval", metavar="SECONDS", type=float, default=2.0, help="between two readings; 2 unless given"
        )
        parser.add_argument(
            "--sort", choices=topview.SORTS, default=topview.SORTS[0], help="by what; wall unless given"
        )
        parser.add_argument(
            "--filter",
            metavar="TEXT",
            default="",
            help="only what has this in the name or id of its guest, disk, volume, image or project",
        )
        parser.add_argument("--once", action="store_true", help="read twice, an interval apart, print all and leave")
        parser.add_argument("-f", "--format", choices=("text", "json"), help="with --once; text unless given")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        interval: float = parsed_args.interval
        if not LEAST_INTERVAL <= interval <= WINDOW:
            raise UsageError(f"--interval must be between {LEAST_INTERVAL:g} and {WINDOW:g} seconds")
        if not parsed_args.once:
            self._check_terminal(parsed_args)
        settings = self.settings(parsed_args)
        with self.libvirt(settings) as hypervisor:
            scope, at_once = Scope(frozenset(parsed_args.guest)), settings.bounds.at_once
            sampler = Sampler(hypervisor, scope, clock=time.monotonic, at_once=at_once)
            sampler.check()
            if parsed_args.once:
                self._once(parsed_args, sampler)
            else:
                self._live(parsed_args, sampler)

    def _check_terminal(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.format:
            raise UsageError("-f goes with --once")
        ours = sys.stdin.isatty() and sys.stdout.isatty()
        if not ours or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
            raise UsageError("top needs a terminal; without one use: plimsoll top --once")

    def _once(self, parsed_args: argparse.Namespace, sampler: Sampler) -> None:
        sampler.ask()
        time.sleep(parsed_args.interval)
        sampler.ask()
        shown = _now(sampler, parsed_args.interval)
        found = topview.rows(shown.sample, parsed_args.sort, parsed_args.filter)
        if parsed_args.format == "json":
            json.dump(topview.sample_data(shown, found), self.app.stdout, indent=2)
            self.app.stdout.write("\n")
        else:
            width = shutil.get_terminal_size((_AT_A_PIPE, 24)).columns
            console = Console(file=self.app.stdout, width=width, highlight=False)
            for line in (*topview.head(shown, width), *topview.table(found, width)):
                line.rstrip()
                console.print(line, soft_wrap=True)
        self.status = 1 if shown.sample.incomplete else 0

    def _live(self, parsed_args: argparse.Namespace, sampler: Sampler) -> None:
        view = View(sort=parsed_args.sort, needle=parsed_args.filter)
        rounds = Rounds(sampler, parsed_args.interval)
        try:
            with _quiet_logging(), _keys() as keyboard:
                _show(rounds, keyboard, view)
        finally:
            # Its calls have deadlines; a person who pressed q does not wait for them.
            rounds.stop(0.5)


def _now(sampler: Sampler, interval: float, late: float | None = None, trouble: str | None = None) -> Shown:
    return Shown(sampler.sample(), datetime.now().astimezone(), socket.gethostname(), interval, late, trouble)


class Rounds:
    """A thread that asks in rounds. One that takes longer than the interval puts off the next."""

    def __init__(self, sampler: Sampler, interval: float) -> None:
        self._sampler = sampler
        self._interval = interval
        self._ended = Event()
        self._took = 0.0
        self._began: float | None = None
        self._trouble: str | None = None
        self._bug: BaseException | None = None
        self._thread = Thread(target=self._run, name="rounds", daemon=True)
        self._thread.start()

    def shown(self) -> Shown:
        """What is known now. Raises what nobody foresaw in the rounds."""
        if self._bug is not None:
            raise self._bug
        began = self._began
        took = max(self._took, time.monotonic() - began if began is not None else 0.0)
        return _now(self._sampler, self._interval, took if took > self._interval else None, self._trouble)

    def stop(self, seconds: float) -> None:
        """End, and wait so many seconds at the most for a call that is under way."""
        self._ended.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._round()
                self._ended.wait(self._interval - self._took % self._interval)
        except BaseException as error:  # raised again where the screen is
            self._bug = error

    def _round(self) -> None:
        self._began = began = time.monotonic()
        try:
            self._sampler.ask()
            self._trouble = None
        except PlimsollError as error:
            self._trouble = str(error)
        self._took = time.monotonic() - began
        self._began = None


@dataclass(frozen=True, slots=True)
class Keyboard:
    """The terminal's keys, as they are pressed."""

    descriptor: int
    decoder: codecs.IncrementalDecoder

    def wait(self, seconds: float) -> list[str] | None:
        """The keys that were pressed meanwhile; None when the terminal is gone."""
        typed = ""
        while select.select([self.descriptor], [], [], 0.05 if typed else seconds)[0]:
            try:
                sent = os.read(self.descriptor, 1024)
            except OSError:
                return None
            if not sent:
                return None
            typed += self.decoder.decode(sent)
            if not topview.unfinished(typed):
                break
        return topview.keys(typed)


@contextmanager
def _keys() -> Iterator[Keyboard]:
    """Keys without Enter and without an echo; the terminal is as it was afterwards, however this ends."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    handlers = {one: signal.signal(one, _leave) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setcbreak(descriptor)
        now = termios.tcgetattr(descriptor)
        now[6][termios.VSUSP] = b"\0"  # Ctrl-Z would leave a shell on the other screen, and without an echo
        termios.tcsetattr(descriptor, termios.TCSANOW, now)
        yield Keyboard(descriptor, codecs.getincrementaldecoder("utf-8")(errors="replace"))
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for one, handler in handlers.items():
            signal.signal(one, handler)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextmanager
def _quiet_logging() -> Iterator[None]:
    """Keeps the log off the screen; what was said last is said afterwards."""
    root, kept = logging.getLogger(), _Kept()
    handlers, root.handlers = root.handlers, [kept]
    try:
        yield
    finally:
        root.handlers = handlers
        for entry in kept.entries:
            logging.getLogger(entry.name).handle(entry)


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.entries: deque[logging.LogRecord] = deque(maxlen=10)

    def emit(self, record: logging.LogRecord) -> None:
        self.entries.append(record)


def _show(rounds: Rounds, keyboard: Keyboard, view: View) -> None:
    console = Console(highlight=False)
    shown = rounds.shown()
    try:
        with Live(
            console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        ) as live:
            while True:
                if not view.paused:
                    shown = rounds.shown()
                width, height = console.size
                lines = topview.screen(shown, view, width, height)
                live.update(Group(*lines), refresh=True)
                pressed = keyboard.wait(_REDRAW)
                if pressed is None:
                    return
                for key in pressed:
                    page, number = topview.page_of(shown, height), len(topview.rows(shown.sample, needle=view.needle))
                    after = topview.press(view, key, page=page, rows=number)
                    if after is None:
                        return
                    view = after
    except KeyboardInterrupt:
        return


_REDRAW = 0.5
"""Seconds until the screen is drawn anew when no key is pressed."""
