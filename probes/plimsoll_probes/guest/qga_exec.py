"""Runs a program inside a guest through its agent: the exchange of messages, without the connection.

Each conversation is a generator. It yields what to do next, is sent the result, and returns a value or raises
``Trouble``. Answers are bounded before they are parsed, and checked before they are used.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Generator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from plimsoll_agent.errors import (
    AgentAway,
    AgentGarbled,
    AgentRefused,
    AgentTimedOut,
    DeadlineExceeded,
    NoAgent,
    NotFound,
    NotSent,
    PlimsollError,
)
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import printable
from plimsoll_probes.guest.shell import Ran
from plimsoll_probes.model.finding import Trouble, Why

LONGEST_REQUEST = 40_000
"""In bytes. Of more than about 128 KiB an agent that was idle receives only a part (QEMU 7.2)."""
LONGEST_ANSWER = 512 * 2**10
"""In characters: more than 256 KiB of output take as base64."""
KILL_AFTER = 5
"""Seconds between timeout's two signals, in which a program can end."""
SLACK = 10
"""Seconds to wait for the end of a program after timeout has killed it."""

_ANSWER_SECONDS = 10
_SHORT_ANSWER_SECONDS = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0  # a request takes some milliseconds in an emulated guest
_LONGEST_DETAIL = 200
# An agent's list of commands has some 250. A part, once parsed, may take a hundred times the memory of its text.
_MOST_PARTS = 4000
_LARGEST_PID = 2**31 - 1
_LARGEST_SIGNAL = 127


@frozen
class Ask:
    """Send this to the agent, and wait so many seconds for its answer."""

    request: str
    seconds: int


@frozen
class Delay:
    """Do nothing for so many seconds."""

    seconds: float


@frozen
class AgentAnswer:
    """The agent's answer, or why there is none; empty after a ``Delay``. ``now`` is monotonic."""

    text: str | PlimsollError
    now: float


Result = TypeVar("Result")
Conversation: TypeAlias = Generator[Ask | Delay, AgentAnswer, Result]


def under_timeout(argv: Sequence[str], seconds: float) -> list[str]:
    """The command under timeout(1), whose busybox version takes whole seconds only.

    When the time is over it ends with status 124, or by signal 9 where the program ignored the first signal.
    """
    return ["timeout", "-k", str(KILL_AFTER), str(math.ceil(seconds)), *argv]


def capabilities() -> Conversation[None]:
    """Check that a program can run in the guest now.

    Raises ``Trouble``: AGENT_ABSENT, AGENT_TIMED_OUT, EXEC_FORBIDDEN, FROZEN, NOT_SUPPORTED, or as any conversation
    NONSENSE, NOT_FOUND, UNREACHABLE.
    """
    try:
        yield from _not_frozen()
        info = _object((yield from _query("guest-info")), "guest-info")
        commands = _commands(info)
        for command in ("guest-exec", "guest-exec-status"):
            if command not in commands:
                detail = _short(f"there is no {command} in version {info.get('version')} of the agent")
                raise Trouble(Why.NOT_SUPPORTED, detail=detail)
            if not commands[command]:
                # A freeze disables all commands, and may have begun since the first request.
                yield from _not_frozen()
                raise Trouble(Why.EXEC_FORBIDDEN, detail=f"{command} is disabled")
        if commands.get("guest-get-osinfo"):
            yield from _not_windows()
    except PlimsollError as error:
        raise _trouble(error) from error


def execute(
    argv: Sequence[str], stdin: bytes = b"", *, seconds: float, now: float, lasts: float = 0
) -> Conversation[Ran]:
    """Run a program in the guest under timeout(1), and wait for its end.

    It polls for the end less and less often, and often again after ``lasts`` seconds.

    Raises ``Trouble``; UNFINISHED where timeout should have killed the program and did not. The program may then
    still run, but no longer than timeout allows: it cannot be killed from here. Raises ``ValueError`` for a request
    that is too long for the agent.
    """
    path, *words = under_timeout(argv, seconds)
    extra = {"input-data": base64.b64encode(stdin).decode()} if stdin else {}
    pid = yield from _start({"path": path, "arg": words, "capture-output": True, **extra})
    limit = math.ceil(seconds)
    end, soon = now + limit + KILL_AFTER + SLACK, now + lasts
    frozen = False
    refusals = 0
    last: PlimsollError | None = None
    is_lost = False  # an answer, perhaps with the result: the agent returns a result only once
    pause = _FIRST_PAUSE
    while True:
        before, now = now, (yield Delay(pause)).now
        pause = _FIRST_PAUSE if before < soon <= now else min(pause * 1.5, _LONGEST_PAUSE)
        if now >= end:
            raise _overdue(last, limit)
        answer = yield Ask(_request("guest-exec-status", {"pid": pid}), _seconds_until(end, now))
        try:
            ran = _outcome(_return_value(answer), pid)
        except AgentRefused as error:
            last = error
            frozen = True  # only a freeze disables guest-exec-status for a time
            refusals = 0 if (yield from _still_frozen()) else refusals + 1
            if refusals > 1:  # the first time, the freeze may have ended since
                why = yield from _refusal(error, lost=is_lost)
                if why is not None:
                    raise why from error
        except (NoAgent, AgentGarbled, NotFound, Trouble) as error:
            raise _trouble(error) from error
        except AgentAway as error:
            last, is_lost = error, False  # a restarted agent has no record of the program
        except NotSent as error:
            last = error
        except PlimsollError as error:
            last, is_lost = error, True
        else:
            if ran is not None:
                return replace(ran, frozen=frozen)
            last, refusals = None, 0


