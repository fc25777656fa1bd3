"""A guest's agent without a guest: qga's rules as libvirt hands them on, and the same agent with one bad answer.

Time is its own. ``AgentContract`` keeps it honest: the agent in a real guest stands by it as well
(tests/lab/test_guestexec.py).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import pytest

from plimsoll_agent.errors import (
    AgentAway,
    AgentGarbled,
    AgentRefused,
    AgentTimedOut,
    DeadlineExceeded,
    NoAgent,
    NotFound,
    PlimsollError,
)
from plimsoll_probes.model.finding import Why

MIB = 2**20


@dataclass(frozen=True)
class Program:
    """What a program does; one that ``echoes`` says what it was given."""

    seconds: float = 0
    status: int | None = 0
    signal: int | None = None
    out: bytes = b""
    err: bytes = b""
    echoes: bool = False


FAILS = ("sh", "-c", "echo out; echo err >&2; exit 3")
KILLS_ITSELF = ("sh", "-c", "kill -9 $$")
CAT = ("cat",)
MEGABYTE = ("head", "-c", str(MIB), "/dev/zero")
SLEEPS = ("sleep", "2")
STAYS = ("sh", "-c", "sleep 77 & sleep 77")
DEAF = ("sh", "-c", "trap '' TERM; sleep 77 & wait; wait")

PROGRAMS: Mapping[tuple[str, ...], Program] = {
    FAILS: Program(status=3, out=b"out\n", err=b"err\n"),
    KILLS_ITSELF: Program(status=None, signal=9),
    CAT: Program(echoes=True),
    MEGABYTE: Program(out=bytes(MIB)),
    SLEEPS: Program(seconds=2),
    STAYS: Program(seconds=77),
    ("true",): Program(),
}


@dataclass(frozen=True)
class Dialect:
    """What agents say where they refuse, from that version of QEMU on."""

    since: tuple[int, ...]
    unknown_pid: str
    frozen: str

    @property
    def version(self) -> str:
        return ".".join(map(str, self.since))


DIALECTS = (
    Dialect((7, 2, 22), "Invalid parameter 'pid'", "the agent is in frozen state"),
    Dialect((10, 0, 13), "PID ld does not exist", "the command is not allowed"),
)


_WHILE_FROZEN = ("guest-ping", "guest-info", "guest-sync", "guest-fsfreeze-status", "guest-fsfreeze-thaw")


class FakeAgent:
    """``ask`` as ``Libvirt.agent`` for one guest. ``asked`` is every command that came, in order."""

    def __init__(
        self, dialect: Dialect = DIALECTS[0], programs: Mapping[tuple[str, ...], Program] = PROGRAMS
    ) -> None:
        self.dialect = dialect
        self.now = 0.0
        self.asked: list[str] = []
        self.disabled: set[str] = set()
        self.frozen = False
        self.windows = False
        self.has_timeout = True
        self._programs = programs
        self._running: dict[int, tuple[float, Program]] = {}
        self._pids = count(4321)
        self._commands: dict[str, Callable[[dict[str, object]], object]] = {
            "guest-ping": lambda _: {},
            "guest-info": lambda _: self._info(),
            "guest-fsfreeze-status": lambda _: "frozen" if self.frozen else "thawed",
            "guest-get-osinfo": lambda _: {"id": "mswindows" if self.windows else "debian"},
            "guest-exec": self._exec,
            "guest-exec-status": self._status,
        }

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def reboot(self) -> None:
        self._running = {}

    def ask(self, request: str, seconds: int) -> str:
        self.now += 0.01
        asked = json.loads(request)
        self.asked.append(asked["execute"])
        return self.answer(asked["execute"], asked.get("arguments", {}), seconds)

    def answer(self, command: str, arguments: dict[str, object], seconds: int) -> str:
        if command not in self._commands:
            raise AgentRefused(f"The command {command} has not been found")
        if self.frozen and command not in _WHILE_FROZEN:
            raise AgentRefused(f"Command {command} has been disabled: {self.dialect.frozen}")
        if command in self.disabled:
            raise AgentRefused(f"Command {command} has been disabled: the command is not allowed")
        return json.dumps({"return": self._commands[command](arguments)})

    def _info(self) -> object:
        commands = [{"name": name, "enabled": self._enabled(name)} for name in self._commands]
        return {"version": self.dialect.version, "supported_commands": commands}

    def _enabled(self, command: str) -> bool:
        return command not in self.disabled and not (self.frozen and command not in _WHILE_FROZEN)

    def _exec(self, arguments: dict[str, object]) -> object:
        argv: Sequence[str] = [arguments["path"], *arguments.get("arg", [])]  # type: ignore[misc,list-item]
        program = self._program(argv)
        if program.echoes:
            given = base64.b64decode(str(arguments.get("input-data", "")))
            program = Program(out=given)
        pid = next(self._pids)
        self._running[pid] = (self.now + program.seconds, program)
        return {"pid": pid}

    def _program(self, argv: Sequence[str]) -> Program:
        if argv[0] == "timeout" and self.has_timeout:
            program = self._program(argv[4:])
            limit = float(argv[3])
            return program if program.seconds <= limit else Program(seconds=limit, status=124)
        if tuple(argv) in self._programs:
            return self._programs[tuple(argv)]
        raise AgentRefused(
            "Guest agent command failed, error was"
            f" 'Failed to execute child process “{argv[0]}” (No such file or directory)'"
        )

    def _status(self, arguments: dict[str, object]) -> object:
        pid = arguments["pid"]
        if not isinstance(pid, int) or pid not in self._running:
            raise AgentRefused(self.dialect.unknown_pid)
        end, program = self._running[pid]
        if self.now < end:
            return {"exited": False}
        del self._running[pid]
        told: dict[str, object] = {"exited": True}
        told |= {"exitcode": program.status} if program.signal is None else {"signal": program.signal}
        for key, data in (("out", program.out), ("err", program.err)):
            if data:
                told |= {f"{key}-data": base64.b64encode(data).decode(), f"{key}-truncated": False}
        return told


class AgentContract:
    """A subclass gives ``agent``, with ``ask``, ``sleep`` and the attribute or property ``frozen`` to be set."""

    @pytest.fixture(autouse=True)
    def _thawed(self, agent: FakeAgent) -> None:
        agent.frozen = False

    def test_a_result_is_given_once(self, agent: FakeAgent) -> None:
        pid = started(agent, FAILS)
        assert result(agent, pid) == {
            "exited": True,
            "exitcode": 3,
            "out-data": base64.b64encode(b"out\n").decode(),
            "err-data": base64.b64encode(b"err\n").decode(),
            "out-truncated": False,
            "err-truncated": False,
        }
        assert refusal(agent, "guest-exec-status", pid=pid) == dialect_of(agent).unknown_pid

    def test_a_program_that_never_was_is_unknown(self, agent: FakeAgent) -> None:
        assert refusal(agent, "guest-exec-status", pid=4194999) == dialect_of(agent).unknown_pid

    def test_a_program_that_was_killed_has_a_signal_and_no_exit_code(self, agent: FakeAgent) -> None:
        assert result(agent, started(agent, KILLS_ITSELF)) == {"exited": True, "signal": 9}

    def test_a_program_that_runs_has_not_exited_and_that_is_all(self, agent: FakeAgent) -> None:
        pid = started(agent, SLEEPS)
        assert told(agent, "guest-exec-status", pid=pid) == {"exited": False}
        assert result(agent, pid) == {"exited": True, "exitcode": 0}

    def test_a_program_reads_what_it_was_given(self, agent: FakeAgent) -> None:
        given = base64.b64encode(bytes(range(256)) * 100).decode()
        pid = told(agent, "guest-exec", path="cat", **{"capture-output": True, "input-data": given})["pid"]
        assert result(agent, pid)["out-data"] == given

    def test_a_megabyte_is_handed_on_whole(self, agent: FakeAgent) -> None:
        ended = result(agent, started(agent, MEGABYTE))
        assert base64.b64decode(ended["out-data"]) == bytes(MIB)
        assert ended["out-truncated"] is False

    def test_timeout_ends_a_program_with_its_children(self, agent: FakeAgent) -> None:
        pid = started(agent, ("timeout", "-k", "5", "1", *STAYS))
        # Not exited before the children have closed their end of the pipe.
        assert result(agent, pid) == {"exited": True, "exitcode": 124}

    def test_a_program_that_is_not_there_is_refused(self, agent: FakeAgent) -> None:
        with pytest.raises(AgentRefused, match=r"“no-such-program” .No such file or directory"):
            started(agent, ("no-such-program",))

    def test_a_command_that_is_unknown_is_refused(self, agent: FakeAgent) -> None:
        with pytest.raises(AgentRefused, match=r"^The command guest-no-such has not been found$"):
            told(agent, "guest-no-such")

    def test_a_frozen_guest_forbids_all_but_a_few_and_says_that_they_are_disabled(self, agent: FakeAgent) -> None:
        pid = started(agent, SLEEPS)
        agent.frozen = True
        try:
            assert told(agent, "guest-fsfreeze-status") == "frozen"
            for command, arguments in (("guest-exec-status", {"pid": pid}), ("guest-exec", {"path": "true"})):
                refused = f"Command {command} has been disabled: {dialect_of(agent).frozen}"
                assert refusal(agent, command, **arguments) == refused
            commands = told(agent, "guest-info")["supported_commands"]
            enabled = {command["name"]: command["enabled"] for command in commands}
            assert not any(enabled[name] for name in ("guest-exec", "guest-exec-status", "guest-get-osinfo"))
            assert all(enabled[name] for name in ("guest-info", "guest-fsfreeze-status"))
        finally:
            agent.frozen = False
        assert told(agent, "guest-fsfreeze-status") == "thawed"
        assert result(agent, pid) == {"exited": True, "exitcode": 0}, "and nothing was lost"


def told(agent: FakeAgent, command: str, **arguments: object) -> object:
    text = agent.ask(json.dumps({"execute": command, "arguments": arguments}), 10)
    return json.loads(text)["return"]


def refusal(agent: FakeAgent, command: str, **arguments: object) -> str:
    with pytest.raises(AgentRefused) as refused:
        told(agent, command, **arguments)
    return str(refused.value)


def dialect_of(agent: FakeAgent) -> Dialect:
    version = tuple(map(int, told(agent, "guest-info")["version"].split(".")))
    return max((each for each in DIALECTS if each.since[:2] <= version), key=lambda each: each.since)


def started(agent: FakeAgent, argv: Sequence[str]) -> int:
    return told(agent, "guest-exec", path=argv[0], arg=argv[1:], **{"capture-output": True})["pid"]


def result(agent: FakeAgent, pid: int) -> dict[str, object]:
    while not (ended := told(agent, "guest-exec-status", pid=pid))["exited"]:
        agent.sleep(0.1)
    return ended


# --- bad answers


Lie = Callable[[FakeAgent, int], str]
"""What comes instead of an answer: given the agent and the seconds that it has."""


@dataclass(frozen=True)
class Kind:
    """One kind of bad answer to one command, from the ``nth`` time on; what it must end as, and else what breaks."""

    name: str
    command: str
    lie: Lie
    why: Why
    defect: str
    nth: int = 1


class LyingAgent(FakeAgent):
    """Honest but for one kind of answer."""

    def __init__(self, kind: Kind, dialect: Dialect = DIALECTS[0]) -> None:
        super().__init__(dialect)
        self._kind = kind

    def answer(self, command: str, arguments: dict[str, object], seconds: int) -> str:
        if command == self._kind.command and self.asked.count(command) >= self._kind.nth:
            return self._kind.lie(self, seconds)
        return super().answer(command, arguments, seconds)


def says(text: str) -> Lie:
    return lambda _agent, _seconds: text


def returns(value: object) -> Lie:
    return says(json.dumps({"return": value}))


def refuses(text: str) -> Lie:
    return fails(AgentRefused(text))


def forbids(text: str) -> Lie:
    def lie(agent: FakeAgent, _seconds: int) -> str:
        agent.disabled.add("guest-exec-status")
        raise AgentRefused(text)

    return lie


def fails(error: PlimsollError) -> Lie:
    def lie(_agent: FakeAgent, _seconds: int) -> str:
        raise error

    return lie


def hangs(error: PlimsollError) -> Lie:
    """libvirt's own 5 s and the time of the answer pass, and nothing comes."""

    def lie(agent: FakeAgent, seconds: int) -> str:
        agent.now += 5 + seconds
        raise error

    return lie


