"""``plimsoll top``: what each disk does now, and its share of its limits, live or once."""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event, Thread
from typing import Any

from plimsoll_agent.app.live_plan import LivePlan
from plimsoll_agent.app.node import state_of
from plimsoll_agent.cli import top_once as once
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import NotFound, PlimsollError, UsageError
from plimsoll_agent.messages.impacts import NEVER
from plimsoll_agent.model.disk import Disk, guest_of
from plimsoll_agent.model.entries import RecordedChange
from plimsoll_agent.model.hypervisor import Hypervisor
from plimsoll_agent.model.usage import WINDOW
from plimsoll_agent.monitor import usage_history
from plimsoll_agent.monitor.usage_history import PastPass
from plimsoll_agent.reconcile.observe import scope_of
from plimsoll_agent.store import clock, record_query
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.terminal.base import NodeCommand, add_guests
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import time_of
from plimsoll_agent.top import keys as key_map
from plimsoll_agent.top import live as live_view
from plimsoll_agent.top import rewind
from plimsoll_agent.top.keys import About, Explained, Pane, View
from plimsoll_agent.top.live import Contents
from plimsoll_agent.top.rewind import PastMoment
from plimsoll_agent.top.rows import SORTS, Planned, guest_words, rows
from plimsoll_agent.top.sampler import LOOK_AGAIN, Sample, Sampler
from plimsoll_agent.top.screen import Screen
from plimsoll_agent.util.frozen import replace

LOG = logging.getLogger(__name__)
LEAST_INTERVAL = 0.5
_REWIND = timedelta(hours=1)
Earlier = Callable[[Sequence[Disk], datetime], tuple[Sequence[PastPass], str]]
"""What these disks did before a time, by Prometheus, and why that is incomplete, if so. Raises ``PlimsollError``."""
_REDRAW = 0.5
"""Seconds between redraws when no key is pressed."""


