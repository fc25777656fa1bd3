"""The conversation with a guest's agent, held with one that stands by qga's rules, and with every liar."""

from __future__ import annotations

import json

import pytest

from plimsoll_agent.errors import AgentAway, AgentRefused, AgentTimedOut
from plimsoll_probes.guest.agent_shell import GuestShell
from plimsoll_probes.guest.qga_exec import KILL_AFTER, LONGEST_REQUEST, SLACK, AgentAnswer, Ask, execute
from plimsoll_probes.guest.shell import Ran
from plimsoll_probes.model.finding import Trouble, Why
from tests.fakeagent import (
    CAT,
    DIALECTS,
    FAILS,
    KILLS_ITSELF,
    KINDS,
    MEGABYTE,
    SLEEPS,
    STAYS,
    AgentContract,
    Dialect,
    FakeAgent,
    Kind,
    LyingAgent,
    hangs,
)

SECONDS = 30


@pytest.fixture(params=DIALECTS, ids=lambda dialect: f"QEMU {dialect.version}")
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return request.param


@pytest.fixture
def agent(dialect: Dialect) -> FakeAgent:
    return FakeAgent(dialect)


class TestFakeAgent(AgentContract):
    pass


def shell(agent: FakeAgent) -> GuestShell:
    return GuestShell(agent.ask, agent.sleep, agent.clock)


def trouble(agent: FakeAgent, argv: tuple[str, ...] = SLEEPS, seconds: float = SECONDS) -> Trouble:
    try:
        shell(agent).check()
        ran = shell(agent).run(argv, seconds=seconds)
    except Trouble as error:
        return error
    raise AssertionError(f"believed: {ran}")


# --- how a program ends


def test_a_program_ends_with_its_status_and_both_its_streams(agent: FakeAgent) -> None:
    assert shell(agent).run(FAILS, seconds=9) == Ran(status=3, signal=None, out=b"out\n", err=b"err\n")


def test_a_program_that_was_killed_has_no_status(agent: FakeAgent) -> None:
    assert shell(agent).run(KILLS_ITSELF, seconds=9) == Ran(status=None, signal=9, out=b"", err=b"")


def test_a_program_reads_every_byte_that_it_is_given(agent: FakeAgent) -> None:
    given = bytes(range(256))
    assert shell(agent).run(CAT, seconds=9, stdin=given).out == given


def test_a_program_that_overstays_is_ended_in_the_guest(agent: FakeAgent) -> None:
    assert shell(agent).run(STAYS, seconds=4.2).status == 124
    assert 5 <= agent.now < 5 + KILL_AFTER, "and no sooner than it was to be: timeout counts whole seconds"


def test_more_output_than_was_agreed_is_not_even_parsed(agent: FakeAgent) -> None:
    assert trouble(agent, MEGABYTE).why is Why.NONSENSE


def test_a_request_that_agents_lose_is_never_sent(agent: FakeAgent) -> None:
    with pytest.raises(ValueError, match=r"a request of \d+ bytes"):
        shell(agent).run(CAT, seconds=9, stdin=bytes(LONGEST_REQUEST))
    assert agent.asked == []


def test_the_agent_is_asked_rarely_and_the_end_is_soon_seen(agent: FakeAgent) -> None:
    """A question costs an emulated guest milliseconds, which the run that is measured would miss."""
    shell(agent).run(STAYS, seconds=60)
    assert agent.asked.count("guest-exec-status") < 70
    assert agent.now < 61.1
    short = FakeAgent()
    shell(short).run(FAILS, seconds=60)
    assert short.now < 0.2


# --- what befalls it


class Frozen(FakeAgent):
    """Frozen between two moments."""

    def ask(self, request: str, seconds: int) -> str:
        self.frozen = 3 <= self.now < 8
        return super().ask(request, seconds)


