"""What hostile guests cost the node, with all loaded that a probe loads, and how libvirt's word of them is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import libvirt
import libvirt_qemu
import pytest

from plimsoll_agent.adapters.libvirt.client import Libvirt
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
    Rejected,
)

MIB = 2**20
# getrusage(2) counts what whoever started the program had, too.
HIGHEST = """
def highest():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
"""
ROOT = Path(__file__).parents[2]

HELD = """
import json
import plimsoll_agent.adapters.libvirt.client
import plimsoll_probes.execute.runner
from plimsoll_probes.model.finding import Trouble
from plimsoll_probes.guest.agent_shell import GuestShell
from tests.fakeagent import KINDS, SLEEPS, LyingAgent

for kind in KINDS:
    agent = LyingAgent(kind)
    shell = GuestShell(agent.ask, agent.sleep, agent.clock)
    try:
        shell.check()
        shell.run(SLEEPS, seconds=30)
    except Trouble:
        pass
    else:
        raise SystemExit(f"{kind.name}: believed")
print(json.dumps({"kinds": len(KINDS), "peak": highest()}))
"""

LARGEST = """
import json
import plimsoll_agent.adapters.libvirt.client
import plimsoll_probes.execute.runner
from plimsoll_probes.model.finding import Trouble
from plimsoll_probes.guest.qga_exec import LONGEST_ANSWER
from plimsoll_probes.guest.agent_shell import GuestShell
from tests.fakeagent import FAILS, Kind, LyingAgent

def repeated(beginning, unit, end):
    return beginning + unit * ((LONGEST_ANSWER - len(beginning) - len(end)) // len(unit)) + end

# As long as is still parsed, and made of what takes the most of memory once it is.
TEXTS = (
    repeated('{"return": [', "[],", "[]]}"),
    repeated('{"return": [', "{},", "{}]}"),
    repeated('{"return": [', '{"":0},', "0]}"),
    repeated('{"return": [', '"\\U0001f40b",', '""]}'),
    repeated('{"return": [', "1e9,", "1]}"),
    '{"return": {' + ",".join(f'"{n}":[]' for n in range(LONGEST_ANSWER // 13)) + "}}",
)
for text in TEXTS:
    assert LONGEST_ANSWER * 0.8 < len(text) <= LONGEST_ANSWER, len(text)
    for command in ("guest-exec-status", "guest-info"):
        agent = LyingAgent(Kind("", command, lambda *_: text, None, ""))
        shell = GuestShell(agent.ask, agent.sleep, agent.clock)
        try:
            shell.check()
            shell.run(FAILS, seconds=30)
        except Trouble as trouble:
            continue
        raise SystemExit(text[:30])
print(json.dumps({"peak": highest()}))
"""


def spent(program: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HIGHEST + program],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, float] = json.loads(done.stdout)
    return told


def test_every_liar_together_costs_less_than_100_mib() -> None:
    told = spent(HELD)
    assert told["kinds"] >= 40
    assert told["peak"] < 100 * MIB


def test_the_longest_answers_that_are_parsed_cost_less_than_100_mib() -> None:
    assert spent(LARGEST)["peak"] < 100 * MIB


# --- what libvirt says of an agent


@pytest.fixture
def hypervisor(test_node: str) -> Iterator[Libvirt]:
    hypervisor = Libvirt(test_node, deadline=5, at_once=1)
    yield hypervisor
    hypervisor.close()


def failed(code: int, text: str, domain: int = libvirt.VIR_FROM_QEMU) -> libvirt.libvirtError:
    error = libvirt.libvirtError("virDomainQemuAgentCommand() failed")
    error.err = (code, domain, text, 2, "", None, None, -1, -1)
    error.args = (text,)
    return error


REFUSED = "internal error: unable to execute QEMU agent command 'guest-exec': "


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        # As they came from libvirt 9.0 in front of a real guest.
        (failed(74, "argument unsupported: QEMU guest agent is not configured"), NoAgent, "no channel"),
        (failed(86, "Guest agent is not responding: QEMU guest agent is not connected"), AgentAway, "not connected"),
        (
            failed(86, "Guest agent is not responding: QEMU guest agent is not available due to an error"),
            AgentAway,
            "due to an error",
        ),
        (failed(55, "Requested operation is not valid: domain is not running"), AgentAway, "not running"),
        (failed(86, "Guest agent is not responding: Guest agent not available for now"), AgentTimedOut, "for now"),
        (failed(86, "Guest agent disappeared while executing command"), AgentTimedOut, "disappeared"),
        (failed(97, "guest agent didn't respond to synchronization within '5' seconds"), AgentTimedOut, "synchroni"),
        (failed(112, "guest agent didn't respond to command within '5' seconds"), AgentTimedOut, "to command within"),
        (failed(1, REFUSED + "Command guest-exec has been disabled"), AgentRefused, "^Command guest-exec has been"),
        (failed(1, REFUSED + "x" * 10**6), AgentRefused, "^x{900,1000}$"),
        (failed(38, "No complete agent response found in 10485760 bytes"), AgentGarbled, "No complete"),
        (failed(1, "internal error: cannot parse json", libvirt.VIR_FROM_NONE), AgentGarbled, "cannot parse"),
        (libvirt.libvirtError("virDomainQemuAgentCommand() failed"), AgentTimedOut, "gives no reason"),
        (failed(68, "Timed out: cannot acquire state change lock (held by agent=…)"), NotSent, "busy"),
        (
            failed(38, "End of file while reading data", libvirt.VIR_FROM_RPC),
            DeadlineExceeded,
            "connection to libvirt",
        ),
        (failed(42, "Domain not found"), NotFound, "gone"),
        (failed(29, "operation forbidden: read only access prevents it"), Rejected, "read only"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), AgentGarbled, "UTF-8"),
    ],
)
def test_each_way_not_to_answer_is_told_from_the_others(
    hypervisor: Libvirt,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: type[PlimsollError],
    words: str,
) -> None:
    monkeypatch.setattr(libvirt_qemu, "qemuAgentCommand", raising(error))
    with pytest.raises(kind, match=words) as caught:
        hypervisor.agent(hypervisor.guests()[0].uuid, "{}", 1)
    assert caught.type is kind


def test_a_guest_that_stops_under_a_question_has_vanished(
    hypervisor: Libvirt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(domain: libvirt.virDomain, *_: object) -> str:
        domain.destroy()
        raise failed(86, "Guest agent is not responding: Guest agent disappeared while executing command")

    monkeypatch.setattr(libvirt_qemu, "qemuAgentCommand", stops)
    with pytest.raises(NotFound):
        hypervisor.agent(hypervisor.guests()[0].uuid, "{}", 1)


def test_a_driver_without_agents_says_so(hypervisor: Libvirt) -> None:
    with pytest.raises(Rejected, match="not supported"):
        hypervisor.agent(hypervisor.guests()[0].uuid, '{"execute": "guest-ping"}', 1)


def raising(error: Exception) -> Callable[..., str]:
    def raises(*_: object) -> str:
        raise error

    return raises
