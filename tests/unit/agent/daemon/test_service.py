"""The daemon's main loop on a fake hypervisor and a fake source of events, with real threads and files."""

from __future__ import annotations

import errno
import io
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from plimsoll_agent.adapters.deadline import SharedCalls
from plimsoll_agent.adapters.service_manager import ServiceManager
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.model import Catalogue, Volume
from plimsoll_agent.config.settings import DaemonSettings, MetricsSettings, Settings
from plimsoll_agent.daemon import schedule
from plimsoll_agent.daemon import service as module
from plimsoll_agent.daemon.service import DaemonSignal, Dependencies, Service, Tell, Writes
from plimsoll_agent.daemon.workers import FullPassEnded, FullPassResult, _Running
from plimsoll_agent.errors import ConfigError, DeadlineExceeded, PlimsollError, Unreachable
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.guest_events import Connected, Disconnected, EventKind, GuestEvent
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.monitor import daemon_status, pass_summary_file
from plimsoll_agent.monitor.daemon_status import DaemonStatus
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.store import clock
from plimsoll_agent.store.refresh_state import RefreshDir
from plimsoll_agent.store.state import Busy, State
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeGuest, FakeHypervisor, raising
from tests.unit.clouds import a_catalogue, a_spec, a_type
from tests.unit.node import guest
from tests.unit.places import NO_CLUSTER, settings_in

LIMIT = Limits(total_iops_sec=250)
RULES = "default: {limits: {total_iops_sec: 250}}\n"
PATIENT = 20.0


class Qemus(FakeHypervisor):
    """It tells of its writes, as libvirt does, and of those of others."""

    down = False

    def __init__(self, *guests: FakeGuest) -> None:
        super().__init__(*guests)
        self.tell: Tell = lambda _: None
        self.noted: Writes = lambda _, __: None
        self.gate = threading.Event()
        self.gate.set()
        self.held: str | None = None
        """Questions to this guest wait for the gate."""
        self.looked: list[str] = []

    def close(self) -> None: ...

    def look(self, uuid: str):  # type: ignore[no-untyped-def]  # as the base
        self.looked.append(uuid)
        if uuid == self.held:
            self.gate.wait(PATIENT)
        return super().look(uuid)

    def set_limits(self, asked: Disk, limits: Limits, *, alone: bool = False) -> None:
        self.noted(asked, limits.full_set())
        super().set_limits(asked, limits, alone=alone)
        self.tell(self.tuned(asked.guest.uuid, asked.target, limits))

    def tuned(self, uuid: str, target: str, limits: Limits) -> GuestEvent:
        return GuestEvent(uuid=uuid, name="instance", kind=EventKind.TUNABLE, target=target, limits=limits.full_set())


class Heard(ServiceManager):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []
        self.watchdog = 0.2

    def _send(self, message: str) -> None:
        self.sent.append(message)


