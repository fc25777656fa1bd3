"""The daemon as a process that systemd would start, and in this process on events of libvirt's test driver."""

from __future__ import annotations

import gc
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import libvirt
import pytest

from plimsoll_agent.adapters.deadline import SharedCalls
from plimsoll_agent.adapters.libvirt import event_link
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.adapters.libvirt.event_link import EventLink
from plimsoll_agent.adapters.service_manager import ServiceManager
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import ConsoleSettings, DaemonSettings, MetricsSettings
from plimsoll_agent.daemon.catalogue_watch import CatalogueWatch
from plimsoll_agent.daemon.connections import MOST_CALLS, Connections
from plimsoll_agent.daemon.passes import Between, full_pass, guest_pass
from plimsoll_agent.daemon.rules_watch import RulesWatch
from plimsoll_agent.daemon.schedule import PassResult
from plimsoll_agent.daemon.service import DaemonSignal, Dependencies, Service
from plimsoll_agent.daemon.vitals import Vitals, may_have_another_thread, vitals
from plimsoll_agent.daemon.workers import FullPassResult
from plimsoll_agent.model.guest_events import Connected, EventKind, GuestEvent, LinkEvent
from plimsoll_agent.monitor import daemon_status
from plimsoll_agent.monitor.daemon_status import DaemonStatus
from plimsoll_agent.store.refresh_state import RefreshDir
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests import depth
from tests.functional.conftest import Ran
from tests.functional.daemons import PATIENT, Daemon, a_daemon

Run = Callable[..., Ran]
WARM = 20
PASSES = depth.count(quick=10, landing=50, soak=500)
SHARED = "test:///default"
"""All connections of a process to it share one world."""


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def known(daemon: Daemon) -> DaemonStatus | None:
    return daemon_status.load(State(daemon.directory / "state"))


# --- as a process


def test_systemd_hears_that_it_is_ready_how_it_is_and_that_it_stops(tmp_path: Path, test_node: str) -> None:
    with a_daemon(tmp_path, test_node) as daemon:
        daemon.until("READY=1")
        said = daemon.until("STATUS=events since")
        assert re.fullmatch(
            r"STATUS=events since \d{4}-\d\d-\d\d \d\d:\d\d UTC: \d+; passes over guests: \d+; .*", said
        )
        until(lambda: (found := known(daemon)) and found.last_full_pass)
        assert daemon.ended() == 0, daemon.err
        daemon.until("STOPPING=1")
    assert known(daemon) is None
    assert (tmp_path / "plimsoll-pass.prom").exists()
    assert not (tmp_path / "plimsoll-daemon.prom").exists()


def test_a_socket_with_an_abstract_name_is_spoken_to_and_the_watchdog_is_told(tmp_path: Path, test_node: str) -> None:
    with a_daemon(tmp_path, test_node, abstract=True, watchdog=0.3) as daemon:
        daemon.until("READY=1")
        for _ in range(3):
            daemon.until("WATCHDOG=1")
        assert daemon.ended() == 0


def test_sighup_reads_settings_again_and_keeps_those_before_if_they_are_bad(tmp_path: Path, test_node: str) -> None:
    with a_daemon(tmp_path, test_node) as daemon:
        daemon.until("READY=1")
        daemon.write("[daemon]\nfull_pass_interval = soon\n")
        daemon.signal(signal.SIGHUP)
        daemon.until("RELOADING=1")
        daemon.until("READY=1")
        until(lambda: (found := known(daemon)) and "full_pass_interval" in found.trouble)
        daemon.write("[daemon]\nfull_pass_interval = 2m\n")
        daemon.signal(signal.SIGHUP)
        daemon.until("READY=1")
        until(lambda: (found := known(daemon)) and (found.reloaded, found.full_pass_interval) == (True, 120))
        assert daemon.ended() == 0
    assert "daemon.conf" in daemon.err


def test_a_second_daemon_ends_with_75_and_names_the_first(tmp_path: Path, test_node: str, plimsoll: Run) -> None:
    with a_daemon(tmp_path, test_node) as daemon:
        daemon.until("READY=1")
        second = plimsoll("--config-file", str(daemon.config), "daemon")
        assert second.status == 75
        assert "another plimsoll daemon" in second.err


