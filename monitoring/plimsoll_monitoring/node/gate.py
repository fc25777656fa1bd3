"""Whether a rollout may continue after this node: its status, held against what is tolerated."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from plimsoll_agent.monitor.thresholds import Level
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable
from plimsoll_monitoring.node.health import NEVER_PASSED, JudgedFigure, words
from plimsoll_monitoring.node.status import NodeStatus
from plimsoll_probes.output.serialize import time_data

FORMAT_VERSION = 1
LASTING = frozenset(("braked", "paused"))
"""Figures that no further pass corrects: they need an operator."""
BY_NAME = frozenset(("failed", "probe_broken", "sources_down", "unlimited"))
"""What a bad version or bad settings would cause: these warnings are tolerated only by their names."""
CONGESTION = "congestion"
"""A source that gives no limit: without it nothing is reduced. Its publisher is that of all nodes."""
OF_OBSERVING = frozenset(("behind", "unlimited"))
"""In mode observe nothing is written, so these are expected."""


@frozen
class Tolerance:
    """What does not make a node unhealthy. Nothing tolerates a critical figure."""

    figures: frozenset[str] = frozenset()
    """Figures that may be a warning or unknown."""
    warnings: bool = False
    """Any other figure may be a warning, but for ``BY_NAME``."""

    def passes(self, finding: JudgedFigure, *, observing: bool) -> bool:
        name, level = finding.measure.name, finding.level
        if level in (Level.OK, Level.CRITICAL):
            return level is Level.OK
        if name == "sources_down" and finding.figure.about == CONGESTION:
            return True
        if name in self.figures or (observing and name in OF_OBSERVING):
            return True
        return level is Level.WARNING and self.warnings and name not in BY_NAME


@frozen
class Requirements:
    """What a node must be like."""

    version: str
    """The version of plimsoll that must have made the last pass."""
    since: datetime | None = None
    """The last pass must have started at this time or later."""
    tolerance: Tolerance = Tolerance()


@frozen(kw_only=True)
class NodeFault:
    """Why a node is not healthy. ``figure`` is "" for a pass or a file."""

    level: Level
    figure: str
    text: str
    do: str = ""

    @property
    def words(self) -> str:
        """With the figure's name, by which it can be tolerated."""
        return f"{self.figure}: {self.text}" if self.figure else self.text


def faults(status: NodeStatus, needs: Requirements) -> tuple[NodeFault, ...]:
    """Empty for a healthy node; else the faults of the pass, then those of figures, the worst first."""
    wrong = [NodeFault(level=Level.UNKNOWN, figure="", text=each.text) for each in status.trouble]
    last = status.last
    if last is None:
        none = NodeFault(level=Level.UNKNOWN, figure="", text=NEVER_PASSED, do=status.setup.no_pass())
        return tuple(wrong) if "pass" in status.complaints else (*wrong, none)
    if needs.since is not None and last.started < needs.since:
        when = f"{time_data(last.started)}, before {time_data(needs.since)}"
        wrong.append(
            NodeFault(level=Level.UNKNOWN, figure="", text=f"there was no pass: the last one started at {when}")
        )
    elif last.version != needs.version:
        by = f"the last pass was made by plimsoll {printable(last.version)}, not by {needs.version}"
        wrong.append(NodeFault(level=Level.UNKNOWN, figure="", text=by))
    # Not those of status.problems(): there a disk of two figures stands with one, which may be tolerated.
    out = [each for each in status.judgement.wrong if not needs.tolerance.passes(each, observing=not last.enforcing)]
    if last.trouble:
        # Without a pass other figures are out of their ranges too, so only the cause is told.
        wrong.append(
            NodeFault(level=Level.CRITICAL, figure="", text=printable(last.trouble), do=status.setup.no_pass())
        )
        out = [each for each in out if each.measure.name in LASTING]
    return (
        *wrong,
        *(NodeFault(level=each.level, figure=each.measure.name, text=words(each), do=each.figure.do) for each in out),
    )


def data(status: NodeStatus, wrong: Sequence[NodeFault], passes: int) -> dict[str, object]:
    """``passes``: how many were made for it. Times are in UTC."""
    last = status.last
    return {
        "version": FORMAT_VERSION,
        "healthy": not wrong,
        "faults": [
            {
                "level": fault.level.name.lower(),
                "figure": fault.figure or None,
                "text": fault.text,
                "next": fault.do or None,
            }
            for fault in wrong
        ],
        "passes": passes,
        "pass": None
        if last is None
        else {
            "plimsoll": last.version,
            "started": time_data(last.started),
            "ended": time_data(last.ended),
            "enforcing": last.enforcing,
        },
    }
