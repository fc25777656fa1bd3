"""Units of OSDs on a host with systemd, over ssh: started, and not restarted, as ``plimsoll return`` does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lab.cloud.fleet import Fleet
from lab.waiting import until
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.adapters.returning_osds import OsdHosts
from plimsoll_insight.ordered_return.hosts import Ways

pytestmark = pytest.mark.hosts

HOST = "r1-c3"
# What matters of ceph-osd@.service; the process does nothing, but is called so.
UNIT = """[Unit]
StartLimitInterval=30min
StartLimitBurst=3
[Service]
ExecStart=/usr/local/bin/ceph-osd -f --cluster ceph --id %i --setuser ceph --setgroup ceph
Restart=on-failure
RestartSec=1
"""
PROGRAM = "#!/bin/sh\nwhile :; do sleep 1; done\n"


@pytest.fixture
def hosts(fleet: Fleet) -> Iterator[OsdHosts]:
    for path, text in (("/etc/systemd/system/ceph-osd@.service", UNIT), ("/usr/local/bin/ceph-osd", PROGRAM)):
        fleet.run(HOST, f"cat > {path} <<'END'\n{text}END\nchmod 755 {path}")
    fleet.run(HOST, "systemctl daemon-reload")
    on_host = tuple(fleet.ssh(HOST))
    ways = Ways(
        on_host=on_host,
        unit="ceph-osd@{osd}.service",
        start=("systemctl", "start"),
        restart=("systemctl", "restart"),
        fsid="f",
    )
    yield OsdHosts(ways=ways, host_of={7: HOST, 8: HOST}, deadline=30)
    fleet.run(HOST, "systemctl kill -s KILL 'ceph-osd@*'; systemctl stop 'ceph-osd@*'; systemctl reset-failed;"
                    " rm /etc/systemd/system/ceph-osd@.service /usr/local/bin/ceph-osd; systemctl daemon-reload",
              check=False)  # fmt: skip


def test_an_osd_starts_after_too_many_failures_and_no_other_is_restarted_for_that_time(
    hosts: OsdHosts, fleet: Fleet
) -> None:
    def kill(osd: int) -> None:
        fleet.run(HOST, f"systemctl kill --signal=KILL ceph-osd@{osd}.service")

    def comes_to(*states: str) -> Callable[[], bool]:
        return lambda: [hosts.conditions([7, 8])[osd] for osd in (7, 8)] == list(states)

    hosts.start([7, 8])
    until(comes_to("active", "active"))
    view = hosts.view(HOST)
    assert view.memory is not None
    assert set(view.resident) == {7, 8}
    for _ in range(3):  # by its unit, and then no more
        kill(8)
        until(lambda: (hosts.conditions([8])[8].startswith(("active", "failed")) and 8 in hosts.view(HOST).resident)
              or hosts.conditions([8])[8].startswith("failed"))  # fmt: skip
    until(comes_to("active", "failed (signal)"))
    hosts.forbid_restarts(HOST, True)
    hosts.start([8])
    until(comes_to("active", "active"))
    kill(7)
    until(comes_to("failed (signal)", "active"))
    fleet.run(HOST, "sleep 3")
    assert comes_to("failed (signal)", "active")()
    hosts.forbid_restarts(HOST, False)
    hosts.start([7])
    kill(7)
    until(comes_to("active", "active"))
    assert "zz-plimsoll-return" not in fleet.run(HOST, "find /run/systemd/system")


def test_a_host_that_is_out_of_reach_has_an_unknown_memory_and_starts_nothing(hosts: OsdHosts) -> None:
    ssh = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=2", "192.0.2.{host}")
    away = OsdHosts(ways=replace(hosts.ways, on_host=ssh), host_of={7: "1"}, deadline=10)
    view = away.view("1")
    assert (view.memory, view.trouble != "", away.conditions([7])) == (None, True, {})
    with pytest.raises(PlimsollError):
        away.start([7])