def freezes(agent: FakeAgent, seconds: int) -> str:
    agent.frozen = True
    return FakeAgent.answer(agent, "guest-exec-status", {}, seconds)


def freezes_before_it_starts(agent: FakeAgent, seconds: int) -> str:
    agent.frozen = True
    return FakeAgent.answer(agent, "guest-exec", {}, seconds)


def freezes_and_melts(agent: FakeAgent, seconds: int) -> str:
    agent.disabled.add("guest-fsfreeze-status")
    return freezes(agent, seconds)


def reboots(agent: FakeAgent, seconds: int) -> str:
    agent.reboot()
    return FakeAgent.answer(agent, "guest-exec-status", {"pid": 4321}, seconds)


def loses_the_result(agent: FakeAgent, seconds: int) -> str:
    agent.reboot()
    if agent.asked.count("guest-exec-status") > 1:
        raise AgentRefused(agent.dialect.unknown_pid)
    return hangs(AgentTimedOut("Guest agent not available for now"))(agent, seconds)


def commands(*listed: object) -> Lie:
    return returns({"version": "7.2.22", "supported_commands": list(listed)})


def _status(name: str, lie: Lie, defect: str, why: Why = Why.NONSENSE, nth: int = 1) -> Kind:
    return Kind(name, "guest-exec-status", lie, why, defect, nth)


