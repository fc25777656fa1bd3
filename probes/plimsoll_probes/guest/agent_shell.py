"""Runs programs in a guest: it exchanges the messages of ``qga_exec`` with the guest's agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plimsoll_agent.errors import PlimsollError
from plimsoll_probes.guest.qga_exec import AgentAnswer, Ask, Conversation, Result, capabilities, execute
from plimsoll_probes.guest.shell import Ran


class GuestShell:
    """A ``Shell``. ``ask(request, seconds)`` sends a request to the guest's agent: see ``Libvirt.agent``."""

    def __init__(
        self, ask: Callable[[str, int], str], sleep: Callable[[float], None], clock: Callable[[], float]
    ) -> None:
        self._ask = ask
        self._sleep = sleep
        self._clock = clock

    def check(self) -> None:
        """Raises ``Trouble`` when no program can run in the guest now."""
        self._hold(capabilities(), lambda: None)

    def run(
        self,
        argv: Sequence[str],
        *,
        seconds: float,
        lasts: float = 0,
        stdin: bytes = b"",
        tell: Callable[[], None] = lambda: None,
    ) -> Ran:
        return self._hold(execute(argv, stdin, seconds=seconds, now=self._clock(), lasts=lasts), tell)

    def _hold(self, conversation: Conversation[Result], tell: Callable[[], None]) -> Result:
        try:
            step = next(conversation)
            while True:
                answer: str | PlimsollError = ""
                if isinstance(step, Ask):
                    try:
                        answer = self._ask(step.request, step.seconds)
                    except PlimsollError as error:
                        answer = error
                else:
                    tell()
                    self._sleep(step.seconds)
                step = conversation.send(AgentAnswer(answer, self._clock()))
        except StopIteration as stop:
            result: Result = stop.value
            return result