def test_a_program_outlives_a_freeze_and_its_end_tells_of_it(dialect: Dialect) -> None:
    agent = Frozen(dialect)
    ran = shell(agent).run(("true",), seconds=9)
    assert not ran.frozen, "it ended before"
    agent.now = 2
    assert shell(agent).run(SLEEPS, seconds=9) == Ran(status=0, signal=None, out=b"", err=b"", frozen=True)
    assert agent.now >= 8


def test_a_frozen_guest_is_not_said_to_forbid_it(agent: FakeAgent) -> None:
    agent.frozen = True
    assert trouble(agent).why is Why.FROZEN


def test_a_guest_that_freezes_between_two_questions_is_frozen(dialect: Dialect) -> None:
    class Freezes(FakeAgent):
        def ask(self, request: str, seconds: int) -> str:
            self.frozen = "guest-fsfreeze-status" in self.asked
            return super().ask(request, seconds)

    assert trouble(Freezes(dialect)).why is Why.FROZEN


def test_a_freeze_that_is_over_at_once_is_no_ban_from_starting_a_program(dialect: Dialect) -> None:
    class Flickers(FakeAgent):
        def answer(self, command: str, arguments: dict[str, object], seconds: int) -> str:
            self.frozen = command == "guest-exec" and self.asked.count(command) == 1
            return super().answer(command, arguments, seconds)

    assert shell(Flickers(dialect)).run(("true",), seconds=9).status == 0


class Stumbles(FakeAgent):
    """Does not answer the first questions after a status, and then does."""

    def answer(self, command: str, arguments: dict[str, object], seconds: int) -> str:
        if command == "guest-exec-status" and self.asked.count(command) in (2, 3):
            return hangs(AgentTimedOut("not now"))(self, seconds)
        return super().answer(command, arguments, seconds)


def test_an_agent_that_falls_silent_for_a_while_is_asked_again() -> None:
    assert shell(Stumbles()).run(SLEEPS, seconds=60).status == 0


def test_a_program_that_runs_on_is_unfinished_whatever_befell_its_agent_before() -> None:
    class Busy(Stumbles):
        def _status(self, arguments: dict[str, object]) -> object:
            return {"exited": False}

    assert trouble(Busy()).why is Why.UNFINISHED


def test_short_freezes_that_were_over_when_asked_about_are_not_a_ban(dialect: Dialect) -> None:
    class Flickers(FakeAgent):
        def answer(self, command: str, arguments: dict[str, object], seconds: int) -> str:
            self.frozen = command == "guest-exec-status" and self.asked.count(command) in (2, 4)
            return super().answer(command, arguments, seconds)

    ran = shell(Flickers(dialect)).run(SLEEPS, seconds=9)
    assert (ran.status, ran.frozen) == (0, True)


def test_an_agent_that_is_too_busy_freezing_to_say_so_is_asked_again(dialect: Dialect) -> None:
    class Freezing(FakeAgent):
        def ask(self, request: str, seconds: int) -> str:
            self.frozen = 1 <= self.now < 30
            if self.frozen and "guest-fsfreeze-status" in request:
                return hangs(AgentTimedOut("not now"))(self, seconds)
            return super().ask(request, seconds)

    ran = shell(Freezing(dialect)).run(SLEEPS, seconds=60)
    assert (ran.status, ran.frozen) == (0, True)


class Reboots(FakeAgent):
    """Goes away under a question, and comes back as another."""

    def answer(self, command: str, arguments: dict[str, object], seconds: int) -> str:
        number = self.asked.count("guest-exec-status")
        if command == "guest-exec-status" and number in (2, 3):
            self.reboot()
            raise AgentTimedOut("disappeared") if number == 2 else AgentAway("not connected")
        return super().answer(command, arguments, seconds)


def test_a_guest_that_reboots_under_a_question_has_rebooted_and_lost_no_answer(dialect: Dialect) -> None:
    assert trouble(Reboots(dialect)).why is Why.REBOOTED