def test_without_libvirt_it_runs_and_says_so(tmp_path: Path) -> None:
    with a_daemon(tmp_path, "qemu+unix:///system?socket=/nonexistent") as daemon:
        daemon.until("READY=1")
        assert "no events: libvirt at qemu+unix" in daemon.until("STATUS=no events: libvirt")
        assert daemon.ended() == 0


def test_the_timers_pass_does_nothing_while_the_daemon_does_its_work(
    tmp_path: Path, test_node: str, plimsoll: Run
) -> None:
    def timers_pass() -> str:
        ran = plimsoll("--config-file", str(daemon.config), "enforce", "--unless-daemon", "--uri", test_node)
        assert ran.status == 0, ran.err
        return ran.out

    with a_daemon(tmp_path, test_node) as daemon:
        until(lambda: (found := known(daemon)) and found.last_full_pass)
        assert timers_pass().startswith(f"No pass: plimsoll daemon runs (pid {daemon.process.pid})")
        daemon.ended()
        assert "Mode is observe" in timers_pass()


def test_an_edited_mode_is_in_use_without_a_signal(tmp_path: Path, test_node: str, plimsoll: Run) -> None:
    with a_daemon(tmp_path, test_node) as daemon:
        until(lambda: (found := known(daemon)) and found.last_full_pass and found.mode == "observe")
        daemon.config.write_text(daemon.config.read_text().replace("[DEFAULT]", "[DEFAULT]\nmode = enforce"))
        until(lambda: (found := known(daemon)) and found.mode == "enforce")
        refused = plimsoll("--config-file", str(daemon.config), "undo", "--since", "1h", "--yes", "--uri", test_node)
        assert (refused.status, refused.out) == (64, "")
        assert "systemctl stop plimsoll-daemon.service" in refused.err
        daemon.ended()
    done = plimsoll("--config-file", str(daemon.config), "undo", "--since", "1h", "--yes", "--uri", test_node)
    assert done.status in (0, 1, 3), done.err


# --- on events of the test driver

GUEST = """<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory>8192</memory><os><type>hvm</type></os>
<devices><disk type='network' device='disk'><driver name='qemu' type='raw'/>
<source protocol='rbd' name='volumes/volume-6665c608-001a-4ea4-a2eb-d491b58efc11'><host name='127.0.0.1'/></source>
<target dev='vda' bus='virtio'/></disk>
<serial type='file'><source path='{log}'/></serial></devices></domain>"""


@pytest.fixture
def world() -> Iterator[Any]:
    """A connection to the world of this process; what is defined in it is taken away."""
    connection = libvirt.open(SHARED)
    before = {domain.name() for domain in connection.listAllDomains()}
    yield connection
    for domain in connection.listAllDomains():
        if domain.name() not in before:
            if domain.isActive():
                domain.destroy()
            domain.undefine()
    connection.close()


def define(connection: Any, log: Path = Path("/nonexistent")) -> Any:
    uuid = str(uuid4())
    return connection.defineXML(GUEST.format(name=f"instance-{uuid[:8]}", uuid=uuid, log=log))


def test_events_of_libvirt_are_told_as_values(world: Any) -> None:
    told: list[LinkEvent] = []
    link = EventLink(SHARED, told.append)
    until(lambda: Connected() in told)
    guest = define(world)
    guest.create()
    guest.suspend()
    guest.resume()
    guest.destroy()
    kinds = (EventKind.STARTED, EventKind.RESUMED, EventKind.STOPPED)
    uuid, name = guest.UUIDString(), guest.name()
    expected = [GuestEvent(uuid=uuid, name=name, kind=kind) for kind in kinds]
    until(lambda: [event for event in told if isinstance(event, GuestEvent) and event.uuid == uuid] == expected)
    link.close()
    count = len(told)
    guest.create()
    assert len(told) == count, "a closed link tells nothing"


