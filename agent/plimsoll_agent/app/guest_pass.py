"""A pass over some guests, beside passes over the node and over other guests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from plimsoll_agent.app.congestion_following import Follow
from plimsoll_agent.app.context import NOTHING_ASKED, Asked, pass_context, run
from plimsoll_agent.app.node import state_of
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.model.hypervisor import Hypervisor
from plimsoll_agent.reconcile.outcome import Mode, Outcome, PassReport, Scope
from plimsoll_agent.rules.loader import Read
from plimsoll_agent.store.state import Busy, State
from plimsoll_agent.util import schema
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.locks import ByteLocks


@contextmanager
def guests_locked(state: State, uuids: Collection[str], *, patience: float = 0) -> Iterator[ByteLocks]:
    """Lock these guests; wait at most ``patience`` seconds.

    Raises ``Busy`` while another pass changes one of them, ``StateError`` if they cannot be locked.
    """
    with state.guest_locks() as locks:
        busy = set(uuids) - locks.take(uuids, patience)
        if busy:
            raise Busy(f"another pass or command is changing guest {', '.join(sorted(busy))}; nothing was changed")
        yield locks


def pass_over(
    settings: Settings,
    hypervisor: Hypervisor,
    uuids: Collection[str],
    *,
    mode: Mode | None = None,
    request: Asked = NOTHING_ASKED,
    on_event: bool = False,
    patience: float = 0,
    tell: Callable[[Outcome], None] = lambda _: None,
    read: Read = schema.read,
) -> PassReport:
    """A pass over these guests, by their uuids, in the mode of the settings or in another.

    It waits for no pass over the node, and at most ``patience`` seconds for one that changes the same guest. Rules
    (by ``read``), memory and all else are read again each time. Any number may run side by side, each with its own
    call.

    Raises ``Busy`` while something else changes one of the guests, ``NoSuchGuest`` if one does not run (any more),
    ``Unreachable`` if the guests cannot be listed, ``ConfigError`` and ``StateError`` as ``pass_context`` does.
    """
    state = state_of(settings)
    state.prepare()
    with guests_locked(state, uuids, patience=patience) as locks:
        follow = Follow.STAY if on_event else Follow.KEEP
        context = pass_context(settings, request, read_only=False, locks=locks, read=read, follow=follow)
        context = replace(context, caution=replace(context.caution, on_event=on_event))
        scope = Scope(frozenset(uuids))
        return run(settings, hypervisor, context, scope=scope, mode=mode or Mode(settings.mode), tell=tell)