class Fixture:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rules = directory / "rules.yaml"
        self.rules.write_text(RULES)
        (directory / "textfiles").mkdir()
        self.settings = settings_in(
            directory,
            ceph=NO_CLUSTER,
            metrics=MetricsSettings(directory / "textfiles", "disk"),
            daemon=DaemonSettings(3600, 5),
        )
        self.stamp = 0
        self.fault: PlimsollError | None = None
        self.qemus = Qemus(guest(1))
        self.manager = Heard()
        self.alive = True
        self.link_closed = False
        self.tell: Tell = lambda _: None
        self.service: Service | None = None
        self.thread: threading.Thread | None = None
        self.status: int | None = None

    @property
    def world(self) -> Dependencies:
        def load() -> Settings:
            if self.fault is not None:
                raise self.fault
            return self.settings

        def connect(_: Settings, writes: Writes, shared: SharedCalls) -> Qemus:
            if self.qemus.down:
                raise Unreachable("libvirt is down")
            self.qemus.noted = writes
            return self.qemus

        def link(_: Settings, tell: Tell) -> Fixture:
            self.tell = self.qemus.tell = tell
            return self

        return Dependencies(load=load, stamp=lambda: self.stamp, connect=connect, link=link, manager=self.manager)

    def close(self) -> None:
        self.link_closed = True

    def start(self, *, connected: bool = True) -> None:
        service = self.service = Service(self.world)

        def run() -> None:
            self.status = service.run()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        self.until(lambda: "READY=1" in self.manager.sent)
        if connected:
            self.tell(Connected())
            self.until(lambda: self.known is not None and self.known.connected_since is not None)
            self.until_idle()

    def until_idle(self) -> None:
        """No pass runs or is due now, and all messages are taken."""
        service = self.service
        assert service is not None
        self.until(
            lambda: (
                service._inbox.empty()
                and not service._workers.busy
                and not service._schedule._full_runs
                and service._schedule.wake_at() > time.monotonic()
            )
        )

    def until(self, true: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENT
        while not true():
            assert time.monotonic() < end
            assert self.status is None, "the daemon has ended"
            time.sleep(0.002)

    def happens(self, number: int, kind: EventKind) -> None:
        told = guest(number)
        self.tell(GuestEvent(uuid=told.uuid, name=told.name, kind=kind))

    def stop(self) -> int:
        assert self.service is not None
        self.service.signal(DaemonSignal.STOP)
        return self.ended()

    def ended(self) -> int:
        """Its exit status, once it has ended."""
        assert self.thread is not None
        self.thread.join(PATIENT)
        assert self.status is not None
        return self.status

    @property
    def known(self) -> DaemonStatus | None:
        return daemon_status.load(State(self.settings.state_dir))

    @property
    def passes(self) -> dict[str, int]:
        assert self.service is not None
        return dict(self.service._counted.passes)

    def actual(self, number: int) -> set[Limits]:
        return {disk.actual for disk in self.qemus.by_uuid[guest(number).uuid].disks.values()}


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fixture]:
    """What it does each second, and what are to be a second apart (``test_schedule``), it does ten times as often."""
    monkeypatch.setattr(module, "EVERY", 0.1)
    monkeypatch.setattr(module, "_SOON", 0.1)
    monkeypatch.setattr(schedule, "FULL_APART", 0.1)
    daemon = Fixture(tmp_path)
    yield daemon
    daemon.qemus.gate.set()
    if daemon.thread is not None and daemon.thread.is_alive():
        daemon.stop()


def test_the_first_full_pass_sets_limits_and_is_published(daemon: Fixture) -> None:
    daemon.start()
    assert daemon.actual(1) == {LIMIT}
    last = pass_summary_file.load(State(daemon.settings.state_dir))
    assert last is not None
    assert last.grade is Grade.GOOD
    assert daemon.service is not None
    next_pass = daemon.service._schedule.wake_at() - time.monotonic()
    assert next_pass > daemon.settings.daemon.full_pass_interval / 2, "sooner it is tried only where one failed"


def test_a_full_pass_that_finds_another_one_running_is_counted_and_guests_are_served(daemon: Fixture) -> None:
    state = State(daemon.settings.state_dir)
    state.prepare()
    with state.locked():
        daemon.start(connected=False)
        daemon.tell(Connected())
        daemon.until(lambda: state.busy)
        daemon.happens(1, EventKind.STARTED)
        daemon.until(lambda: daemon.actual(1) == {LIMIT})


def test_a_guest_that_starts_gets_its_limits_and_the_echo_leads_to_no_pass(daemon: Fixture) -> None:
    daemon.start()
    new = guest(2)
    daemon.qemus.by_uuid[new.uuid] = new
    daemon.happens(2, EventKind.STARTED)
    daemon.until(lambda: daemon.actual(2) == {LIMIT})
    daemon.until_idle()
    assert daemon.passes == {"changed": 1}


