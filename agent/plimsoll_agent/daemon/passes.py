"""The passes of the daemon: over one guest, and over the whole node as ``enforce`` does it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress

from plimsoll_agent.app.congestion_following import Follow
from plimsoll_agent.app.guest_pass import pass_over
from plimsoll_agent.app.node_pass import pass_over_node
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.daemon.connections import Connections
from plimsoll_agent.daemon.schedule import PassResult
from plimsoll_agent.daemon.workers import FullPassResult, Progress
from plimsoll_agent.errors import NoSuchGuest, PlimsollError, Unreachable
from plimsoll_agent.model.reason import Code
from plimsoll_agent.reconcile.observe import MOVING
from plimsoll_agent.reconcile.outcome import Kind, Outcome, PassReport
from plimsoll_agent.rules.loader import Read
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.store.state import Busy, NotAtRest
from plimsoll_agent.util import schema

LOG = logging.getLogger(__name__)

_MOST_BETWEEN = 10_000
_POSTPONED = (*MOVING.values(), Code.NOT_SENT)
"""Nothing may tell when this ends: for a migration that is cancelled, libvirt has no event for certain."""


class Between:
    """What passes over single guests have changed, or failed to, until a pass over the node counts it."""

    def __init__(self) -> None:
        self._outcomes: deque[Outcome] = deque(maxlen=_MOST_BETWEEN)

    def note(self, outcome: Outcome) -> None:
        if outcome.result.kind in (Kind.CHANGED, Kind.FAILED):
            self._outcomes.append(outcome)

    def take(self) -> list[Outcome]:
        outcomes: list[Outcome] = []
        with suppress(IndexError):
            while True:
                outcomes.append(self._outcomes.popleft())
        return outcomes


def guest_pass(
    settings: Settings,
    connections: Connections,
    between: Between,
    uuid: str,
    progress: Progress,
    *,
    read: Read = schema.read,
    on_change: Callable[[Rules], None] = lambda _: None,
) -> PassResult:
    """A pass over one guest; it raises nothing. ``read`` reads the rules file; ``on_change`` gets the rules by which
    limits were changed.
    """
    try:
        hypervisor = connections.get(progress)
        report = pass_over(settings, hypervisor, [uuid], on_event=True, tell=between.note, read=read)
        if report.count(Kind.CHANGED):
            on_change(report.situation.rules)
        return result_of(report)
    except NoSuchGuest:
        return PassResult.GONE
    except Busy:
        return PassResult.BUSY
    except Unreachable as error:
        LOG.warning("pass over guest %s: %s", uuid, error)
        return PassResult.UNREACHABLE
    except PlimsollError as error:
        LOG.error("pass over guest %s: %s", uuid, error)
    except Exception as error:
        LOG.error("this is a bug in plimsoll, please report it", exc_info=error)
    return PassResult.FAILED


def result_of(report: PassReport) -> PassResult:
    """The result of a pass over one guest."""
    unreachable = report.unreachable_guests
    if unreachable:
        is_gone = all(each.reason.code is Code.NOT_FOUND for each in unreachable)
        return PassResult.GONE if is_gone else PassResult.UNREACHABLE
    if report.count(Kind.FAILED):
        return PassResult.FAILED
    if any(outcome.result.reason.code in _POSTPONED for outcome in report.outcomes):
        return PassResult.POSTPONED
    if report.count(Kind.CHANGED):
        return PassResult.CHANGED
    return PassResult.INCOMPLETE if report.count(Kind.DEFERRED, Kind.UNKNOWN) else PassResult.IN_SYNC


def full_pass(
    settings: Settings, connections: Connections, between: Between, progress: Progress, *, read: Read = schema.read
) -> FullPassResult:
    """A pass over the whole node, published. It raises nothing. ``read`` reads the rules file."""
    try:
        report, _ = pass_over_node(
            settings,
            lambda: nullcontext(connections.get(progress)),
            between=between.take,
            read=read,
            follow=Follow.MOVE,
        )
        if report.complaint:
            LOG.error("%s", report.complaint)
        with suppress(PlimsollError):
            # Each write needs them. For its first answer libvirtd starts each QEMU there is, a second in which a
            # guest that has just started would have no limits.
            connections.get(progress).versions()
        return FullPassResult.DONE
    except Busy as error:
        LOG.info("full pass: %s", error)
        return FullPassResult.POSTPONED if isinstance(error, NotAtRest) else FullPassResult.BUSY
    except PlimsollError as error:
        LOG.error("full pass: %s", error)
    except Exception as error:
        LOG.error("this is a bug in plimsoll, please report it", exc_info=error)
    return FullPassResult.FAILED
