"""Disks and passes as plain data, as for ``-f json``. Keys are stable; units are bytes and seconds."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.messages.sums import counts
from plimsoll_agent.model.direction import drains
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import TAKEN, RecordedChange
from plimsoll_agent.model.impact import Impact
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.policy.decide import Desired, Unmanaged
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile.outcome import Braked, Kind, Outcome, PassReport
from plimsoll_agent.util.frozen import asdict

FORMAT_VERSION = 2
Impacts = Mapping[str, Impact | None]
"""As ``Manner`` has them."""
_NO_IMPACTS: Impacts = {}


def disk_data(disk: Disk) -> dict[str, object]:
    """The identity of the disk."""
    guest = disk.guest
    return {
        "guest": guest.name,
        "guest_uuid": guest.uuid,
        "display_name": guest.display_name,
        "project": guest.project,
        "project_name": guest.project_name,
        "user": guest.user,
        "flavor": guest.flavor,
        "disk": disk.target,
        "bus": disk.bus,
        "volume": disk.volume_id,
        "pool": disk.pool,
        "namespace": disk.namespace,
        "image": disk.image,
        "volume_type": disk.volume_type,
        "size": disk.size,
        "encrypted": disk.encrypted,
        "shareable": disk.shareable,
        "cluster": disk.cluster,
        "monitors": list(disk.monitors),
    }


def limits_data(limits: Limits | Unknown | Desired | Unmanaged | None) -> dict[str, int | str] | None:
    """The parameters in effect, ``{}`` when unlimited, None if unknown or not desired."""
    if isinstance(limits, Desired):
        limits = limits.limits
    return limits.in_effect() if isinstance(limits, Limits) else None


def change_data(change: Change) -> dict[str, object]:
    return {
        "before": change.before.in_effect(),
        "after": change.after.in_effect(),
        "direction": change.direction.value,
        "drains": drains(change.before, change.after),
        "reason": change.reason.as_record(),
        "cause": change.cause.value,
    }


def state_reason_data(outcome: Outcome, past: RecordedChange | None = None) -> dict[str, object]:
    """The reason of the state: of a planned change what is behind it (``past`` too), else of the result."""
    reason = outcome.result.reason.as_record()
    if outcome.acknowledged is not None:
        return reason | {"acknowledged": outcome.acknowledged.as_record()}
    if outcome.result.kind is not Kind.PLANNED or outcome.change is None:
        return reason
    if past is not None and past.result in TAKEN:
        return reason | {"cause": Code.UNDONE.value, "undone_at": past.at.isoformat(), "undone_by": past.by}
    reason |= {"cause": outcome.change.cause.value}
    if past is not None and past.result is not None:
        reason |= {"last_result": past.result.value, "failed_since": past.at.isoformat(), "failed_times": past.times}
        reason |= {"detail": past.detail} if past.detail else {}
    return reason


def outcome_data(outcome: Outcome, impacts: Impacts = _NO_IMPACTS) -> dict[str, object]:
    disk, key = outcome.after, outcome.disk.key
    return disk_data(disk) | {
        "actual": limits_data(disk.in_force),
        "defined": limits_data(disk.defined),
        "drifted": disk.drifted,
        "desired": limits_data(outcome.decision.desired),
        "change": None if outcome.change is None else change_data(outcome.change),
        "impact": impact_data(impacts[key]) if key in impacts else None,
        "result": outcome.result.kind.value,
        "reason": outcome.result.reason.as_record(),
        "acknowledged": None if outcome.acknowledged is None else outcome.acknowledged.as_record(),
        "seconds": round(outcome.result.seconds, 6),
    }


def braked_data(brake: Braked) -> dict[str, object]:
    return {
        "revision": brake.revision,
        "catalogue": brake.catalogue,
        "disks": len(brake.keys),
        "of": brake.of,
        "removed": brake.removed,
        "raised": brake.raised,
        "lowered": brake.lowered,
        "low": brake.low,
        "added": brake.added,
        "managed": brake.managed,
        "unmanaged": brake.unmanaged,
        "many": brake.many,
        "alone": {key: reason.as_record() for key, reason in sorted(brake.alone.items())},
        "edits": [asdict(edit) for edit in brake.edits],
        "earlier": [asdict(each) | {"at": each.at.isoformat()} for each in brake.earlier],
    }


def _catalogue_data(catalogue: Catalogue | Unknown | None) -> dict[str, object] | None:
    """None if there is no usable one: not configured, or unknown (see the notes)."""
    if not isinstance(catalogue, Catalogue):
        return None
    return {
        "source": catalogue.source,
        "issued": catalogue.issued.isoformat(),
        "generation": catalogue.generation,
        "revision": catalogue.revision,
    }


def impact_data(impact: Impact | None) -> dict[str, object]:
    """All but the seconds are null where the disk's use is unknown."""
    if impact is None:
        return {"known_seconds": 0, "at_limit": None, "limit": None, "present": None}
    return {
        "known_seconds": round(impact.seconds),
        "at_limit": round(impact.share, 4),
        "limit": impact.base,
        "present": round(impact.present, 3),
    }


def report_data(report: PassReport, impacts: Impacts = _NO_IMPACTS) -> dict[str, object]:
    return {
        "version": FORMAT_VERSION,
        "started": report.started.isoformat(),
        "seconds": round(report.seconds, 6),
        "counts": counts(report),
        "outcomes": [outcome_data(outcome, impacts) for outcome in report.outcomes],
        "unreachable": [
            {
                "guest": unreachable.guest.name,
                "guest_uuid": unreachable.guest.uuid,
                "reason": unreachable.reason.as_record(),
                "listed": unreachable not in report.unreachable,
            }
            for unreachable in report.unreachable_guests
        ],
        "catalogue": _catalogue_data(report.situation.catalogue),
        "notes": [note.as_record() for note in report.notes],
        "complaint": report.complaint or None,
        "paused": None if report.paused is None else report.paused.as_record(),
        "large": {"disks": report.large, "of": report.considered},
        "braked": None if report.braked is None else braked_data(report.braked),
    }