def _ended(name: str, defect: str, **keys: object) -> Kind:
    return _status(name, returns({"exited": True, "exitcode": 0} | keys), defect)


def _started(name: str, lie: Lie, defect: str, why: Why = Why.NONSENSE) -> Kind:
    return Kind(name, "guest-exec", lie, why, defect)


def _info(name: str, lie: Lie, defect: str, why: Why = Why.NONSENSE) -> Kind:
    return Kind(name, "guest-info", lie, why, defect)


EXEC = {"name": "guest-exec", "enabled": True}
STATUS = {"name": "guest-exec-status", "enabled": True}
NO_WORD = AgentTimedOut("Guest agent is not responding: Guest agent not available for now")
NOBODY = AgentAway("Guest agent is not responding: QEMU guest agent is not connected")

KINDS = (
    # no answer at all by JSON's rules
    _status("empty", says(""), "an error of the parser ends plimsoll"),
    _status("not JSON", says("exited"), "an error of the parser ends plimsoll"),
    _status("half of it", says('{"return": {"exited": tr'), "an error of the parser ends plimsoll"),
    _status("text after it", says('{"return": {"exited": false}} and more'), "the rest is not seen"),
    _status("two answers", says('{"return": {"exited": false}}' * 2), "the wrong one of two is believed"),
    _status("a list for an answer", says("[]"), "TypeError"),
    _status("a number for an answer", says("7"), "TypeError"),
    _status("nothing returned", says("{}"), "KeyError"),
    _status("an error as text", says('{"error": {"class": "GenericError", "desc": "no"}}'), "KeyError"),
    _status("an error of a megabyte", says(json.dumps({"error": {"desc": "x" * MIB}})), "a megabyte in a log line"),
    _status("another key twice", says('{"return": {"exited": false}, "return": {}}'), "the last one wins unseen"),
    _status(
        "exited twice",
        says('{"return": {"exited": false, "exited": true, "exitcode": 0}}'),
        "two readers see two different answers",
    ),
    _status("NaN", says('{"return": {"exited": true, "exitcode": NaN}}'), "Python takes it, and int() does not"),
    _status("Infinity", says('{"return": {"exited": true, "exitcode": Infinity}}'), "OverflowError from int()"),
    _status("lists in lists", lambda *_: "[" * 200_000, "RecursionError"),
    _status("objects in objects", lambda *_: '{"return":' * 50_000, "RecursionError"),
    _status("deep and well-formed", lambda *_: '{"return":' + "[" * 150_000 + "]" * 150_000 + "}", "RecursionError"),
    _status("megabytes", lambda *_: json.dumps({"return": {"out-data": "A" * 4 * MIB}}), "memory"),
    _status("megabytes of lists", lambda *_: '{"return": [' + "[]," * MIB + "[]]}", "memory: 56 bytes for each"),
    _status("a number of megabytes", lambda *_: '{"return": ' + "9" * 4 * MIB + "}", "a second of the CPU for int()"),
    _status("a number of many digits", says('{"return": ' + "9" * 5000 + "}"), "ValueError from int()"),
    _status("not UTF-8", fails(AgentGarbled("the agent's answer is not UTF-8")), "UnicodeDecodeError"),
    # JSON, and no status
    _status("null", returns(None), "TypeError"),
    _status("a list", returns([]), "TypeError"),
    _status("a text", returns("exited"), "a text has an 'exited' in it"),
    _status("an empty status", returns({}), "KeyError"),
    _status("exited is a text", returns({"exited": "false"}), "a text is true"),
    _status("exited is a number", returns({"exited": 1, "exitcode": 0}), "a number is true"),
    _status("exited is null", returns({"exited": None}), "null is false for ever"),
    _status("runs with an exit code", returns({"exited": False, "exitcode": 0}), "waits for what has ended"),
    _status("runs with a signal", returns({"exited": False, "signal": 9}), "waits for what has ended"),
    _status("ended without how", returns({"exited": True}), "success is assumed"),
    _ended("ended in two ways", "which one is chance", signal=9),
    _ended("exit code is true", "true is 1", exitcode=True),
    _ended("exit code is a float", "0.0 is 0", exitcode=0.0),
    _ended("exit code is a text", "TypeError", exitcode="0"),
    _ended("exit code is null", "TypeError", exitcode=None),
    _ended("exit code is negative", "taken for a signal", exitcode=-9),
    _ended("exit code is large", "no process has it", exitcode=256),
    _status("signal 0", returns({"exited": True, "signal": 0}), "a signal that none is is no signal"),
    _status("a large signal", returns({"exited": True, "signal": 2**40}), "no process has it"),
    _ended("bad base64", "binascii.Error", **{"out-data": "%%%%"}),
    _ended("base64 without its end", "binascii.Error", **{"out-data": "QUJDQQ"}),
    _ended("base64 with a line feed", "what is not base64 is dropped unseen", **{"out-data": "QUJD\nQUJD"}),
    _ended("base64 of umlauts", "ValueError of another kind", **{"out-data": "QUJä"}),
    _status(
        "base64 with half a character",
        says(r'{"return": {"exited": true, "exitcode": 0, "out-data": "\ud800"}}'),
        "UnicodeEncodeError",
    ),
    _ended("output is a list", "TypeError", **{"out-data": ["QUJD"]}),
    _ended("output is a number", "TypeError", **{"out-data": 7}),
    _ended("errors are bad base64", "only one of two streams is looked at", **{"err-data": "%"}),
    _ended("output cut off", "half a result is believed", **{"out-data": "QUJD", "out-truncated": True}),
    _ended("errors cut off", "half a result is believed", **{"err-data": "QUJD", "err-truncated": True}),
    _ended("cut off is a text", "a text is true", **{"out-truncated": "no"}),
    _ended("more keys than any agent has", "memory", **{f"key{number}": [] for number in range(10_000)}),
    _ended("another's pid", "another program's result is believed", pid=1),
    _ended("a pid that is none", "1.0 is 1", pid=4321.0),
    # what befalls a program
    _status("never exits", returns({"exited": False}), "waits for ever", Why.UNFINISHED),
    _status("silent", hangs(NO_WORD), "waits for ever", Why.AGENT_TIMED_OUT),
    _status("gone silent", hangs(NO_WORD), "waits for ever", Why.AGENT_TIMED_OUT, nth=3),
    _status("nobody listens", fails(NOBODY), "asks as fast as it can, for ever", Why.AGENT_TIMED_OUT),
    _status("answer lost", loses_the_result, "taken for a reboot", Why.AGENT_TIMED_OUT),
    _status("rebooted", reboots, "waits for ever", Why.REBOOTED),
    _status("frozen for ever", freezes, "waits for ever", Why.FROZEN),
    _status("frozen and will not say", freezes_and_melts, "waits for ever", Why.EXEC_FORBIDDEN),
    _status("frozen by its words only", refuses("the agent is in frozen state"), "for ever", Why.REBOOTED),
    _status("forbidden meanwhile", forbids("Command has been disabled"), "waits for ever", Why.EXEC_FORBIDDEN),
    _status("refused with a megabyte", forbids("no " * MIB), "a megabyte in a log line", Why.EXEC_FORBIDDEN),
    _status("refused in colour", forbids("\x1b[31mno\r\n\u202e"), "escapes on a terminal", Why.EXEC_FORBIDDEN),
    _status("not-found", fails(NotFound("the guest is gone")), "waits for ever", Why.NOT_FOUND),
    _status("libvirt lost", fails(DeadlineExceeded("the connection was lost")), "waits for ever", Why.UNREACHABLE),
    _status("libvirt hangs", hangs(DeadlineExceeded("no answer")), "overdraws the deadline", Why.UNREACHABLE),
    _status("channel unplugged", fails(NoAgent("none")), "waits for what cannot come", Why.AGENT_ABSENT),
    # no program
    _started("pid is true", returns({"pid": True}), "asks for the status of init"),
    _started("pid is 0", returns({"pid": 0}), "no process has it"),
    _started("pid is negative", returns({"pid": -1}), "no process has it"),
    _started("pid is huge", returns({"pid": 2**63}), "libvirt cannot send it back"),
    _started("pid is a float", returns({"pid": 7.0}), "7.0 is 7"),
    _started("pid is a text", returns({"pid": "7"}), "what the guest says goes back into a request"),
    _started("no pid", returns({}), "KeyError"),
    _started("a list for a pid", returns([7]), "TypeError"),
    _started("start is silent", hangs(NO_WORD), "asks again, and it runs twice", Why.AGENT_TIMED_OUT),
    _started("start in megabytes", lambda *_: "[" * 4 * MIB, "only a status is bounded"),
    _started(
        "no timeout in the guest",
        refuses("error was 'Failed to execute child process “timeout” (No such file or directory)'"),
        "said to be forbidden",
        Why.NOT_SUPPORTED,
    ),
    _started("SELinux", refuses("Failed to execute child process (Permission denied)"), "", Why.EXEC_FORBIDDEN),
    _started("frozen just now", freezes_before_it_starts, "said to be forbidden", Why.FROZEN),
    # no agent to run one
    _info("no channel", fails(NoAgent("none")), "said to be silent", Why.AGENT_ABSENT),
    _info("boots", fails(NOBODY), "said to be absent", Why.AGENT_TIMED_OUT),
    _info("hangs", hangs(NO_WORD), "waits for ever", Why.AGENT_TIMED_OUT),
    _info("no libvirt", fails(DeadlineExceeded("the connection was lost")), "said to be silent", Why.UNREACHABLE),
    _info("gone", fails(NotFound("the guest is gone")), "said to be silent", Why.NOT_FOUND),
    _info("exec forbidden", commands(EXEC | {"enabled": False}, STATUS), "tried anyway", Why.EXEC_FORBIDDEN),
    _info("status forbidden", commands(EXEC, STATUS | {"enabled": False}), "started blindly", Why.EXEC_FORBIDDEN),
    _info("too old", commands({"name": "guest-ping", "enabled": True}), "said to be forbidden", Why.NOT_SUPPORTED),
    _info("info forbidden", refuses("Command guest-info has been disabled"), "Rejected", Why.EXEC_FORBIDDEN),
    _info("no commands", returns({"version": "7.2.22"}), "TypeError"),
    _info("commands are a text", returns({"supported_commands": "guest-exec"}), "TypeError"),
    _info("commands are names", commands("guest-exec", "guest-exec-status"), "TypeError"),
    _info("a command without a name", commands({"enabled": True}), "KeyError"),
    _info("a name that is a list", commands({"name": [], "enabled": True}), "not hashable"),
    _info("enabled is a text", commands(EXEC | {"enabled": "false"}, STATUS), "a text is true"),
    _info("enabled and not", commands(EXEC, STATUS, EXEC | {"enabled": False}), "the last one wins unseen"),
    _info("a million commands", lambda *_: '{"return": [' + "{}," * MIB + "{}]}", "memory: 64 bytes for each"),
    _info(
        "a version in colour, without end",
        lambda *_: json.dumps({"return": {"version": "\x1b" * 10_000, "supported_commands": []}}),
        "a megabyte in a log line",
        Why.NOT_SUPPORTED,
    ),
    Kind("melting", "guest-fsfreeze-status", returns("melting"), Why.NONSENSE, "not frozen is assumed"),
    Kind("frozen is a list", "guest-fsfreeze-status", returns(["frozen"]), Why.NONSENSE, "not frozen is assumed"),
    Kind("frozen", "guest-fsfreeze-status", returns("frozen"), Why.FROZEN, "said to be forbidden"),
    Kind("Windows", "guest-get-osinfo", returns({"id": "mswindows"}), Why.NOT_SUPPORTED, "said to have no timeout"),
    Kind("no system", "guest-get-osinfo", returns([]), Why.NONSENSE, "TypeError"),
)
