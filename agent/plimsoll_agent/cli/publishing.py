"""What a pass over the whole node leaves for others to see: its file in the state directory, and its metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version

from plimsoll_agent import lastpass, passfile
from plimsoll_agent.catalogue import Catalogue
from plimsoll_agent.config import Settings
from plimsoll_agent.decide import Situation
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.lastpass import LastCatalogue, LastPass, Setting
from plimsoll_agent.outcome import PassReport
from plimsoll_agent.passes import Mode
from plimsoll_agent.refreshdir import RefreshDir
from plimsoll_agent.state import State, StateError

LOG = logging.getLogger(__name__)


def counters_clock(settings: Settings) -> Callable[[], float] | None:
    """The clock by which a pass reads the disks' counters, which it does for the metrics alone."""
    if settings.metrics.textfile_dir is None:
        return None
    return lambda: time.clock_gettime(time.CLOCK_BOOTTIME)  # goes on while the node sleeps, and is never set


class Publisher:
    """For one pass, which holds the node's lock."""

    def __init__(self, settings: Settings, state: State, mode: Mode) -> None:
        self._settings = settings
        self._state = state
        self._mode = mode
        self._started = datetime.now(UTC)

    def passed(self, report: PassReport, complaint: str | None) -> bool:
        """False where something of it could not be written, which is said."""

        def after(before: LastPass | None) -> LastPass:
            setting = self._setting(complaint or "", self._catalogue(report.situation))
            return lastpass.fold(before, report, setting)

        return _done(lambda: self._publish(after))

    def failed(self, error: PlimsollError, source: str) -> None:
        """There was no pass, since ``source`` let it not be."""

        def after(before: LastPass | None) -> LastPass:
            return lastpass.failed(before, str(error), source, self._started, self._setting("", None))

        _done(lambda: self._publish(after))

    def _catalogue(self, situation: Situation) -> LastCatalogue | None:
        settings, known = self._settings.catalogue, situation.catalogue
        if settings.source == "none":
            return None
        if isinstance(known, Catalogue):
            return LastCatalogue(known.issued, known.source, settings.old_after)
        return LastCatalogue(None, "", settings.old_after)

    def _setting(self, complaint: str, catalogue: LastCatalogue | None) -> Setting:
        return Setting(
            version=version("plimsoll-agent"),
            boot=self._state.boot,
            enforcing=self._mode is Mode.ENFORCE,
            ended=datetime.now(UTC),
            complaint=complaint,
            catalogue=catalogue,
            calls=RefreshDir(self._settings.catalogue.directory).load_notes().calls,
            busy=self._state.busy,
        )

    def _publish(self, after: Callable[[LastPass | None], LastPass]) -> bool:
        before = self._before()
        last = after(before)
        saved = _done(lambda: passfile.save(self._state, last))
        # A full disk under the one is no reason to say nothing in the other.
        told = last if saved else lastpass.uncounted(before, last)
        return _done(lambda: self._write_metrics(told)) and saved

    def _before(self) -> LastPass | None:
        try:
            return passfile.load(self._state)
        except StateError as error:
            LOG.warning("%s; it is begun anew", error)
            return None

    def _write_metrics(self, last: LastPass) -> None:
        settings = self._settings.metrics
        if settings.textfile_dir is not None:
            from plimsoll_agent import metrics, textfile  # 60 ms, for who wants them

            textfile.write(settings.textfile_dir, "pass", metrics.families(last, detail=settings.detail))


def _done(write: Callable[[], bool | None]) -> bool:
    """Whether it came off; the pass has done its work by then, and goes to its end whatever happens here."""
    try:
        return write() is not False
    except PlimsollError as error:
        LOG.error("%s", error)
    except Exception as error:
        LOG.error("this is a bug in plimsoll, please report it", exc_info=error)
    return False
