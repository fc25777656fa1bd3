"""Answers of a guest's agent, which a tenant may have written: a JSON list of them in their order.

Text is an answer as it is; an object with the key ``error`` is an error of libvirt, by the name of its class.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from plimsoll_agent import errors
from plimsoll_agent.errors import PlimsollError
from plimsoll_probes.guest.agent_shell import GuestShell
from plimsoll_probes.guest.qga_exec import LONGEST_ANSWER
from plimsoll_probes.model.finding import Trouble
from tests.fuzz.refusals import assert_short_facts

_SECONDS = 5
_MOST_QUESTIONS = 1000


class _Agent:
    def __init__(self, answers: list[Any]) -> None:
        self._answers = answers
        self.asked = 0
        self.now = 0.0
        self.said = ""

    def ask(self, request: str, seconds: int) -> str:
        json.loads(request)
        self.asked += 1
        assert self.asked < _MOST_QUESTIONS, "it is asked for ever"
        answer = self._answers.pop(0) if self._answers else {"error": "AgentTimedOut"}
        if isinstance(answer, dict) and "error" in answer and "return" not in answer:
            self.now += seconds
            raise self._error(answer)
        self.said = answer if isinstance(answer, str) else json.dumps(answer)
        return self.said

    def _error(self, answer: dict[str, Any]) -> PlimsollError:
        kind = getattr(errors, str(answer["error"]), None)
        known = isinstance(kind, type) and issubclass(kind, PlimsollError)
        return (kind if known else errors.AgentRefused)(str(answer.get("text")))

    def sleep(self, seconds: float) -> None:
        assert 0 <= seconds <= 10
        self.now += seconds


def target(data: bytes) -> None:
    try:
        answers = json.loads(data)
    except (ValueError, RecursionError):
        answers = None
    agent = _Agent(answers if isinstance(answers, list) else [data.decode("utf-8", "replace")])
    shell = GuestShell(agent.ask, agent.sleep, lambda: agent.now)
    try:
        shell.check()
        ran = shell.run(("true",), seconds=_SECONDS, stdin=b"in")
    except Trouble as error:
        assert_short_facts(error, 200)
        return
    assert agent.now < 60
    assert (ran.status is None) != (ran.signal is None)
    assert len(ran.out) + len(ran.err) <= LONGEST_ANSWER
    told = json.loads(agent.said)["return"]
    assert ran.out == base64.b64decode(told.get("out-data", ""))
    assert ran.status in (None, told.get("exitcode"))