def test_a_guest_whose_kernel_crashed_is_not_taken_for_one_that_stopped() -> None:
    panicked, loaded = libvirt.VIR_DOMAIN_EVENT_CRASHED_PANICKED, 1  # VIR_DOMAIN_EVENT_CRASHED_CRASHLOADED
    told: list[LinkEvent] = []
    link = EventLink.__new__(EventLink)
    link._ended, link._tell = threading.Event(), told.append
    guest = SimpleNamespace(UUIDString=lambda: "a", name=lambda: "instance")
    for detail in (panicked, loaded):
        link._lifecycle(None, guest, libvirt.VIR_DOMAIN_EVENT_CRASHED, detail, None)
    assert told == []
    link._lifecycle(None, guest, libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED, None)
    assert told == [GuestEvent(uuid="a", name="instance", kind=EventKind.STOPPED)]


def test_a_lost_connection_is_told_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_link, "LONGEST_WAIT", 0.1)
    told: list[LinkEvent] = []
    link = EventLink(SHARED, told.append)
    until(lambda: Connected() in told)
    link._closed.set()  # as libvirt's callback does
    until(lambda: told.count(Connected()) == 2)
    assert "was lost" in told[1].why  # type: ignore[union-attr]
    link.close()


def test_of_a_lost_connection_every_callback_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is left keeps libvirt's connection and its descriptor. libvirtd is gone, so each call is an error."""
    given, returned = list[int](), list[int]()

    def deregister(callback: int) -> None:
        returned.append(callback)
        raise libvirt.libvirtError("the connection was lost")

    lost = SimpleNamespace(
        setKeepAlive=lambda *_: None,
        registerCloseCallback=lambda *_: None,
        unregisterCloseCallback=lambda: returned.append(-1),
        domainEventRegisterAny=lambda *_: given.append(len(given)) or len(given) - 1,
        domainEventDeregisterAny=deregister,
        isAlive=lambda: False,
        close=lambda: None,
    )
    monkeypatch.setattr(libvirt, "open", lambda _: lost)
    link = EventLink.__new__(EventLink)
    link._uri, link._closed = "", threading.Event()
    with link._connected():
        pass
    assert len(given) > 1
    assert returned == [*given, -1]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_attempts_to_connect_come_later_each_time_up_to_a_minute(share: float) -> None:
    waits = [event_link.wait_after(failures, share) for failures in range(20)]
    assert waits == sorted(waits)
    assert waits[0] <= 1
    assert waits[-1] == max(60 * share, 6)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    rules = tmp_path / "rules.yaml"
    # The test driver refuses a base without a burst.
    rules.write_text("default: {limits: {total_iops_sec: 250, total_iops_sec_max: 250}}\n")
    whole = config.load([], [])
    settings = replace(
        whole,
        mode="enforce",
        uri=SHARED,
        state_dir=tmp_path / "state",
        rules_file=rules,
        pause_file=tmp_path / "paused",
        ceph=replace(whole.ceph, conf_files=(), blocking_checks=()),
        daemon=DaemonSettings(3600, 5),
    )
    service = Service(
        Dependencies(
            load=lambda: settings,
            stamp=lambda: None,
            connect=lambda chosen, writes, shared: Libvirt(
                chosen.uri, deadline=5, at_once=4, writes=writes, shared_calls=shared
            ),
            link=lambda chosen, tell: EventLink(chosen.uri, tell),
            manager=ServiceManager(),
        )
    )
    thread = threading.Thread(target=service.run, daemon=True)
    thread.start()
    until(lambda: service._counted.full_passes["done"] and service._counted.connected_since)
    yield service
    service.signal(DaemonSignal.STOP)
    thread.join(PATIENT)
    assert not thread.is_alive()


def test_a_guest_that_starts_gets_its_limits_on_libvirts_event(service: Service, world: Any) -> None:
    guest = define(world)
    guest.create()
    until(lambda: guest.blockIoTune("vda").get("total_iops_sec") == 250)
    until(lambda: service._counted.passes["changed"] == 1)


