"""The agent in a real guest: what ``FakeAgent`` claims of it, and what befalls a probe when it is hurt."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from lab.cloud import Cloud, Guest
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_probes.guest.agent_shell import GuestShell
from plimsoll_probes.model.finding import Trouble, Why
from tests.fakeagent import CAT, DEAF, FAILS, KILLS_ITSELF, MEGABYTE, MIB, STAYS, AgentContract

pytestmark = pytest.mark.shared

SERVICE = "qemu-guest-agent"


class RealAgent:
    """As ``FakeAgent``, on libvirt. Frozen is the volume's file system only: the system goes on."""

    def __init__(self, libvirt: Libvirt, guest: Guest) -> None:
        self._libvirt = libvirt
        self.guest = guest

    def ask(self, request: str, seconds: int) -> str:
        return self._libvirt.agent(self.guest.uuid, request, seconds)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def clock(self) -> float:
        return time.monotonic()

    @property
    def frozen(self) -> bool:
        return bool(self.guest.agent("guest-fsfreeze-status") == "frozen")

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        if frozen:
            assert self.guest.agent("guest-fsfreeze-freeze-list", {"mountpoints": ["/mnt/volume"]}) == 1
        else:
            self.guest.agent("guest-fsfreeze-thaw")

    @property
    def shell(self) -> GuestShell:
        return GuestShell(self.ask, self.sleep, self.clock)

    def afterwards(self, script: str) -> None:
        """Run it in the guest, out of the agent's own control group, once the agent has said so and more."""
        unit = f"plimsoll-lab-{time.monotonic_ns()}"
        waits = f"until [ -e /run/{unit} ]; do sleep 0.1; done; sleep 0.3"
        done = self.guest.exec(["systemd-run", "--collect", f"--unit={unit}", "sh", "-c", f"{waits}; {script}"])
        assert done.exit_code == 0, done.err
        self.guest.agent("guest-file-open", {"path": f"/run/{unit}", "mode": "w"})


@pytest.fixture
def libvirt(cloud: Cloud) -> Iterator[Libvirt]:
    libvirt = Libvirt(cloud.libvirt_uri, deadline=20, at_once=4)
    yield libvirt
    libvirt.close()


@pytest.fixture
def agent(libvirt: Libvirt, booted: Guest) -> Iterator[RealAgent]:
    agent = RealAgent(libvirt, booted)
    yield agent
    booted.wait_for_agent(30)
    agent.frozen = False
    end = time.monotonic() + 30
    while not fit(agent):  # what a test did to it ends by itself
        assert time.monotonic() < end, "the guest is not as it was"
        time.sleep(0.3)


def fit(agent: RealAgent) -> bool:
    """Whether programs can be run in the guest."""
    try:
        agent.shell.check()
    except Trouble:
        return False
    return True


class TestRealAgent(AgentContract):
    pass


def why(act: Callable[[], object]) -> Why:
    with pytest.raises(Trouble) as caught:
        act()
    return caught.value.why


def found(act: Callable[[], object], last: Why, seconds: float = 15) -> list[Trouble]:
    """The troubles that it comes to one after another, until that one."""
    troubles: list[Trouble] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            act()
        except Trouble as trouble:
            troubles.append(trouble)
            if trouble.why is last:
                return troubles
        time.sleep(0.1)
    raise AssertionError(f"not {last} within {seconds:g} s: {[trouble.facts for trouble in troubles]}")


# --- programs


