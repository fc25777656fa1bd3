"""A pass over the whole node, which is published. No other one runs beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from plimsoll_agent.app.congestion_following import Follow
from plimsoll_agent.app.context import NOTHING_ASKED, Asked, pass_context, run
from plimsoll_agent.app.node import state_of
from plimsoll_agent.app.publish import Publisher, counters_clock
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.model.hypervisor import Hypervisor
from plimsoll_agent.reconcile.outcome import Mode, Outcome, PassReport, Scope
from plimsoll_agent.rules.loader import Read
from plimsoll_agent.store.state import Busy, NotAtRest, StateError
from plimsoll_agent.util import schema


def pass_over_node(
    settings: Settings,
    connect: Callable[[], AbstractContextManager[Hypervisor]],
    *,
    mode: Mode | None = None,
    request: Asked = NOTHING_ASKED,
    first: Callable[[], bool] = lambda: True,
    between: Callable[[], Sequence[Outcome]] = tuple,
    tell: Callable[[Outcome], None] = lambda _: None,
    read: Read = schema.read,
    follow: Follow = Follow.KEEP,
) -> tuple[PassReport, bool]:
    """The pass, in the mode of the settings or in another; and whether ``first`` and its publication succeeded.

    ``first`` is called before, while no other pass runs. ``between``: what passes over single guests have changed, or
    failed to, since the last one. ``read`` reads the rules file; ``follow`` is for ``pass_context``. An error is
    published too.

    Raises ``Busy`` while another one runs, which is counted; ``NotAtRest`` as ``read`` does, which is not published;
    ``Unreachable`` if the guests cannot be listed, ``ConfigError`` and ``StateError`` as ``pass_context`` does.
    """
    state, mode = state_of(settings), mode or Mode(settings.mode)
    state.prepare()
    try:
        with state.locked():
            complete = first()
            publisher = Publisher(settings, state, mode)
            source = "rules"
            try:
                context = pass_context(settings, request, read_only=False, read=read, follow=follow)
                source = "libvirt"
                with connect() as hypervisor:
                    clock = counters_clock(settings)
                    report = run(settings, hypervisor, context, scope=Scope(), mode=mode, clock=clock, tell=tell)
            except NotAtRest:  # there was no pass
                raise
            except PlimsollError as error:
                publisher.failed(error, "record" if isinstance(error, StateError) else source)
                raise
            return report, publisher.passed(report, between()) and complete
    except Busy as error:
        if not isinstance(error, NotAtRest):
            state.note_busy()
        raise
