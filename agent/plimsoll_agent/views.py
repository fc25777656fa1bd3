"""Disks and passes as plain data, for ``-f json`` and its like. Keys are stable; units are bytes and seconds."""

from __future__ import annotations

from dataclasses import asdict

from plimsoll_agent.catalogue import Catalogue
from plimsoll_agent.changes import Change
from plimsoll_agent.decide import Unmanaged, Wants
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Braked, Outcome, PassReport
from plimsoll_agent.reason import Unknown

FORMAT_VERSION = 1


def disk_data(disk: Disk) -> dict[str, object]:
    """Who the disk is."""
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


def limits_data(limits: Limits | Unknown | Wants | Unmanaged | None) -> dict[str, int | str] | None:
    """The parameters in effect, ``{}`` when unlimited, None where they are unknown or not wanted."""
    if isinstance(limits, Wants):
        limits = limits.limits
    return limits.in_effect() if isinstance(limits, Limits) else None


def change_data(change: Change) -> dict[str, object]:
    return {
        "before": change.before.in_effect(),
        "after": change.after.in_effect(),
        "direction": change.direction.value,
        "reason": change.reason.as_record(),
        "cause": change.cause.value,
    }


def outcome_data(outcome: Outcome) -> dict[str, object]:
    disk = outcome.disk
    return disk_data(disk) | {
        "in_force": limits_data(disk.in_force),
        "defined": limits_data(disk.defined),
        "drifted": disk.drifted,
        "wanted": limits_data(outcome.decision.wanted),
        "change": None if outcome.change is None else change_data(outcome.change),
        "result": outcome.result.kind.value,
        "reason": outcome.result.reason.as_record(),
        "seconds": round(outcome.result.seconds, 6),
    }


def braked_data(braked: Braked) -> dict[str, object]:
    return {
        "edition": braked.edition,
        "catalogue": braked.catalogue,
        "disks": len(braked.keys),
        "of": braked.of,
        "released": braked.released,
        "loosened": braked.loosened,
        "cut": braked.cut,
        "many": braked.many,
        "alone": {key: reason.as_record() for key, reason in sorted(braked.alone.items())},
        "edits": [asdict(edit) for edit in braked.edits],
    }


def _catalogue_data(known: Catalogue | Unknown | None) -> dict[str, object] | None:
    """None where none counts: not configured, or not known (see the notes)."""
    if not isinstance(known, Catalogue):
        return None
    return {
        "source": known.source,
        "issued": known.issued.isoformat(),
        "generation": known.generation,
        "edition": known.edition,
    }


def report_data(report: PassReport) -> dict[str, object]:
    return {
        "version": FORMAT_VERSION,
        "started": report.started.isoformat(),
        "seconds": round(report.seconds, 6),
        "outcomes": [outcome_data(outcome) for outcome in report.outcomes],
        "overlooked": [
            {
                "guest": overlooked.guest.name,
                "guest_uuid": overlooked.guest.uuid,
                "reason": overlooked.reason.as_record(),
            }
            for overlooked in report.overlooked
        ],
        "catalogue": _catalogue_data(report.situation.catalogue),
        "notes": [note.as_record() for note in report.notes],
        "paused": None if report.paused is None else report.paused.as_record(),
        "braked": None if report.braked is None else braked_data(report.braked),
    }
