"""The metrics of probes on their way out."""

from __future__ import annotations

from datetime import datetime

from plimsoll_agent import textfile
from plimsoll_agent.config import Settings
from plimsoll_probes.cli.base import history_of

PRODUCER = "probe"


def write_metrics(settings: Settings, now: datetime) -> None:
    """As the history stands, where the settings say; nowhere without. Raises ``StateError``, ``TextfileError``."""
    directory = settings.metrics.textfile_dir
    if directory is None:
        return
    from plimsoll_probes import metrics  # prometheus_client takes its time to load

    with history_of(settings) as history:
        families = metrics.families(
            history.latest(),
            history.postponed(),
            history.chosen_targets(),
            history.tallies(),
            history.last_good(),
            detail=settings.metrics.detail,
            now=now,
        )
        textfile.write(directory, PRODUCER, families)
