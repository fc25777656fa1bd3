"""What disks of this node did lately, beside the limits that they may get."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from plimsoll_agent.model.impact import Impact, impact, tightened_bases
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.monitor import usage_history
from plimsoll_agent.store.state import State, StateError

LOG = logging.getLogger(__name__)


def impacts_of(state: State, changes: Mapping[str, tuple[Limits, Limits]]) -> dict[str, Impact | None]:
    """By ``Disk.key``, for each of ``changes`` (before, after) that limits something more: None where its use is
    unknown. The history is read only where there is one; if it cannot be read, a warning says so.
    """
    cuts = {key: limits for key, limits in changes.items() if tightened_bases(*limits)}
    if not cuts:
        return {}
    try:
        averages = usage_history.averages(state, cuts)
    except StateError as error:
        LOG.warning("%s; what disks used is unknown", error)
        averages = {}
    return {key: impact(*limits, averages.get(key, ())) for key, limits in cuts.items()}