class Top(NodeCommand, Listing):
    """Show live what each disk does, what is wrong first.

    It shows each disk's share of its limits.

    Without a terminal, or with --once or -f: a list.

    Exit status:
        0   ended by q or Ctrl-C; as a list: all disks were read
        1   as a list: some disks or guests are unknown, or the rules file is broken
        64  usage

    Examples:
        plimsoll top
        plimsoll top --sort iops --filter shop
        plimsoll top --once --guest instance-00000412
    """

    prints_files = True

    columns = once.COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_guests(parser)
        parser.add_argument(
            "--interval", metavar="SECONDS", default="2", help="time between two readings; default: 2"
        )
        parser.add_argument("--sort", choices=SORTS, default=SORTS[0], help="order of the disks; default: at-limit")
        parser.add_argument("--reverse", action="store_true", help="reverse the order")
        parser.add_argument(
            "--filter",
            metavar="TEXT",
            default="",
            help="only disks with TEXT in the name or ID of guest, server, project, type, disk, volume or image",
        )
        parser.add_argument(
            "--once", action="store_true", help="read twice, one interval apart, list all disks and exit"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        parsed_args.interval = time_of("--interval", parsed_args.interval)
        if not LEAST_INTERVAL <= parsed_args.interval <= WINDOW:
            raise UsageError(f"--interval must be between {LEAST_INTERVAL:g} and {WINDOW:g} seconds")
        self._is_live = is_live(parsed_args)
        settings = self.settings(parsed_args)
        with self.libvirt(settings) as hypervisor:
            scope, at_once = scope_of(hypervisor, parsed_args.guest), settings.bounds.at_once
            # By the clock of passes, whose accounts of bursts are brought forward to these readings.
            sampler = Sampler(hypervisor, scope, clock=clock.uptime, at_once=at_once)
            sampler.check()
            plan = LivePlan(settings, scope)
            if not self._is_live:
                return once.COLUMNS, self._once(parsed_args, sampler, plan)
            self._live(parsed_args, sampler, plan, hypervisor, settings)
        return (), ()

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        return 0 if self._is_live else super().produce_output(parsed_args, column_names, data)

    def _once(self, parsed_args: argparse.Namespace, sampler: Sampler, plan: LivePlan) -> list[Sequence[Any]]:
        sampler.ask()
        time.sleep(parsed_args.interval)
        sampler.ask()
        sample = once.ended(sampler.sample())
        decisions = plan.planned(sample)
        for unreachable in sample.unreachable:
            self.warn_of(guest_words(unreachable))
        if decisions.complaint:
            self.warn_of(decisions.complaint)
        selection = [
            row
            for row in rows(sample, decisions, parsed_args.sort, reverse=parsed_args.reverse)
            if row.means(parsed_args.filter)
        ]
        self.closing = (once.sum_of(selection),)
        self.status = 1 if sample.incomplete or decisions.complaint else 0
        return [once.cells(row) for row in selection if row.usage is not None]

    def earlier(self, parsed_args: argparse.Namespace, settings: Settings) -> Earlier | None:
        """What the screen shows of the time before the last hour; None where nothing is asked."""
        return None

    def sentence(self, settings: Settings, disk: Disk) -> Explained:
        """For the tenant: whether the disk was slow in the last hour, and why. Raises ``PlimsollError``."""
        return no_sentence(disk)

    def _live(
        self,
        parsed_args: argparse.Namespace,
        sampler: Sampler,
        plan: LivePlan,
        hypervisor: Hypervisor,
        settings: Settings,
    ) -> None:
        view = View(sort=parsed_args.sort, reverse=parsed_args.reverse, needle=parsed_args.filter)
        is_measuring = settings.metrics.textfile_dir is not None
        past = Rewind(state_of(settings), self.earlier(parsed_args, settings), is_measuring=is_measuring)
        rounds = Rounds(sampler, plan, parsed_args.interval)
        try:
            with _quiet_logging(), Screen(sys.stdin, sys.stdout, self.colour) as screen:
                explaining = Explaining(plan, hypervisor, partial(self.sentence, settings))
                _show(rounds, explaining, past, screen, view)
        except KeyboardInterrupt:
            return
        finally:
            # Its calls have deadlines, but q must work at once.
            rounds.stop(0.5)


def is_live(parsed_args: argparse.Namespace) -> bool:
    """Whether it fills a terminal: there is one, and no list was asked for."""
    wants_list = parsed_args.once or parsed_args.formatter != "table"
    wants_list = wants_list or parsed_args.columns or parsed_args.sort_columns or parsed_args.wide
    usable = os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return not wants_list and usable and sys.stdin.isatty() and sys.stdout.isatty()


class Rounds:
    """A thread that reads in rounds. A round that takes longer than the interval delays the next."""

    def __init__(self, sampler: Sampler, plan: LivePlan, interval: float) -> None:
        self._sampler = sampler
        self._plan = plan
        self._interval = interval
        self._planned = Planned()
        self._planned_at = -LOOK_AGAIN
        self._ended = Event()
        self._took = 0.0
        self._began: float | None = None
        self._trouble: str | None = None
        self._bug: BaseException | None = None
        self._thread = Thread(target=self._run, name="rounds", daemon=True)
        self._thread.start()

    def shown(self) -> Contents:
        """The present sample. Raises an unexpected error of the thread."""
        if self._bug is not None:
            raise self._bug
        began = self._began
        took = max(self._took, time.monotonic() - began if began is not None else 0.0)
        return Contents(
            sample=self._sampler.sample(),
            at=datetime.now(UTC),
            node=socket.gethostname(),
            interval=self._interval,
            planned=self._planned,
            late=took if took > self._interval else None,
            trouble=self._trouble,
        )

    def stop(self, seconds: float) -> None:
        """End, and wait at most this long for a running call."""
        self._ended.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._round()
                self._ended.wait(self._interval - self._took % self._interval)
        except BaseException as error:  # raised again in ``shown``
            self._bug = error

    def _round(self) -> None:
        self._began = began = time.monotonic()
        try:
            self._sampler.ask()
            self._trouble = None
        except PlimsollError as error:
            self._trouble = str(error)
        self._decide(self._sampler.sample())
        self._took = time.monotonic() - began
        self._began = None

    def _decide(self, sample: Sample) -> None:
        """As often as limits are read, and for new disks."""
        now = time.monotonic()
        new = any(usage.disk.key not in self._planned.outcomes for usage in sample.usages)
        if new or now >= self._planned_at + LOOK_AGAIN:
            self._planned, self._planned_at = self._plan.planned(sample), now


def no_sentence(_: Disk) -> Explained:
    return Explained(title="sentence for the tenant", head=("unknown here",), rows=())


class Explaining:
    """Explains a disk in a thread, so that the screen goes on."""

    def __init__(
        self, plan: LivePlan, hypervisor: Hypervisor, tenant: Callable[[Disk], Explained] = no_sentence
    ) -> None:
        self._plan = plan
        self._hypervisor = hypervisor
        self._tenant = tenant
        self._asked: Pane | None = None
        self._found: tuple[Pane, Explained] | None = None

    def of(self, pane: Pane, sample: Sample) -> Pane:
        """The pane with its explanation once that is there; the first call for it starts a thread."""
        if pane.explained is None and self._found is not None and self._found[0] is pane:
            return replace(pane, explained=self._found[1])
        if pane.explained is None and self._asked is not pane:
            self._asked = pane
            Thread(target=self._find, args=(pane, sample), name="explain", daemon=True).start()
        return pane

    def _find(self, pane: Pane, sample: Sample) -> None:
        try:
            explanation = self._explained(pane, sample)
        except PlimsollError as error:
            explanation = Explained(title="plimsoll disk explain", head=(str(error),), rows=())
        except Exception as error:  # tenants write into definitions: an unexpected error is limited to this disk
            LOG.error("this is a bug in plimsoll, please report it", exc_info=error)
            explanation = Explained(
                title="plimsoll disk explain", head=(f"this is a bug in plimsoll: {error!r}",), rows=()
            )
        self._found = (pane, explanation)

    def _explained(self, pane: Pane, sample: Sample) -> Explained:
        """Raises ``PlimsollError``."""
        if pane.about is About.LIMITS:
            return self._plan.explained(sample, guest_of(pane.key), pane.key, self._hypervisor)
        disk = next((each.disk for each in sample.usages if each.disk.key == pane.key), None)
        if disk is None:
            raise NotFound("the disk is no longer attached")
        return self._tenant(disk)


class Rewind:
    """What a screen shows before now. Read from files at the first step back, and kept until it is live again.

    ``earlier`` is asked in a thread then, for what was before these passes.
    """

    def __init__(self, state: State, earlier: Earlier | None = None, *, is_measuring: bool = True) -> None:
        self._state = state
        self._is_measuring = is_measuring
        self._earlier = earlier
        self._asked: _Asked | None = None
        self._moments: Sequence[PastMoment] | None = None
        self._trouble = ""

    def of(self, view: View, now: Contents) -> tuple[View, Contents]:
        """The view, no further back than passes are known, and what it shows."""
        if not view.back:
            self._moments = self._asked = None
            return view, now
        if self._moments is None:
            self._moments = self._known(now.at)
        if self._earlier is not None and self._asked is None and now.sample.usages:
            until = self._moments[0].of.at if self._moments else now.at
            disks = [usage.disk for usage in now.sample.usages]
            self._asked = _Asked(partial(self._before, self._earlier, disks, until))
        trouble = None
        if self._asked is not None:
            self._moments, trouble = [*self._asked.taken(), *self._moments], self._asked.trouble
        view = replace(view, back=min(view.back, len(self._moments) or 1))
        if not self._moments:
            return view, replace(now, trouble=trouble or self._trouble)
        sample, past = rewind.rewound(self._moments, view.back, now.sample)
        at = past.moment.of.at
        return view, replace(now, sample=sample, at=at, planned=Planned(), past=past, trouble=trouble or now.trouble)

    def _known(self, now: datetime) -> Sequence[PastMoment]:
        why = "no pass of the last hour measured the disks" if self._is_measuring else NEVER
        self._trouble = f"{why}; > goes back to now"
        since = now - _REWIND
        try:
            return rewind.moments(usage_history.recent(self._state, since), self._changes(since))
        except StateError as error:
            self._trouble = str(error)
            return ()

    def _before(self, earlier: Earlier, disks: Sequence[Disk], until: datetime) -> tuple[Sequence[PastMoment], str]:
        """Raises ``PlimsollError``."""
        passes, trouble = earlier(disks, until)
        return rewind.moments(passes, self._changes(passes[0].at, until)) if passes else (), trouble

    def _changes(self, since: datetime, until: datetime | None = None) -> Iterator[RecordedChange]:
        """Raises ``StateError``."""
        entries = record_query.entries(Record(self._state.record), Selection(since=since, until=until))
        return (each for each in entries if isinstance(each, RecordedChange))


class _Asked:
    """What Prometheus has of the time before, once it has answered; ``trouble`` until then, if it fails, and beside
    what is incomplete.
    """

    def __init__(self, ask: Callable[[], tuple[Sequence[PastMoment], str]]) -> None:
        self.trouble: str | None = "Prometheus is asked for the week before"
        self._ask = ask
        self._moments: Sequence[PastMoment] = ()
        Thread(target=self._find, name="earlier", daemon=True).start()

    def taken(self) -> Sequence[PastMoment]:
        """What came since the last call."""
        moments, self._moments = self._moments, ()
        return moments

    def _find(self) -> None:
        try:
            moments, trouble = self._ask()
            nothing = "" if moments else "Prometheus has no sample of these disks in the week before"
            self.trouble = trouble or nothing or None
            self._moments = moments  # the screen's thread may take them at once
        except PlimsollError as error:
            self.trouble = str(error)
        except Exception as error:
            LOG.error("this is a bug in plimsoll, please report it", exc_info=error)
            self.trouble = f"this is a bug in plimsoll: {error!r}"


@contextmanager
def _quiet_logging() -> Iterator[None]:
    """Keeps the log off the screen; its last lines are logged afterwards."""
    root, buffer = logging.getLogger(), _Kept()
    handlers, root.handlers = root.handlers, [buffer]
    try:
        yield
    finally:
        root.handlers = handlers
        for entry in buffer.entries:
            logging.getLogger(entry.name).handle(entry)


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.entries: deque[logging.LogRecord] = deque(maxlen=10)

    def emit(self, record: logging.LogRecord) -> None:
        self.entries.append(record)


def _show(rounds: Rounds, explaining: Explaining, past: Rewind, screen: Screen, view: View) -> None:
    snapshot = rounds.shown()
    while True:
        if not view.paused:
            snapshot = rounds.shown()
        if view.pane is not None and view.pane.about is not About.HOLD:
            before, pane = view.pane, explaining.of(view.pane, snapshot.sample)
            view = replace(view, pane=pane)
            if before.explained is None and pane.explained is not None and pane.explained.copy:
                screen.copy(pane.explained.copy)
        view, contents = past.of(view, snapshot)
        picture = live_view.screen(contents, view, *screen.size)
        view = picture.view
        screen.draw(picture.lines)
        keystrokes = screen.keys(_REDRAW, key_map.unfinished)
        if keystrokes is None:
            return
        for key in key_map.keys(keystrokes):
            after = key_map.press(view, key, picture.shape)
            if after is None:
                return
            view = after
