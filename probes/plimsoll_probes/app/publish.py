"""Writes the metrics of probes."""

from __future__ import annotations

from datetime import datetime

from plimsoll_agent.config.settings import Settings
from plimsoll_agent.monitor import textfile
from plimsoll_probes.app.history import history_of

PRODUCER = "probe"


def write_metrics(settings: Settings, now: datetime, *, by_timetable: bool) -> None:
    """Write them, if ``[metrics]`` has a directory. Raises ``StateError``, ``TextfileError``."""
    directory = settings.metrics.textfile_dir
    if directory is None:
        return
    from plimsoll_probes.output import metrics  # with prometheus_client, only for who writes metrics

    with history_of(settings) as history:
        families = metrics.families(
            history.latest(),
            history.postponed(),
            history.chosen_targets(),
            history.tallies(),
            history.last_good(),
            detail=settings.metrics.detail,
            now=now,
            by_timetable=by_timetable,
            since=lambda result: None if (streak := history.streak(result)) is None else streak[0],
        )
        textfile.write(directory, PRODUCER, families)
