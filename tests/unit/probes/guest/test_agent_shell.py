"""A guest as a shell: who is told meanwhile, and what passes through."""

from __future__ import annotations

from itertools import pairwise

import pytest

from plimsoll_agent.errors import UsageError
from plimsoll_probes.guest.agent_shell import GuestShell
from plimsoll_probes.model.finding import Trouble, Why
from tests.fakeagent import SLEEPS, STAYS, FakeAgent


def test_who_watches_is_told_about_once_a_second_from_the_beginning() -> None:
    agent = FakeAgent()
    told: list[float] = []
    GuestShell(agent.ask, agent.sleep, agent.clock).run(STAYS, seconds=20, tell=lambda: told.append(agent.now))
    assert told[0] < 0.1
    assert max(later - earlier for earlier, later in pairwise(told)) < 1.1
    assert told[-1] > 19


def test_who_watches_may_end_it() -> None:
    """A slot that was lost, or a person's Ctrl-C."""
    agent = FakeAgent()

    def leave() -> None:
        if agent.now > 1:
            raise UsageError("enough")

    with pytest.raises(UsageError, match="enough"):
        GuestShell(agent.ask, agent.sleep, agent.clock).run(STAYS, seconds=60, tell=leave)
    assert agent.now < 3


def test_a_program_s_seconds_begin_when_it_is_run_and_not_with_the_shell() -> None:
    agent = FakeAgent()
    shell = GuestShell(agent.ask, agent.sleep, agent.clock)
    agent.now = 10_000
    assert shell.run(SLEEPS, seconds=3).status == 0


def test_a_check_tells_why_not() -> None:
    agent = FakeAgent()
    agent.disabled = {"guest-exec"}
    with pytest.raises(Trouble) as caught:
        GuestShell(agent.ask, agent.sleep, agent.clock).check()
    assert caught.value.why is Why.EXEC_FORBIDDEN
    assert caught.value.facts == {"detail": "guest-exec is disabled"}


def test_once_it_has_lasted_as_long_as_awaited_its_end_is_asked_for_more_often_and_not_before() -> None:
    def asked(lasts: float) -> list[float]:
        agent = FakeAgent()
        told: list[float] = []
        GuestShell(agent.ask, agent.sleep, agent.clock).run(
            STAYS, seconds=20, lasts=lasts, tell=lambda: told.append(agent.now)
        )
        return told

    patient, eager = asked(0), asked(10)
    assert [at for at in eager if at < 10] == [at for at in patient if at < 10]
    often, seldom = (sum(10 <= at < 12.5 for at in told) for told in (eager, patient))
    assert often >= 2 * seldom