def _start(arguments: Mapping[str, object]) -> Conversation[int]:
    """The pid of the started program. The request is not repeated: the program might run twice."""
    request = _request("guest-exec", arguments)
    if len(request) > LONGEST_REQUEST:
        raise ValueError(f"a request of {len(request)} bytes; an agent takes at most {LONGEST_REQUEST}")
    try:
        try:
            return _pid((yield Ask(request, _ANSWER_SECONDS)))
        except AgentRefused:  # nothing was started
            yield from _not_frozen()
        return _pid((yield Ask(request, _ANSWER_SECONDS)))  # the freeze may have ended since
    except AgentRefused as error:
        if "No such file or directory" in str(error):  # GLib's words
            raise Trouble(Why.NOT_SUPPORTED, detail="the guest has no timeout(1)") from error
        raise (yield from _ban(error)) from error
    except PlimsollError as error:
        raise _trouble(error) from error


def _ban(error: AgentRefused) -> Conversation[Trouble]:
    """Why the agent starts no program; ``enabled``: it may and cannot, as under SELinux."""
    try:
        commands = _commands(_object((yield from _query("guest-info")), "guest-info"))
    except PlimsollError as other:
        return _trouble(error if isinstance(other, AgentRefused) else other)
    if not commands.get("guest-exec"):
        return _trouble(error)
    return Trouble(Why.EXEC_FORBIDDEN, detail=_short(error), enabled=True)


def _pid(answer: AgentAnswer) -> int:
    return _number(_object(_return_value(answer), "guest-exec"), "pid", 1, _LARGEST_PID)


def _refusal(error: AgentRefused, *, lost: bool) -> Conversation[Trouble | None]:
    """Why the agent refuses the status of a program that it started, while the guest is not frozen; None where no
    answer came in time.

    Told by what is enabled, not by the agent's words: they differ between its versions, and those of QEMU 10 and 11
    say the same in a freeze as of a forbidden command.
    """
    try:
        commands = _commands(_object((yield from _query("guest-info")), "guest-info"))
    except DeadlineExceeded:
        return None
    except PlimsollError as other:
        return _trouble(error if isinstance(other, AgentRefused) else other)
    if not commands.get("guest-exec-status"):
        return _trouble(error)
    if lost:
        detail = "the answer with the result was lost, and the agent returns a result only once"
        return Trouble(Why.AGENT_TIMED_OUT, detail=detail)
    return Trouble(Why.REBOOTED)  # it does not know the program


def _overdue(last: PlimsollError | None, limit: int) -> Trouble:
    """Why a program has not ended in time. ``last`` is the error of the last request; None where it still runs."""
    if last is None:
        return Trouble(Why.UNFINISHED, seconds=limit, done=None, unfinished=None)
    return Trouble(Why.FROZEN) if isinstance(last, AgentRefused) else _trouble(last)


def _outcome(status: object, pid: int) -> Ran | None:
    """How the program ended; None while it runs."""
    fields = _object(status, "guest-exec-status")
    if _number(fields, "pid", 1, _LARGEST_PID, default=pid) != pid:
        raise _nonsense("the status is of another program")
    has_code, has_signal = "exitcode" in fields, "signal" in fields
    if not _flag(fields, "exited"):
        if has_code or has_signal:
            raise _nonsense("a running program has an exit code")
        return None
    if has_code == has_signal:
        raise _nonsense("a program that ended must have either an exit code or a signal")
    if _flag(fields, "out-truncated", default=False) or _flag(fields, "err-truncated", default=False):
        raise _nonsense("the program's output was longer than the agent keeps")
    return Ran(
        status=_number(fields, "exitcode", 0, 255) if has_code else None,
        signal=_number(fields, "signal", 1, _LARGEST_SIGNAL) if has_signal else None,
        out=_data(fields, "out-data"),
        err=_data(fields, "err-data"),
    )


