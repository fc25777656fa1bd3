"""Runs all probes of one command, shows and keeps their results, and ends them on a signal."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import TypeVar

from plimsoll_agent.app.node import now_of, state_of
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import ConfigError, PlimsollError
from plimsoll_agent.terminal.base import text_of
from plimsoll_agent.terminal.main import Plimsoll, is_journal
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import printable
from plimsoll_probes.adapters import slots
from plimsoll_probes.adapters.slots import Slot
from plimsoll_probes.app.pick import Pick
from plimsoll_probes.cli.bars import Bars, Lines, Outlet
from plimsoll_probes.execute.runner import Desk, Stopped
from plimsoll_probes.model.finding import GOOD, Verdict
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.output import messages, serialize
from plimsoll_probes.schedule.admission import Admission
from plimsoll_probes.schedule.targets import Target
from plimsoll_probes.store.history import History

LOG = logging.getLogger(__name__)
# A closed terminal must not leave a file in a guest either.
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)

Item = TypeVar("Item")


class Round:
    """The probes of one command. SIGINT, SIGTERM and SIGHUP end the probes, which clean up, and not the process."""

    def __init__(self, app: Plimsoll, settings: Settings, history: History, *, format: str) -> None:
        self._settings = settings
        self._history = history
        self._format = format
        as_text = format == "text"
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._results: list[ProbeResult] = []
        self._postponed: list[Postponed] = []
        self._unkept = False
        self._unexpected = False
        self._out = Outlet(app.stdout)
        terminal = app.stdout.isatty() and as_text
        # A unit's journal and a program need the results only.
        quiet = not as_text or app.options.verbose_level < 1 or is_journal(app.stderr)
        progress = None if quiet else app.stderr
        self._show: Bars | Lines = Bars(self._out) if terminal else Lines(self._out, app.for_journal, progress)
        self.desk = Desk(
            node=socket.gethostname(), settings=settings.probe, keep=self._keep, tell=self._show.tell, stop=self._stop
        )
        self.admission = Admission(self._acquire, one_per_pool=settings.probe.one_per_pool)

    def keep_chosen(self, selection: Pick) -> None:
        """Keep which guests are chosen. Where that fails, they are probed nevertheless."""
        try:
            keep_chosen(self._history, selection)
        except PlimsollError as error:
            self._unkept = True
            LOG.error("%s", error)

    def last_begun(self, now: datetime) -> Mapping[tuple[str, str], datetime]:
        """When the last probe of each target began, by the history; a corrupt history is set aside first.

        Raises ``StateError``, also where the history cannot be written: the timer would then start the same probes
        again at each tick.
        """
        self._prune()
        return self._history.mended(lambda: self._history.last_begun(now))

    def _tell_checks(self) -> None:
        try:
            self._history.show(datetime.now(UTC))
        except PlimsollError as error:
            LOG.error("%s", error)

    def _acquire(self, names: Sequence[str]) -> AbstractContextManager[Slot]:
        probe = self._settings.probe
        longest = max(self.desk.longest_job(), self.desk.longest_fill())
        return slots.acquire(
            probe.coordination, probe.slots, node=self.desk.node, names=names, ttl=slots.lease_for(longest)
        )

    def _keep(self, result: ProbeResult) -> ProbeResult:
        """Keep and show a result; one that cannot be kept is shown nevertheless."""
        with self._lock:
            try:
                result = replace(result, id=self._history.add(result))
            except PlimsollError as error:
                self._unkept = True
                LOG.error("%s", error)
            self._tell_checks()
            self._results.append(result)
        if self._format == "text":
            self._show.say(messages.result_line(result, self._streak(result), self._show.bar))
        return result

    def _streak(self, result: ProbeResult) -> messages.Streak | None:
        try:
            return self._history.streak(result)
        except PlimsollError as error:
            LOG.warning("%s: since when is unknown", error)
            return None

    def go(
        self,
        items: Sequence[Item],
        target: Callable[[Item], Target],
        work: Callable[[Item], Postponed | None],
    ) -> None:
        """Probe the items, as many at a time as the settings allow. Raises ``ConfigError``."""

        def probe(item: Item) -> Postponed | None:
            if self._stop.is_set():
                return None
            try:
                return work(item)
            except Stopped:
                return None
            except ConfigError:
                raise  # it concerns all of them
            except Exception as error:  # guests may answer anything: an unexpected error must affect this one only
                self._report_unexpected(target(item), error)
                return None
            finally:
                self._show.done(target(item).key)

        with self._show, self._heeding_signals():
            for item, postponement in side_by_side(probe, items, self._settings.probe.at_once):
                if postponement is not None:
                    self._postpone(target(item), postponement)
        try:
            self._prune()
        except PlimsollError as error:
            LOG.error("%s", error)

    def _report_unexpected(self, target: Target, error: Exception) -> None:
        self._unexpected = True
        guest = printable(target.guest.name)
        if isinstance(error, PlimsollError):
            LOG.error("%s: %s", guest, error)
        else:
            LOG.error("%s: this is a bug in plimsoll, please report it", guest, exc_info=error)

    def _postpone(self, target: Target, postponement: Postponed) -> None:
        self._postponed.append(postponement)
        try:
            self._history.postpone(postponement)
        except PlimsollError as error:
            self._unkept = True
            LOG.error("%s", error)
        self._tell_checks()
        if self._format == "text":
            guest = messages.guest_words(target.guest.name, target.guest.display_name)
            self._show.say(f"{guest}  {messages.postponed_words(postponement)}")

    def _prune(self) -> None:
        """By the trusted time: a clock that is wrong for one run must remove none. Raises ``StateError``."""
        probe = self._settings.probe
        self._history.prune(now_of(state_of(self._settings)), probe.keep_days, probe.keep_mib)

    @contextmanager
    def _heeding_signals(self) -> Iterator[None]:
        signals: list[int] = []

        def end(number: int, _: FrameType | None) -> None:
            signals.append(number)
            if len(signals) > 1:  # it may interrupt the first, which holds the event's lock
                return
            self._stop.set()
            LOG.warning("%s: stopping the running probes and removing their files", signal.Signals(number).name)

        endings = [one for one in _ENDING if signal.getsignal(one) is not signal.SIG_IGN]  # as under nohup
        before = {number: signal.signal(number, end) for number in endings}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def close(self) -> int:
        """Print what is left; returns the exit status."""
        if self._format != "text":
            data = {
                "results": [serialize.result_data(result) for result in self._results],
                "postponed": [serialize.postponed_data(one) for one in self._postponed],
                "nothing": None,
            }
            self._out.write(f"{text_of(data, self._format)}\n")
            self._out.flush()
        status = self._status()
        return status or 1 if self._out.gone else status

    def _status(self) -> int:
        if self._stop.is_set():
            return 1
        verdicts = {result.finding.verdict for result in self._results}
        loss = self._postponed or self._unkept or self._unexpected
        if verdicts <= set(GOOD) and not loss:
            return 0
        return 1 if verdicts <= {Verdict.FAILED} and not self._postponed else 3


def keep_chosen(history: History, selection: Pick) -> None:
    """Keep which guests are chosen; unreachable ones stay as before. Raises ``StateError``."""
    unsure = [
        *(each.guest.uuid for each in selection.unreachable),
        *(each.guest.uuid for each in selection.chosen.doubts),
    ]
    now = datetime.now(UTC)
    history.chosen(selection.chosen.targets, now, unsure)
    history.show(now)