def test_a_pass_on_an_event_looks_at_that_guest_alone(daemon: Fixture) -> None:
    daemon.qemus.by_uuid[guest(2).uuid] = guest(2)
    daemon.start()
    daemon.qemus.looked.clear()
    daemon.happens(2, EventKind.DEVICE_ADDED)
    daemon.until(lambda: daemon.passes)
    daemon.until_idle()
    assert set(daemon.qemus.looked) == {guest(2).uuid}


def test_after_a_failed_trial_of_an_upgrade_no_event_leads_to_a_write(daemon: Fixture) -> None:
    daemon.start()
    state, versions = State(daemon.settings.state_dir), daemon.qemus.known_versions
    state.save_versions(None, versions)
    disk = daemon.qemus.by_uuid[guest(1).uuid].disks["vda"]
    disk.actual = disk.defined = Limits()
    writes = len(daemon.qemus.writes)
    daemon.happens(1, EventKind.STARTED)
    daemon.until(lambda: daemon.passes.get("failed") == 1)
    assert len(daemon.qemus.writes) == writes
    assert daemon.service is not None
    daemon.service.signal(DaemonSignal.RELOAD)  # its pass over the node tries
    daemon.until(lambda: (state.load_versions(), state.load_failed_trial()) == (versions, None))
    daemon.until(lambda: daemon.actual(1) == {LIMIT})


def test_an_external_change_is_reverted(daemon: Fixture) -> None:
    daemon.start()
    disk = daemon.qemus.by_uuid[guest(1).uuid].disks["vda"]
    disk.actual = disk.defined = Limits(total_iops_sec=9000)
    daemon.tell(daemon.qemus.tuned(guest(1).uuid, "vda", disk.actual))
    daemon.until(lambda: daemon.actual(1) == {LIMIT})
    daemon.until(lambda: daemon.passes == {"changed": 1})
    assert daemon.service is not None
    daemon.service.signal(DaemonSignal.RELOAD)
    state = State(daemon.settings.state_dir)
    daemon.until(lambda: (last := pass_summary_file.load(state)) and last.totals.corrected)
    last = pass_summary_file.load(state)
    assert last is not None
    assert last.totals.corrected == {"": 1}, "counted by the next pass over the node"
    assert [disk.corrected for disk in last.disks] == [1, 0]
    assert last.totals.outcomes[Kind.CHANGED] == 3


def test_a_guest_that_does_not_answer_is_set_aside_and_shown_and_others_are_served(daemon: Fixture) -> None:
    daemon.start()
    hung, new = daemon.qemus.by_uuid[guest(1).uuid], guest(2)
    hung.trouble = DeadlineExceeded("no answer from QEMU within 5 s")
    daemon.happens(1, EventKind.RESUMED)
    daemon.until(lambda: daemon.passes.get("unreachable"))
    daemon.qemus.by_uuid[new.uuid] = new
    daemon.happens(2, EventKind.STARTED)
    daemon.until(lambda: daemon.actual(2) == {LIMIT})
    assert daemon.service is not None
    daemon.service.signal(DaemonSignal.RELOAD)  # tells at once
    daemon.until(lambda: daemon.known and [one.uuid for one in daemon.known.set_aside] == [guest(1).uuid])
    daemon.until(lambda: any("set aside" in sent for sent in daemon.manager.sent))


def test_one_guest_that_hangs_does_not_delay_another(daemon: Fixture) -> None:
    daemon.start()
    daemon.qemus.held = guest(1).uuid
    daemon.qemus.gate.clear()
    daemon.qemus.looked.clear()
    daemon.happens(1, EventKind.RESUMED)
    daemon.until(lambda: daemon.qemus.looked == [guest(1).uuid])
    daemon.qemus.by_uuid[guest(2).uuid] = guest(2)
    daemon.happens(2, EventKind.STARTED)
    daemon.until(lambda: daemon.actual(2) == {LIMIT})
    assert not daemon.qemus.gate.is_set()


