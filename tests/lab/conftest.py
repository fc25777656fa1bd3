"""The lab's fixtures: started when first asked for, once a run; and the order and time of the groups."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import pytest

from plimsoll_agent.adapters.libvirt import Libvirt
from tests.lab.cloud import Cloud, Guest, Nova, OpenStack
from tests.lab.cloud.disk import Disk, ephemeral, volume
from tests.lab.cloud.etcd import Etcd
from tests.lab.cloud.fleet import Fleet
from tests.lab.cloud.nagios import Nagios
from tests.lab.cloud.prometheus import Prometheus

GROUPS = ("hosts", "shared", "quiet", "hurt")
_spent: dict[str, float] = {}


def pytest_configure(config: pytest.Config) -> None:
    # openstacksdk 4 warns of itself at every turn.
    config.addinivalue_line("filterwarnings", "ignore:::openstack")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The cheapest fixtures first; what hurts comes last."""
    for item in items:
        if _group(item) is None:
            raise pytest.UsageError(f"{item.nodeid}: a lab test is one of {', '.join(GROUPS)}")
    items.sort(key=lambda item: GROUPS.index(_group(item) or ""))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    group = next((group for group in GROUPS if group in report.keywords), "")
    _spent[group] = _spent.get(group, 0) + report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    spent = ", ".join(f"{group} {_spent[group]:.0f} s" for group in GROUPS if group in _spent)
    terminalreporter.write_line(f"lab groups: {spent}")


def _group(item: pytest.Item) -> str | None:
    return next((group for group in GROUPS if item.get_closest_marker(group)), None)


@pytest.fixture(scope="session")
def nothing_up(pytestconfig: pytest.Config) -> Iterator[Cloud]:
    """The cloud before its first part is up. ``PLIMSOLL_LAB_KEEP=1`` leaves it up at the end."""
    reporter = pytestconfig.pluginmanager.getplugin("terminalreporter")
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(line)

    cloud = Cloud(say=say)
    try:
        yield cloud
    finally:
        if not os.environ.get("PLIMSOLL_LAB_KEEP"):
            cloud.down()


@pytest.fixture(scope="session")
def cloud(nothing_up: Cloud) -> Cloud:
    """Ceph and libvirtd; guests come with the fixtures below."""
    nothing_up.up(("ceph", "libvirt"))
    return nothing_up


@pytest.fixture(scope="session")
def etcd(nothing_up: Cloud) -> Etcd:
    """An etcd of the cloud, which needs no other part."""
    nothing_up.up(["etcd"])
    return nothing_up.etcd


@pytest.fixture(scope="session")
def prometheus(nothing_up: Cloud) -> Prometheus:
    """Prometheus with two nodes to scrape and an Alertmanager, which needs no other part."""
    nothing_up.up(["prometheus"])
    return nothing_up.prometheus


@pytest.fixture(scope="session")
def nagios(nothing_up: Cloud) -> Nagios:
    """Nagios, and the NRPE of a node, which need no other part."""
    nothing_up.up(["nagios"])
    return nothing_up.nagios


@pytest.fixture(scope="session")
def fleet(cloud: Cloud) -> Fleet:
    """Six hosts with systemd in two regions, the first of them with the cloud's libvirtd and Ceph."""
    cloud.up(["fleet"])
    return cloud.fleet


@pytest.fixture(scope="session")
def openstack(cloud: Cloud) -> Iterator[OpenStack]:
    """Keystone and Cinder, in the same Ceph as the guests' disks."""
    cloud.up(["openstack"])
    yield cloud.openstack
    cloud.openstack.close()


@pytest.fixture(scope="session")
def nova(openstack: OpenStack, cloud: Cloud) -> Nova:
    """Nova with one compute node, which takes a minute to come up; its guests are on a libvirtd of their own."""
    cloud.up(["nova"])
    return cloud.nova


@pytest.fixture(scope="session")
def booted(cloud: Cloud) -> Guest:
    """The one guest with a system in it: vda its own, vdb a volume with a file system."""
    return cloud.booted_guest()


@pytest.fixture
def guests(cloud: Cloud) -> Iterator[Callable[..., list[Guest]]]:
    """Makes paused guests, two disks each unless told otherwise; they go with the test."""
    made: list[Guest] = []

    def make(number: int = 1, disks: Sequence[Disk] | None = None) -> list[Guest]:
        each = [list(disks) if disks is not None else [ephemeral(2**30), volume(2**30)] for _ in range(number)]
        new = cloud.paused_guests(each)
        made.extend(new)
        return new

    yield make
    cloud.destroy_guests(made)


@pytest.fixture
def hypervisor(cloud: Cloud) -> Iterator[Libvirt]:
    hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=4)
    yield hypervisor
    hypervisor.close()
