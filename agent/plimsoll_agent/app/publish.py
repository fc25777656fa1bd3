"""Publishes the result of a pass over the whole node: its file in the state directory, and its metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from plimsoll_agent.app.consoles import read_consoles
from plimsoll_agent.app.fetched import REGION_FILE
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.messages.sentences import note_words
from plimsoll_agent.model.reason import Code
from plimsoll_agent.monitor import pass_summary, pass_summary_file, textfile, usage_history
from plimsoll_agent.monitor.pass_summary import LastPass, PassSetting
from plimsoll_agent.reconcile.outcome import Mode, Outcome, PassReport
from plimsoll_agent.store import clock
from plimsoll_agent.store.refresh_state import RefreshDir
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.util.distribution import version

LOG = logging.getLogger(__name__)


def counters_clock(settings: Settings) -> Callable[[], float] | None:
    """The clock for reading all disks' counters, which a pass does for metrics only; None without metrics."""
    return None if settings.metrics.textfile_dir is None else clock.uptime


class Publisher:
    """For one pass, which must hold the node's lock."""

    def __init__(self, settings: Settings, state: State, mode: Mode) -> None:
        self._settings = settings
        self._state = state
        self._mode = mode
        self._started = datetime.now(UTC)

    def passed(self, report: PassReport, between: Sequence[Outcome] = ()) -> bool:
        """False if something could not be written, or no disk is found where there were some, which is logged.

        ``between``: what passes over single guests have changed, or failed to, since the pass before.

        Then consoles of guests are read, if the site wants it: in a bounded time, and no pass is worse for it.
        """
        summaries: list[LastPass] = []

        def after(before: LastPass | None) -> LastPass:
            summaries[:] = [pass_summary.fold(before, report, self._setting(tuple(between)))]
            return summaries[0]

        success = _done(lambda: self._publish(after))
        for note in (note for last in summaries for note in last.notes if note.code is Code.NO_DISK_FOUND):
            LOG.error("%s", note_words(note))
            success = False
        _done(lambda: self._read_consoles(report))
        return success

    def failed(self, error: PlimsollError, source: str) -> None:
        """The pass failed because of ``source``."""

        def after(before: LastPass | None) -> LastPass:
            return pass_summary.failed(before, self._mode, str(error), source, self._started, self._setting())

        _done(lambda: self._publish(after))

    def _read_consoles(self, report: PassReport) -> None:
        settings = self._settings.metrics
        if self._settings.consoles.read:
            consoles = read_consoles(self._state, report, datetime.now(UTC))
            if settings.textfile_dir is not None:
                from plimsoll_agent.monitor import (
                    console_metrics,  # with prometheus_client, only for who writes metrics
                )

                families = console_metrics.families(consoles, detail=settings.detail)
                textfile.write(settings.textfile_dir, "console", families)
            return
        # Switched off: what is left would be served, and shown, for ever.
        with suppress(OSError):
            self._state.consoles.unlink(missing_ok=True)
        if settings.textfile_dir is not None:
            textfile.remove(settings.textfile_dir, "console")

    def _setting(self, between: tuple[Outcome, ...] = ()) -> PassSetting:
        refreshes = RefreshDir(self._settings.catalogue.directory).load_notes()
        failures, trouble = refreshes.most_failures
        return PassSetting(
            version=version(),
            boot=self._state.boot,
            ended=datetime.now(UTC),
            stale_after=self._settings.catalogue.stale_after,
            calls=refreshes.calls,
            refreshes_failed=failures,
            refresh_trouble=trouble,
            busy=self._state.busy,
            between=between,
            takes_orders=self._settings.catalogue.source == REGION_FILE,
        )

    def _publish(self, after: Callable[[LastPass | None], LastPass]) -> bool:
        before = self._before()
        last = after(before)
        success = _done(lambda: pass_summary_file.save(self._state, last))
        _done(lambda: usage_history.append(self._state, last))
        # Metrics may be on another file system than the state directory, so they are written in any case.
        summary = last if success else pass_summary.uncounted(before, last)
        return _done(lambda: self._write_metrics(summary)) and success

    def _before(self) -> LastPass | None:
        try:
            return pass_summary_file.load(self._state)
        except StateError as error:
            LOG.warning("%s; starting a new one", error)
            return None

    def _write_metrics(self, last: LastPass) -> None:
        settings = self._settings.metrics
        if settings.textfile_dir is not None:
            from plimsoll_agent.monitor import pass_metrics

            textfile.write(settings.textfile_dir, "pass", pass_metrics.families(last, detail=settings.detail))


def _done(write: Callable[[], bool | None]) -> bool:
    """Whether it succeeded; an error here must not fail the pass, which has done its work."""
    try:
        return write() is not False
    except PlimsollError as error:
        LOG.error("%s", error)
    except Exception as error:
        LOG.error("this is a bug in plimsoll, please report it", exc_info=error)
    return False