@pytest.mark.core
def test_programs_in_a_guest_end_as_they_should(agent: RealAgent) -> None:
    shell = agent.shell
    shell.check()
    ran = shell.run(FAILS, seconds=9)
    assert (ran.status, ran.out, ran.err) == (3, b"out\n", b"err\n")
    assert shell.run(KILLS_ITSELF, seconds=9).signal == 9
    given = bytes(range(256)) * 80
    assert shell.run(CAT, seconds=9, stdin=given).out == given
    assert shell.run(["head", "-c", str(MIB // 4), "/dev/urandom"], seconds=9).out[MIB // 4 - 1 :] != b""


def test_time_is_up_in_the_guest_for_a_program_and_its_children(agent: RealAgent) -> None:
    began = time.monotonic()
    assert agent.shell.run(STAYS, seconds=1).status == 124
    assert agent.shell.run(DEAF, seconds=1).signal == 9, "and one that does not hear is killed"
    assert time.monotonic() - began < 12
    left = agent.shell.run(["sh", "-c", "cat /proc/[0-9]*/comm"], seconds=9)
    assert "sleep" not in left.out.decode().split()


def test_too_much_output_costs_that_answer_and_nothing_else(agent: RealAgent) -> None:
    assert why(lambda: agent.shell.run(MEGABYTE, seconds=9)) is Why.NONSENSE
    # libvirt carries no text of more than 4 MiB, and the agent gives a result once.
    more = ["head", "-c", str(4 * MIB), "/dev/zero"]
    assert why(lambda: agent.shell.run(more, seconds=9)) is Why.AGENT_TIMED_OUT
    agent.shell.check()


# --- an agent that is hurt


def test_an_agent_that_hangs_is_silent_and_told_so_in_time(agent: RealAgent) -> None:
    agent.afterwards(f"p=$(systemctl show -p MainPID --value {SERVICE}); kill -STOP $p; sleep 9; kill -CONT $p")
    took: list[float] = []

    def check() -> None:
        began = agent.clock()
        try:
            agent.shell.check()
        finally:
            took.append(agent.clock() - began)

    found(check, Why.AGENT_TIMED_OUT)
    assert took[-1] < 11


@pytest.mark.core
def test_a_program_whose_agent_is_started_again_is_gone_with_it(agent: RealAgent) -> None:
    """As after a reboot: nobody knows its pid any more. Meanwhile nobody listens."""
    agent.afterwards(f"systemctl stop {SERVICE}; sleep 3; systemctl start {SERVICE}")
    heard: list[Why] = []

    def check() -> None:
        if not heard:
            heard.extend([] if fit(agent) else [why(agent.shell.check)])

    assert why(lambda: agent.shell.run(["sleep", "20"], seconds=20, tell=check)) is Why.REBOOTED
    assert heard == [Why.AGENT_TIMED_OUT]


def test_an_agent_that_forbids_programs_says_so(agent: RealAgent) -> None:
    blocked = f"timeout 5 qemu-ga --block-rpcs=guest-exec; systemctl start {SERVICE}"
    agent.afterwards(f"systemctl stop {SERVICE}; {blocked}")
    *before, _ = found(agent.shell.check, Why.EXEC_FORBIDDEN)
    assert all(trouble.why is Why.AGENT_TIMED_OUT for trouble in before), [trouble.facts for trouble in before]
    assert why(lambda: agent.shell.run(["true"], seconds=9)) is Why.EXEC_FORBIDDEN


# --- a guest that is not as it was


def test_a_frozen_guest_is_found_so_and_one_that_freezes_during_it_too(agent: RealAgent) -> None:
    agent.frozen = True
    try:
        assert why(agent.shell.check) is Why.FROZEN
        assert why(lambda: agent.shell.run(["true"], seconds=9)) is Why.FROZEN
    finally:
        agent.frozen = False
    moments = [time.monotonic() + 0.5, time.monotonic() + 2]

    def freeze_and_thaw() -> None:
        if moments and time.monotonic() > moments[0]:
            agent.frozen = len(moments) == 2
            del moments[0]

    ran = agent.shell.run(["sleep", "3"], seconds=9, tell=freeze_and_thaw)
    assert (ran.status, ran.frozen) == (0, True)
    assert not agent.shell.run(["true"], seconds=9).frozen


def test_guests_without_a_channel_paused_ones_and_gone_ones_are_told_apart(
    libvirt: Libvirt, cloud: Cloud, guests: Callable[..., list[Guest]]
) -> None:
    (guest,) = guests()
    agent = RealAgent(libvirt, guest)
    assert why(agent.shell.check) is Why.AGENT_TIMED_OUT, "it is paused"
    guest.domain().resume()
    assert why(agent.shell.check) is Why.AGENT_ABSENT
    cloud.destroy_guests([guest])
    assert why(agent.shell.check) is Why.NOT_FOUND