def test_after_a_reconnect_there_is_a_full_pass(daemon: Fixture) -> None:
    daemon.start()
    daemon.tell(Disconnected("the connection was lost"))
    new = guest(2)
    daemon.qemus.by_uuid[new.uuid] = new  # its event is lost
    daemon.tell(Connected())
    daemon.until(lambda: daemon.actual(2) == {LIMIT})
    daemon.until(lambda: daemon.known is not None and daemon.known.reconnects == 1)


def test_while_it_is_disconnected_it_says_so_and_full_passes_fail(daemon: Fixture) -> None:
    daemon.qemus.down = True
    daemon.start(connected=False)
    daemon.tell(Disconnected("libvirt at qemu:///system cannot be reached"))
    daemon.until(lambda: any("STATUS=no events: libvirt at" in sent for sent in daemon.manager.sent))
    daemon.until(lambda: (last := pass_summary_file.load(State(daemon.settings.state_dir))) and last.trouble)
    daemon.qemus.down = False
    daemon.tell(Connected())
    daemon.until(lambda: daemon.actual(1) == {LIMIT})


def test_events_that_find_the_queue_full_lead_to_a_full_pass(
    daemon: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.start()
    monkeypatch.setattr(module, "MOST_MESSAGES", 0)
    new = guest(2)
    daemon.qemus.by_uuid[new.uuid] = new
    daemon.happens(2, EventKind.STARTED)  # dropped
    monkeypatch.undo()
    daemon.happens(1, EventKind.RESUMED)
    daemon.until(lambda: daemon.actual(2) == {LIMIT})
    daemon.until(lambda: daemon.known and daemon.known.lost == 1)


def test_reload_reads_rules_and_settings(daemon: Fixture) -> None:
    daemon.start()
    assert daemon.service is not None
    daemon.rules.write_text(RULES.replace("250", "240"))
    daemon.settings = replace(daemon.settings, daemon=DaemonSettings(60, 5))
    daemon.service.signal(DaemonSignal.RELOAD)
    daemon.until(lambda: daemon.actual(1) == {Limits(total_iops_sec=240)})
    daemon.until(lambda: daemon.known and daemon.known.full_pass_interval == 60)
    reloading = next(index for index, sent in enumerate(daemon.manager.sent) if sent.startswith("RELOADING=1\nMONO"))
    assert "READY=1" in daemon.manager.sent[reloading:]


@pytest.mark.parametrize("suspended", [False, True])
def test_a_clock_that_is_set_ahead_ends_no_rule_and_a_suspended_machine_does(
    daemon: Fixture, monkeypatch: pytest.MonkeyPatch, suspended: bool
) -> None:
    now, ahead = datetime.now(UTC).replace(microsecond=0), timedelta()

    def read(boot: str) -> clock.Clocks:
        return clock.Clocks(
            wall=now + ahead, boot=boot, uptime=1000 + ahead.total_seconds() * suspended, synchronised=lambda: False
        )

    def after_a_pass_over_the_node() -> set[Limits]:
        assert daemon.service is not None
        before = daemon.service._counted.full_passes["done"]
        daemon.service.signal(DaemonSignal.RELOAD)
        daemon.until(lambda: daemon.service._counted.full_passes["done"] > before)  # type: ignore[union-attr]
        daemon.happens(1, EventKind.STARTED)
        daemon.until_idle()
        return daemon.actual(1)

    monkeypatch.setattr(clock, "read", read)
    ends = (now + timedelta(hours=2)).isoformat()
    rule = f"{{name: short, match: {{guest: [{guest(1).uuid}]}}, until: {ends}, limits: {{total_iops_sec: 100}}}}"
    daemon.rules.write_text(f"{RULES}rules: [{rule}]\n")
    daemon.start()
    assert daemon.actual(1) == {Limits(total_iops_sec=100)}
    ahead = timedelta(days=1)
    assert after_a_pass_over_the_node() == {LIMIT if suspended else Limits(total_iops_sec=100)}
    ahead = timedelta(days=1 * suspended)
    assert after_a_pass_over_the_node() == {LIMIT if suspended else Limits(total_iops_sec=100)}


def test_edited_settings_are_read_without_a_signal(daemon: Fixture) -> None:
    daemon.start()
    assert daemon.known is not None
    assert daemon.known.mode == "enforce"
    daemon.settings = replace(daemon.settings, mode="observe")
    daemon.stamp += 1
    daemon.until(lambda: daemon.known and daemon.known.mode == "observe")
    daemon.until_idle()
    disk = daemon.qemus.by_uuid[guest(1).uuid].disks["vda"]
    disk.actual = disk.defined = Limits()
    passes = sum(daemon.passes.values())
    daemon.happens(1, EventKind.STARTED)
    daemon.until(lambda: sum(daemon.passes.values()) > passes)
    assert disk.actual == Limits()


def test_edited_settings_with_a_fault_are_read_once(daemon: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    service = Service(daemon.world)
    daemon.fault, daemon.stamp = ConfigError("plimsoll.conf:3: rounds: must be at least 1"), 1
    service._look_at_settings(1.0)
    assert not service._counted.trouble, "it may be written just now"
    daemon.stamp = 2
    service._look_at_settings(2.0)
    assert not service._counted.trouble
    for second in (3.0, 4.0, 5.0):
        service._look_at_settings(second)
    assert service._counted.trouble
    assert caplog.text.count("plimsoll.conf:3: rounds") == 1
    daemon.fault, daemon.stamp = None, 3
    service._look_at_settings(6.0)
    service._look_at_settings(7.0)
    assert not service._counted.trouble


def test_no_pass_believes_a_rules_file_of_which_half_is_written(
    daemon: Fixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The other half has the rule by which the guest is left alone."""
    unmanaged = f"rules: [{{name: own, match: {{guest: [{guest(2).uuid}]}}, manage: false}}]\n"
    daemon.start()
    service = daemon.service
    assert service is not None
    half = RULES.replace("250", "240")
    with monkeypatch.context() as between_two_looks:
        between_two_looks.setattr(module, "EVERY", PATIENT)
        daemon.until(lambda: service._look_at > time.monotonic() + 2)
        daemon.rules.write_text(half)
        daemon.qemus.by_uuid[guest(2).uuid] = guest(2)
        done = service._counted.full_passes["done"]
        caplog.set_level(logging.INFO)
        daemon.happens(2, EventKind.STARTED)
        daemon.tell(Connected())  # which leads to a pass over the node
        daemon.until(lambda: "full pass: " in caplog.text and "changed just now" in caplog.text)
        assert (daemon.actual(1), daemon.actual(2)) == ({LIMIT}, {Limits()})
        assert service._counted.full_passes["done"] == done
        daemon.rules.write_text(half + unmanaged)
    service._look_at = 0.0
    daemon.happens(1, EventKind.RESUMED)
    daemon.until(lambda: service._rules._known.text == half + unmanaged)
    daemon.happens(2, EventKind.STARTED)
    daemon.happens(1, EventKind.STARTED)
    daemon.until(lambda: daemon.actual(1) == {Limits(total_iops_sec=240)})
    daemon.until_idle()
    assert daemon.actual(2) == {Limits()}


def test_a_reload_of_settings_with_a_fault_keeps_those_before_and_says_so(
    daemon: Fixture, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.start()
    assert daemon.service is not None
    daemon.fault = ConfigError("plimsoll.conf:3: rounds: must be at least 1")
    daemon.service.signal(DaemonSignal.RELOAD)
    daemon.until(lambda: daemon.known and daemon.known.trouble)
    assert "plimsoll.conf:3: rounds" in caplog.text
    metrics = daemon.directory / "textfiles/plimsoll-daemon.prom"
    daemon.until(lambda: "plimsoll_daemon_last_reload_successful 0" in metrics.read_text())
    disk = daemon.qemus.by_uuid[guest(1).uuid].disks["vda"]
    disk.actual = disk.defined = Limits()
    daemon.happens(1, EventKind.STARTED)
    daemon.until(lambda: daemon.actual(1) == {LIMIT})
    daemon.fault = None
    daemon.service.signal(DaemonSignal.RELOAD)
    daemon.until(lambda: daemon.known and daemon.known.reloaded)


def test_it_ends_when_what_runs_has_ended_and_leaves_no_sign_of_life(daemon: Fixture) -> None:
    daemon.start()
    daemon.qemus.held = guest(1).uuid
    daemon.qemus.gate.clear()
    daemon.happens(1, EventKind.RESUMED)
    daemon.until(lambda: daemon.service and daemon.service._workers.busy)
    assert daemon.service is not None
    assert daemon.thread is not None
    daemon.service.signal(DaemonSignal.STOP)
    daemon.until(lambda: "STOPPING=1" in daemon.manager.sent)
    assert daemon.thread.is_alive()
    daemon.qemus.gate.set()
    daemon.thread.join(PATIENT)
    assert daemon.status == 0
    assert (daemon.known, daemon.link_closed) == (None, True)
    assert not (daemon.directory / "textfiles/plimsoll-daemon.prom").exists()


def test_while_it_ends_what_is_due_is_not_begun_and_costs_nothing(
    daemon: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[float] = []
    turn = Service._turn
    monkeypatch.setattr(Service, "_turn", lambda service: (turns.append(time.monotonic()), turn(service)))
    daemon.start()
    daemon.qemus.held = guest(1).uuid
    daemon.qemus.gate.clear()
    daemon.qemus.looked.clear()
    daemon.happens(1, EventKind.RESUMED)
    daemon.until(lambda: daemon.qemus.looked == [guest(1).uuid])
    assert daemon.service is not None
    daemon.service.signal(DaemonSignal.STOP)
    daemon.until(lambda: "STOPPING=1" in daemon.manager.sent)
    daemon.qemus.by_uuid[guest(2).uuid] = guest(2)
    daemon.happens(2, EventKind.STARTED)
    daemon.until(lambda: daemon.service and daemon.service._schedule.queue)
    begun = len(turns)
    time.sleep(0.5)  # for the watchdog it wakes 15 times a second here
    assert len(turns) - begun < 50
    assert guest(2).uuid not in daemon.qemus.looked


def test_it_ends_by_its_deadline_without_a_pass_that_does_not(daemon: Fixture) -> None:
    daemon.settings = replace(daemon.settings, daemon=DaemonSettings(3600, 0))
    daemon.start()
    daemon.qemus.held = guest(1).uuid
    daemon.qemus.gate.clear()
    daemon.happens(1, EventKind.RESUMED)
    daemon.until(lambda: daemon.service and daemon.service._workers.busy)
    assert daemon.stop() == 0
    assert not daemon.qemus.gate.is_set()


def test_a_second_daemon_does_not_start(daemon: Fixture) -> None:
    daemon.start()
    with pytest.raises(Busy, match="another plimsoll daemon"):
        Service(daemon.world).run()


def test_in_a_state_directory_that_was_deleted_it_takes_its_lock_again(
    daemon: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SOON", 1.0)  # nothing is written while it is deleted
    daemon.start()
    state = State(daemon.settings.state_dir)
    shutil.rmtree(state.directory)
    daemon.happens(1, EventKind.STARTED)  # the end of its pass is told within a second
    daemon.until(lambda: (state.directory / "daemon.lock").exists())
    with pytest.raises(Busy, match="another plimsoll daemon"):
        Service(daemon.world).run()
    daemon.until(lambda: daemon.known)


def test_a_time_without_descriptors_does_not_end_it(daemon: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.start()
    assert daemon.service is not None

    def exhausted(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as without:
        without.setattr(os, "open", exhausted)
        without.setattr(io, "open", exhausted)
        daemon.service._tell_how_it_is(time.monotonic())


def test_it_ends_where_another_daemon_has_locked_a_directory_that_was_deleted(
    daemon: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SOON", 1.0)  # nothing is written while it is deleted
    daemon.start()
    assert daemon.service is not None
    state = State(daemon.settings.state_dir)
    shutil.rmtree(state.directory)
    state.prepare()
    with state.daemon_locked(), pytest.raises(Busy, match="another plimsoll daemon"):
        daemon.service._tell_how_it_is(time.monotonic())


def test_the_watchdog_is_told_only_while_events_can_arrive(daemon: Fixture) -> None:
    daemon.start()
    count = daemon.manager.sent.count("WATCHDOG=1")
    daemon.until(lambda: daemon.manager.sent.count("WATCHDOG=1") > count)
    daemon.alive = False
    daemon.until(lambda: daemon.service and not daemon.service._healthy())
    time.sleep(0.1)  # a turn that was under way
    count = daemon.manager.sent.count("WATCHDOG=1")
    time.sleep(0.3)  # several turns: there is no event to wait for where nothing is sent
    assert daemon.manager.sent.count("WATCHDOG=1") == count


def test_the_watchdog_is_not_told_while_a_pass_is_stuck(daemon: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.settings = replace(daemon.settings, deadline=0, ceph=replace(daemon.settings.ceph, deadline=0))
    daemon.start()
    monkeypatch.setattr(module, "STUCK", 0.2)
    daemon.qemus.held = guest(1).uuid
    daemon.qemus.gate.clear()
    daemon.happens(1, EventKind.RESUMED)
    daemon.until(lambda: daemon.service and not daemon.service._healthy())
    daemon.qemus.gate.set()
    daemon.until(lambda: daemon.service and daemon.service._healthy())


def test_a_daemon_whose_passes_over_the_node_fail_in_a_row_ends_to_be_started_again(
    daemon: Fixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    often(monkeypatch)
    daemon.start()
    assert daemon.service is not None
    daemon.qemus.down = True
    for connections in daemon.service._connections:
        connections.renew()
    daemon.service.signal(DaemonSignal.RELOAD)
    assert daemon.ended() == 1
    assert daemon.service._counted.full_passes["failed"] == module.MOST_FAILURES
    told = "plimsoll daemon ends, to be started again: 5 passes over the node have failed in a row"
    assert [each.getMessage() for each in caplog.records].count(told) == 1
    assert (daemon.known, daemon.manager.sent.count("STOPPING=1") > 0) == (None, True)


def test_failed_passes_over_the_node_do_not_end_it_while_libvirt_is_away(
    daemon: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    often(monkeypatch)
    daemon.qemus.down = True
    daemon.start(connected=False)
    daemon.until(lambda: daemon.service and daemon.service._counted.full_passes["failed"] > module.MOST_FAILURES)
    daemon.qemus.down = False
    daemon.tell(Connected())
    daemon.until(lambda: daemon.actual(1) == {LIMIT})


def test_a_lost_connection_and_a_pass_that_is_done_end_the_row(daemon: Fixture) -> None:
    service = Service(daemon.world)

    def ended(result: FullPassResult, times: int = 1) -> None:
        for _ in range(times):
            service._schedule.begin_full_pass(time.monotonic())
            service._workers._running[""] = service._workers._running.get("") or _Running()
            service._take(FullPassEnded(result), time.monotonic())

    service._take(Connected(), 0.0)
    ended(FullPassResult.FAILED, module.MOST_FAILURES - 1)
    ended(FullPassResult.DONE)
    ended(FullPassResult.FAILED, module.MOST_FAILURES - 1)
    service._take(Disconnected("libvirt is down"), 0.0)
    service._take(Connected(), 0.0)
    ended(FullPassResult.FAILED, module.MOST_FAILURES - 1)
    ended(FullPassResult.BUSY, module.MOST_FAILURES)
    counts = dict(service._counted.full_passes)
    ended(FullPassResult.POSTPONED, module.MOST_FAILURES)
    assert service._counted.full_passes == counts
    assert service._schedule.wake_at() <= time.monotonic() + 2
    assert service._stop_by is None
    ended(FullPassResult.FAILED)
    assert service._stop_by is not None
    assert service._status == 1


def test_a_daemon_that_may_have_no_more_threads_ends_to_be_started_again(
    daemon: Fixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.start()
    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", raising(RuntimeError("can't start new thread")))
        assert daemon.service is not None
        daemon.service.signal(DaemonSignal.RELOAD)  # which also closes connections in a thread
        assert daemon.ended() == 1
    assert "to be started again: it may have no more threads" in caplog.text


def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Full passes that fail are tried again soon."""
    monkeypatch.setattr(schedule, "FULL_AGAIN", 0.01)
    monkeypatch.setattr(schedule, "FULL_APART", 0.0)


def test_in_mode_observe_nothing_is_written(daemon: Fixture) -> None:
    daemon.settings = replace(daemon.settings, mode="observe")
    daemon.start()
    daemon.happens(1, EventKind.STARTED)
    daemon.until(lambda: daemon.passes)
    assert daemon.qemus.writes == []


# --- another catalogue


def with_catalogue(daemon: Fixture) -> Catalogue:
    """One that does not know the volumes of the guests yet."""
    settings = daemon.settings
    directory = daemon.directory / "catalogue"
    daemon.settings = replace(
        settings, catalogue=replace(settings.catalogue, source="openstack", directory=directory)
    )
    RefreshDir(directory).prepare()
    gold = a_spec("gold-iops", total_iops_sec="500")
    known = replace(a_catalogue(gold, types=[a_type("gold", gold)]), issued=datetime.now(UTC))
    catalogue.save(directory, known)
    return known


def fetched(daemon: Fixture, known: Catalogue, number: int) -> None:
    """As a refresh that finds the type of the volumes of this guest."""
    met = State(daemon.settings.state_dir).load_attachments()
    now = datetime.now(UTC)
    own = {key.partition("/")[2] for key in met.volumes if key.startswith(guest(number).uuid)}
    assert own
    volumes = {
        id: Volume(type="id-of-gold", marks=frozenset(marks), read=now)
        for id, marks in met.marks_of_volumes().items()
        if id in own
    }
    catalogue.save(daemon.settings.catalogue.directory, replace(known, volumes=volumes))


def test_new_data_of_a_volume_leads_to_a_pass_over_its_guest_alone(daemon: Fixture) -> None:
    daemon.qemus = Qemus(guest(1), guest(2))
    known = with_catalogue(daemon)
    daemon.start()
    volume = daemon.qemus.by_uuid[guest(2).uuid].disks["vdb"]
    assert volume.actual == Limits(), "of an unknown type"
    service = daemon.service
    assert service is not None
    begun = service._counted.full_passes["done"]
    daemon.qemus.looked.clear()
    fetched(daemon, known, 2)
    daemon.until(lambda: volume.actual == Limits(total_iops_sec=500))
    daemon.until_idle()
    assert set(daemon.qemus.looked) == {guest(2).uuid}
    assert service._counted.events["catalogue"] == 1
    assert service._counted.full_passes["done"] == begun


def test_other_specs_lead_to_a_pass_over_the_node(daemon: Fixture) -> None:
    known = with_catalogue(daemon)
    daemon.start()
    service = daemon.service
    assert service is not None
    begun = service._counted.full_passes["done"]
    catalogue.save(daemon.settings.catalogue.directory, replace(known, specs={}, types={}))
    daemon.until(lambda: service._counted.full_passes["done"] == begun + 1)
    daemon.until_idle()
    assert service._counted.full_passes["done"] == begun + 1, "once"


def test_a_catalogue_without_news_leads_to_no_pass(daemon: Fixture) -> None:
    known = with_catalogue(daemon)
    daemon.start()
    service = daemon.service
    assert service is not None
    begun, looked = service._counted.full_passes["done"], service._catalogue._stamps
    catalogue.save(daemon.settings.catalogue.directory, replace(known, generation=2, issued=datetime.now(UTC)))
    daemon.until(lambda: service._catalogue._stamps != looked)
    daemon.until_idle()
    assert (service._counted.full_passes["done"], daemon.passes) == (begun, {})