def test_hundreds_of_starts_and_stops_leave_no_threads_and_no_descriptors(service: Service, world: Any) -> None:
    guests = [define(world) for _ in range(10)]

    def churn(rounds: int) -> None:
        started = service._counted.events["started"] + rounds * len(guests)
        for _ in range(rounds):
            for guest in guests:
                guest.create()
                guest.destroy()
        until(lambda: service._counted.events["started"] == started)
        until(lambda: service._inbox.empty() and not service._workers.busy)

    churn(2)
    before = service._told()
    churn(10)
    after = service._told()
    assert after.threads <= before.threads + 8, "at most those of calls_at_once, of both sets of connections"
    assert after.descriptors <= before.descriptors + 16


ALL_OPTIONS = """
rules:
  - name: canaries
    match: {guest: [UUID]}
    override: true
    limits: {total_iops_sec: 250, total_iops_sec_max: 250}
    probe: {every: 6h, jobs: [read, write, mixed], directory: /var/tmp}
    objective: {p50: 10ms, p99: 50ms, slowest: 2s}
"""
MORE_MEMORY = 12 * 2**20
"""Bytes by which the process may be larger after so many passes: a tenth of what 500 threads would take."""


def test_hundreds_of_passes_over_the_node_with_every_option_take_no_more_of_anything(
    tmp_path: Path, world: Any
) -> None:
    """Each pass finds an external change, a new line on a console, and another catalogue; the rules change too."""
    log, rules, metrics = (tmp_path / name for name in ("console.log", "rules.yaml", "metrics"))
    metrics.mkdir()
    log.write_bytes(b"")
    guest = define(world, log)
    guest.create()
    whole = config.load([], [])
    settings = replace(
        whole,
        mode="enforce",
        uri=SHARED,
        state_dir=tmp_path / "state",
        rules_file=rules,
        pause_file=tmp_path / "paused",
        ceph=replace(whole.ceph, conf_files=(), blocking_checks=()),
        rounds=10**6,
        metrics=MetricsSettings(metrics, "disk"),
        consoles=ConsoleSettings(read=True),
        catalogue=replace(whole.catalogue, source="region-file", directory=tmp_path / "catalogue"),
    )
    RefreshDir(settings.catalogue.directory).prepare()
    shared, watch, between = SharedCalls(MOST_CALLS), CatalogueWatch(settings), Between()
    rules.write_text("{}")
    read = RulesWatch(rules)
    connections = Connections(
        lambda: Libvirt(settings.uri, deadline=5, at_once=4, writes=lambda *_: None, shared_calls=shared)
    )

    def passes(numbers: range) -> Vitals:
        for number in numbers:
            rules.write_text(ALL_OPTIONS.replace("UUID", guest.UUIDString()) + f"# {number // 10}")
            known = Catalogue(generation=number + 1, issued=datetime.now(UTC), source="north")
            catalogue.save(settings.catalogue.directory, known)
            watch.changed(settings)
            for _ in range(2):
                read.look(rules)
            guest.setBlockIoTune("vda", {"total_iops_sec": 900, "total_iops_sec_max": 901})
            with log.open("ab") as file:
                file.write(b"[  242.6] INFO: task jbd2/vda1-8:231 blocked for more than 120 seconds.\n")
            if number % 10 == 0:
                connections.renew()
            done = full_pass(settings, connections, between, lambda: None, read=read.text)
            assert done is FullPassResult.DONE
            assert guest_pass(settings, connections, between, guest.UUIDString(), lambda: None) is PassResult.IN_SYNC
            assert may_have_another_thread()
        gc.collect()
        return vitals()

    before = passes(range(WARM))
    after = passes(range(WARM, WARM + PASSES))
    print(f"{PASSES} passes: {before}, then {after}")
    assert guest.blockIoTune("vda")["total_iops_sec"] == 250
    stored = {path.name for path in metrics.iterdir()}
    assert stored == {"plimsoll-pass.prom", "plimsoll-console.prom"}
    assert (
        f'kind="hung-task",uuid="{guest.UUIDString()}"}} {WARM + PASSES - 1:.1f}'
        in (metrics / "plimsoll-console.prom").read_text()
    )
    assert after.threads <= before.threads + 2, "a connection that was renewed is closed in a thread"
    assert after.descriptors <= before.descriptors + 4
    assert after.memory <= before.memory + MORE_MEMORY
