"""Whether there were slow requests: three answers, as what could not be read is not nothing."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.osd_count import OsdCount


class SlowAnswer(StrEnum):
    NONE = "none"
    SOME = "some"
    CANNOT_TELL = "cannot tell"


def is_some(count: OsdCount) -> bool:
    return bool(count.total or count.least or count.stalls)


def answer_of(reading: LogReading, counts: Counts, unknown: Sequence[str] = ()) -> SlowAnswer:
    """``unknown``: what of a running cluster is unknown."""
    if counts.by_monitor.number or counts.by_monitor.stalls or any(is_some(each) for each in counts.osds.values()):
        return SlowAnswer.SOME
    may_be_of_window = reading.clock.is_guessed and not reading.is_all_asked
    if reading.missed or reading.foreign or unknown or may_be_of_window or not reading.telling:
        return SlowAnswer.CANNOT_TELL
    return SlowAnswer.NONE