def _not_frozen() -> Conversation[None]:
    if (yield from _is_frozen()):
        raise Trouble(Why.FROZEN)


def _is_frozen() -> Conversation[bool]:
    """Whether file systems are frozen; False where the agent has no such command or forbids it."""
    try:
        status = yield from _query("guest-fsfreeze-status")
    except AgentRefused:
        return False
    if status not in ("thawed", "frozen"):
        raise _nonsense("guest-fsfreeze-status is neither thawed nor frozen")
    return status == "frozen"


def _still_frozen() -> Conversation[bool]:
    """True also where no answer came in time. Raises ``Trouble`` where another request would not help."""
    try:
        return (yield from _is_frozen())
    except DeadlineExceeded:
        return True
    except PlimsollError as error:
        raise _trouble(error) from error


def _not_windows() -> Conversation[None]:
    try:
        system = _object((yield from _query("guest-get-osinfo")), "guest-get-osinfo")
    except AgentRefused:
        return
    if system.get("id") == "mswindows":
        raise Trouble(Why.NOT_SUPPORTED, detail="the guest runs Windows")


def _commands(info: Mapping[str, object]) -> dict[str, bool]:
    """The agent's commands, and whether each is enabled."""
    commands = info.get("supported_commands")
    if not isinstance(commands, list):
        raise _nonsense("guest-info lists no commands")
    states: dict[str, bool] = {}
    for command in commands:
        entry = _object(command, "a command of guest-info")
        name = entry.get("name")
        if not isinstance(name, str):
            raise _nonsense("guest-info lists a command without a name")
        if name in states:
            raise _nonsense(f"guest-info lists {name} twice")
        states[name] = _flag(entry, "enabled")
    return states


def _query(command: str) -> Conversation[object]:
    return _return_value((yield Ask(_request(command), _SHORT_ANSWER_SECONDS)))


def _request(command: str, arguments: Mapping[str, object] | None = None) -> str:
    return json.dumps({"execute": command} if arguments is None else {"execute": command, "arguments": arguments})


def _seconds_until(end: float, now: float) -> int:
    return max(1, min(_ANSWER_SECONDS, int(end - now)))


def _return_value(answer: AgentAnswer) -> object:
    """What the agent returned. Raises why there is no answer, or ``Trouble`` for an invalid one."""
    if isinstance(answer.text, PlimsollError):
        raise answer.text
    if len(answer.text) > LONGEST_ANSWER:
        raise _nonsense(f"an answer of {len(answer.text)} characters")
    if (parts := answer.text.count(",")) > _MOST_PARTS:
        raise _nonsense(f"an answer of {parts} parts")
    try:
        document = json.loads(answer.text, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        raise _nonsense("an answer that is not JSON") from error
    whole = _object(document, "an answer")
    if "return" not in whole:
        raise _nonsense('an answer without "return"')
    return whole["return"]


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key occurs twice")
    return mapping


def _object(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _nonsense(f"{what} is not an object")
    return value


def _number(fields: Mapping[str, object], key: str, least: int, most: int, default: int | None = None) -> int:
    value = fields.get(key, default)
    if type(value) is not int or not least <= value <= most:  # a bool is an int, too
        raise _nonsense(f"{key} is not a number from {least} to {most}")
    return value


def _flag(fields: Mapping[str, object], key: str, default: bool | None = None) -> bool:
    value = fields.get(key, default)
    if not isinstance(value, bool):
        raise _nonsense(f"{key} is neither true nor false")
    return value


def _data(fields: Mapping[str, object], key: str) -> bytes:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise _nonsense(f"{key} is not text")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise _nonsense(f"{key} is not base64") from error


def _trouble(error: PlimsollError) -> Trouble:
    if isinstance(error, Trouble):
        return error
    if isinstance(error, AgentRefused):
        return Trouble(Why.EXEC_FORBIDDEN, detail=_short(error))
    if isinstance(error, NoAgent):
        return Trouble(Why.AGENT_ABSENT)
    if isinstance(error, AgentAway | AgentTimedOut | NotSent):
        return Trouble(Why.AGENT_TIMED_OUT, detail=_short(error))
    if isinstance(error, AgentGarbled):
        return Trouble(Why.NONSENSE, detail=_short(error))
    if isinstance(error, NotFound):
        return Trouble(Why.NOT_FOUND)
    return Trouble(Why.UNREACHABLE, detail=_short(error))


def _nonsense(what: str) -> Trouble:
    return Trouble(Why.NONSENSE, detail=_short(what))


def _short(text: object) -> str:
    """The beginning of a text, in one line."""
    return printable(str(text)[:_LONGEST_DETAIL])
