"""What Ceph's status and its cluster log had at a moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from plimsoll_agent.errors import Rejected
from plimsoll_agent.util.ceph_json import are_of_monitors
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

_LONGEST = 500
_SLOW = ("SLOW_OPS", "REQUEST_SLOW", "REQUEST_STUCK")
"""The last two in Luminous and Mimic: a stuck request is no slow one there."""
_PEERING = ("peering", "activating")
_UNCLEAN = ("degraded", "undersized", "recover", "backfill", "remapped", "inconsistent")


@frozen(kw_only=True)
class ClusterCounts:
    """Counts of one moment. Ceph has a rate of recovery, and counts of degraded copies, only while there is any."""

    osds: int
    up: int
    within: int
    """``in``."""
    states: Mapping[str, int]
    """Placement groups by their state."""
    objects: int
    degraded: int
    """Copies that are missing."""
    misplaced: int
    copies: int
    """Of which these are some; 0 while none is."""
    recovering: float
    """Objects a second."""
    slow: int | None
    """Slow requests; None where a check tells of some without their number."""
    checks: tuple[str, ...] = ()

    @property
    def peering(self) -> int:
        """Placement groups that agree on what is newest."""
        return sum(n for state, n in self.states.items() if any(word in state for word in _PEERING))

    @property
    def inactive(self) -> int:
        """Placement groups that serve no request."""
        return sum(n for state, n in self.states.items() if "active" not in state.split("+"))

    @property
    def unclean(self) -> int:
        """Placement groups that are not in sync on all their OSDs."""
        return sum(
            n for state, n in self.states.items()
            if "clean" not in state.split("+") or any(word in state for word in _UNCLEAN)
        )  # fmt: skip

    @property
    def is_well(self) -> bool:
        """No sign that guests wait for it. Without an active manager placement groups and slow requests are those
        of its last report.
        """
        return self.up >= self.within and not self.unclean and self.slow == 0 and "MGR_DOWN" not in self.checks


@frozen(kw_only=True)
class LogLine:
    """A line of the cluster's log."""

    time: float
    who: str
    number: int
    level: str
    text: str


def status(text: str) -> ClusterCounts:
    """Of ``ceph status`` as JSON, since Luminous. Raises ``Rejected``."""
    try:
        document = json.loads(text)
        osds, groups, checks = document["osdmap"], document["pgmap"], document["health"]["checks"]
        osds = osds.get("osdmap", osds)  # before Octopus
        return ClusterCounts(
            osds=int(osds["num_osds"]),
            up=int(osds["num_up_osds"]),
            within=int(osds["num_in_osds"]),
            states={str(each["state_name"]): int(each["count"]) for each in groups["pgs_by_state"]},
            objects=int(groups.get("num_objects", 0)),
            degraded=int(groups.get("degraded_objects", 0)),
            misplaced=int(groups.get("misplaced_objects", 0)),
            copies=int(groups.get("degraded_total", groups.get("misplaced_total", 0))),
            recovering=float(groups.get("recovering_objects_per_sec", 0)),
            slow=_slow(checks),
            checks=tuple(sorted(map(str, checks))),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Rejected(f"ceph status cannot be read: {type(error).__name__}: {str(error)[:100]}") from error


def _slow(checks: Mapping[str, Any]) -> int | None:
    """By the first word of ``3 slow ops, oldest one blocked for 31 sec``: the count of the check is always 1.

    A first report of Tentacle has ``0 slow ops, oldest one blocked for 6 sec``: of at least one.
    """
    messages = [str(checks[name]["summary"]["message"]) for name in _SLOW if name in checks]
    words = [each.split(" ")[0] for each in messages if not are_of_monitors(each)]
    return sum(max(int(word), 1) for word in words) if all(word.isdigit() for word in words) else None


def log(text: str) -> list[LogLine]:
    """Of ``ceph log last`` as JSON. Raises ``Rejected``."""
    try:
        entries = json.loads(text)
        if not isinstance(entries, list):
            raise ValueError("not a list")
        return [
            LogLine(
                time=datetime.fromisoformat(str(each["stamp"])).timestamp(),
                who=printable(str(each["name"]))[:_LONGEST],
                number=int(each["seq"]),
                level=str(each["priority"]).strip("[]")[:10],
                text=printable(str(each["message"]).strip())[:_LONGEST],
            )
            for each in entries
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Rejected(f"ceph log last cannot be read: {type(error).__name__}: {str(error)[:100]}") from error
