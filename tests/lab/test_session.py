"""A session in a real guest, through its agent and libvirt."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lab.cloud import Cloud, Guest
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.guest.agent_shell import GuestShell
from plimsoll_probes.guest.session import SCRIPT, Session
from plimsoll_probes.model.finding import Trouble, Why
from plimsoll_probes.model.job import Job, JobName
from tests import depth, hostile

pytestmark = pytest.mark.shared

# Of its own: the sweep of another session in the same directory would end ours.
DIRECTORY = "/mnt/volume/test-session"
SIZE = 2**26
MINE = f"{DIRECTORY}/.plimsoll-probe-a"
FIO = f"for one in /proc/[0-9]*; do [ $one/cwd -ef {MINE} ] && cat $one/comm; done; true"


@pytest.fixture
def shell(booted: Guest, cloud: Cloud) -> Iterator[GuestShell]:
    libvirt = Libvirt(cloud.libvirt_uri, deadline=30, at_once=4)
    told(booted, f"mkdir -p {DIRECTORY}")
    yield GuestShell(
        lambda request, seconds: libvirt.agent(booted.uuid, request, seconds), sleep=time.sleep, clock=time.monotonic
    )
    libvirt.close()


def told(guest: Guest, words: str) -> str:
    done = guest.exec(["sh", "-c", words])
    assert done.exit_code == 0, done.err
    return done.out


def session(shell: GuestShell, name: str = "a") -> Session:
    return Session(shell=shell, directory=DIRECTORY, name=name, grace=30, keep_free=2**28)


def test_a_guest_is_measured_with_every_job_and_nothing_is_left(shell: GuestShell, booted: Guest) -> None:
    one = session(shell)
    began = time.monotonic()
    premises = one.look(SIZE)
    looked = time.monotonic() - began
    volume = booted.disks["vdb"]
    assert (premises.device, premises.filesystem) == ("vdb", "ext4")
    assert volume.volume_id is not None
    assert premises.serial == volume.volume_id[:20]
    one.fill(SIZE)
    added = []
    for name in JobName:
        job = Job(name=name, seconds=3, file_size=SIZE)
        began = time.monotonic()
        measured, frozen = one.run(job, premises)
        added.append(time.monotonic() - began - measured.seconds)
        assert [direction for direction, _ in measured.flows] == list(job.shares)
        assert measured.operations > 0
        assert measured.cpu_busy is not None
        assert not frozen
    began = time.monotonic()
    assert one.clean()
    print(f"look {looked:.1f} s, runs {added} s beside fio's, clean {time.monotonic() - began:.1f} s")
    assert told(booted, f"ls -A {DIRECTORY}") == ""


def test_a_guest_whose_file_system_is_too_small_is_left_as_it_is(shell: GuestShell, booted: Guest) -> None:
    with pytest.raises(Trouble) as caught:
        session(shell).look(2**40)
    assert caught.value.why is Why.NO_SPACE
    assert told(booted, f"ls -A {DIRECTORY}") == ""


def test_a_directory_in_memory_is_on_no_disk(shell: GuestShell) -> None:
    with pytest.raises(Trouble) as caught:
        replace(session(shell), directory="/dev/shm").look(SIZE)
    assert (caught.value.why, caught.value.facts["device"]) == (Why.NO_DISK, "tmpfs")


def test_what_a_killed_plimsoll_left_at_work_is_ended_by_the_next(shell: GuestShell, booted: Guest) -> None:
    class Killed(Exception):
        pass

    def kill() -> None:
        if "fio" in told(booted, FIO).split():
            raise Killed

    one = session(shell)
    premises = one.look(SIZE)
    one.fill(SIZE)
    with pytest.raises(Killed):
        one.run(Job(name=JobName.READ, seconds=120, file_size=SIZE), premises, kill)
    session(shell, "b").look(SIZE)
    assert told(booted, FIO) == ""
    assert told(booted, f"ls -A {DIRECTORY}") == ""


@pytest.mark.parametrize("kind", ["disk", "small"])
def test_an_owner_who_races_with_the_steps_gets_nothing_of_roots(booted: Guest, kind: str) -> None:
    """As tests/functional/test_session.py has it, with another kernel and the guest's own programs."""
    base = f"/mnt/volume/hostile-{kind}"
    told(booted, f"mkdir {base}")
    tries = depth.count(quick=1, landing=2, soak=500)
    try:
        for name, text in (("owner.pl", hostile.PROGRAM.read_text()), ("script", SCRIPT)):
            assert booted.exec(["sh", "-c", f"cat >{base}/{name}"], input=text).exit_code == 0
        sprung, rounds = 0, 0
        while sprung == 0:  # a slow guest may give the owner no turn in a few tries, which would prove nothing
            assert rounds < 10, "no trap was sprung"
            rounds += 1
            told(booted, f"mkdir {base}/{rounds}")
            words = hostile.words(f"{base}/script", f"{base}/{rounds}", tries, ["sh"], kind=kind, pause=0.03)
            ran = booted.exec(["perl", f"{base}/owner.pl", *words], timeout=120 + 60 * tries)
            assert ran.exit_code == 0, ran.err
            attacked = hostile.read(ran.out)
            assert attacked.lost == []
            assert (attacked.tries, attacked.won, attacked.hung) == (tries, 0, 0)
            sprung = attacked.sprung
    finally:
        told(booted, f"rm -rf {base}")
