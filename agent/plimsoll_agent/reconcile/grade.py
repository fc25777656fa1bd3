"""Grades a pass, for exit status, ``status``, metrics and rollouts alike. Pure."""

from __future__ import annotations

from enum import StrEnum

from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.reconcile.outcome import Kind, Mode, PassReport


class Grade(StrEnum):
    GOOD = "good"
    """It did all that was desired."""
    PARTIAL = "partial"
    """Something was not done, or is unknown."""
    FAILED = "failed"
    """There was no pass: the guests could not be listed."""


def grade(report: PassReport) -> Grade:
    """A pass is good unless

    - it used the last good rules instead of the current ones,
    - a disk or guest failed or is unknown (but for disks that were attached after the catalogue was read),
    - the catalogue is unknown,
    - it has notes, about state, clock or catalogue, or
    - in mode enforce, a change is deferred.
    """
    doubtful = _failed(report) or report.unknown > 0 or bool(report.complaint or report.notes)
    any_deferred = report.braked is not None or report.count(Kind.DEFERRED) > 0
    return Grade.PARTIAL if doubtful or (report.mode is Mode.ENFORCE and any_deferred) else Grade.GOOD


def exit_status(report: PassReport) -> int:
    """Of ``enforce``: 1 on the last good rules, where all disks failed, or where nothing was written after the first;
    4 where the brake deferred changes, also of a good pass in mode observe; else 3 unless it is good. Of ``plan``:
    1 on the last good rules, after a failure or without a valid catalogue; 4 where the brake would defer changes; 2
    for other changes; 3 where only the desired limits of a disk are unknown, also of an acknowledged
    one, if it has lost its limits.
    """
    brake, plan = report.braked is not None, report.mode is Mode.PLAN
    any_settled = brake or report.count(Kind.CHANGED, Kind.IN_SYNC, Kind.PLANNED, Kind.DEFERRED)
    no_trial = any(note.code is Code.TRIAL_FAILED for note in report.notes)
    if report.complaint or no_trial or (_failed(report) if plan else report.failures and not any_settled):
        return 1
    if brake:
        return 4
    if plan:
        any_unknown = report.unknown > 0 or any(outcome.missed is not None for outcome in report.outcomes)
        return 2 if report.count(Kind.PLANNED, Kind.DEFERRED) else 3 if any_unknown else 0
    return 0 if grade(report) is Grade.GOOD else 3


def _failed(report: PassReport) -> bool:
    return report.failures > 0 or isinstance(report.situation.catalogue, Unknown)