def test_a_guest_that_is_slow_after_a_reboot_is_asked_again(dialect: Dialect) -> None:
    class Slow(Reboots):
        def answer(self, command: str, arguments: dict[str, object], seconds: int) -> str:
            if command == "guest-info" and "guest-exec" in self.asked and self.asked.count(command) == 2:
                return hangs(AgentTimedOut("not now"))(self, seconds)
            return super().answer(command, arguments, seconds)

    assert trouble(Slow(dialect)).why is Why.REBOOTED


@pytest.mark.parametrize("disabled", [False, True])
def test_an_agent_that_may_start_programs_and_cannot_is_not_said_to_be_forbidden(
    dialect: Dialect, disabled: bool
) -> None:
    """As under SELinux; or where it was forbidden since it was asked."""

    class Denies(FakeAgent):
        def answer(self, command: str, arguments: dict[str, object], seconds: int) -> str:
            if command != "guest-exec":
                return super().answer(command, arguments, seconds)
            self.disabled |= {command} if disabled else set()
            raise AgentRefused("Failed to execute child process “timeout” (Permission denied)")

    why = trouble(Denies(dialect))
    assert (why.why, why.facts.get("enabled", False)) == (Why.EXEC_FORBIDDEN, not disabled)


def test_a_start_that_was_not_answered_is_not_tried_again() -> None:
    """The program may run: a second one beside it would spoil both."""
    silent = next(kind for kind in KINDS if kind.name == "start is silent")
    agent = LyingAgent(silent)
    assert trouble(agent).why is Why.AGENT_TIMED_OUT
    assert agent.asked.count("guest-exec") == 1


def test_a_guest_that_is_fit_is_told_so_in_four_questions(agent: FakeAgent) -> None:
    shell(agent).check()
    assert len(agent.asked) <= 4


def test_an_agent_that_may_neither_freeze_nor_tell_its_system_is_fit(agent: FakeAgent) -> None:
    agent.disabled = {"guest-fsfreeze-status", "guest-get-osinfo"}
    shell(agent).check()


def test_no_answer_is_awaited_beyond_the_end() -> None:
    """Else a guest gets ten seconds more by answering the last question slowly."""
    conversation = execute(["true"], seconds=1, now=100)
    assert isinstance(next(conversation), Ask)
    conversation.send(AgentAnswer('{"return": {"pid": 7}}', 100))
    last = conversation.send(AgentAnswer("", 100 + 1 + KILL_AFTER + SLACK - 2.5))
    assert isinstance(last, Ask)
    assert last.seconds <= 3


# --- bad answers


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_bad_answer_costs_one_probe_and_is_named(kind: Kind, dialect: Dialect) -> None:
    agent = LyingAgent(kind, dialect)
    found = trouble(agent)
    assert found.why is kind.why, f"{found.facts}: {kind.defect}"
    # libvirt's 5 s of the last question are not in our hands, nor is its one second.
    assert agent.now <= SECONDS + KILL_AFTER + SLACK + 6, kind.defect
    assert len(agent.asked) < 100, kind.defect
    assert all(isinstance(fact, int | str | None) for fact in found.facts.values())
    detail = str(found.facts.get("detail", ""))
    assert len(detail) <= 200
    assert detail.isprintable()


def test_kinds_of_bad_answers_are_many_and_each_is_another() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 40
    first = [kind.lie for kind in KINDS]
    assert len(set(map(id, first))) > 80


@pytest.mark.parametrize("command", ["guest-exec", "guest-exec-status", "guest-info", "guest-fsfreeze-status"])
def test_an_answer_is_bounded_whatever_was_asked(command: str) -> None:
    megabyte = json.dumps({"return": {"pid": 7, "exited": False, "padding": "x" * 2**20}})
    agent = LyingAgent(Kind("", command, lambda *_: megabyte, Why.NONSENSE, ""))
    assert trouble(agent).why is Why.NONSENSE
