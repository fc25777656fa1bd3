"""The lab's fixtures: started when first asked for, once a run; and the order and time of the groups."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from uuid import uuid4

import pytest

from lab.cloud import Cloud, Guest, LabError, Nova, OpenStack
from lab.cloud.disk import Disk, ephemeral, volume
from lab.cloud.etcd import Etcd
from lab.cloud.fleet import Fleet
from lab.cloud.layout import CHECKOUT
from lab.cloud.nagios import Nagios
from lab.cloud.prometheus import Prometheus
from plimsoll_agent.adapters.libvirt.client import Libvirt

# In the order in which they run: what measures rates is over before OpenStack and Nova take their share of the
# machine.
GROUPS = ("hosts", "faults", "newcomer", "quiet", "shared", "hurt")
# The dearest last; what has none of them needs paused guests at most.
COSTS = ("booted", "openstack", "nova")
LANES = {
    "openstack": ("openstack", True),
    "libvirt": ("openstack", False),
    "booted": ("booted", True),
    "rest": ("booted", False),
}
"""A fixture, and whether the lane's tests need it."""
_spent: dict[str, float] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lane",
        choices=LANES,
        help="only the tests that need OpenStack (openstack) or do not (libvirt), or that need a guest with a system "
        "in it (booted) or do not (rest); tests/lab/run.py runs the first two side by side with a libvirtd each, the "
        "other two with a cloud each",
    )


def pytest_configure(config: pytest.Config) -> None:
    # This process is measured; commands would only be slower for it, and functional tests measure them.
    os.environ.pop("COVERAGE_PROCESS_START", None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """By group, and within it the cheapest fixtures first."""
    for item in items:
        if _group(item) is None:
            raise pytest.UsageError(f"{item.nodeid}: a lab test is one of {', '.join(GROUPS)}")
    items.sort(key=lambda item: (GROUPS.index(_group(item) or ""), _cost(item)))
    if lane := config.getoption("lane"):
        fixture, needed = LANES[lane]
        others = [item for item in items if (fixture in _fixtures(item)) is not needed]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """In the lane of OpenStack Nova comes up while the first tests run, which do without it."""
    of_openstack = session.config.getoption("lane") == "openstack"
    desired = of_openstack and any("nova" in _fixtures(item) for item in session.items)
    if desired and not session.config.getoption("collectonly"):
        words = [sys.executable, "-m", "lab.cloud", "up", "--parts", "nova"]
        session.config.stash[_NOVA] = subprocess.Popen(
            words, cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    if up := config.stash.get(_NOVA, None):
        up.kill()
        up.communicate()


_NOVA = pytest.StashKey[subprocess.Popen[str]]()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    group = next((group for group in GROUPS if group in report.keywords), "")
    _spent[group] = _spent.get(group, 0) + report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    spent = ", ".join(f"{group} {_spent[group]:.0f} s" for group in GROUPS if group in _spent)
    terminalreporter.write_line(f"lab groups: {spent}")


def _group(item: pytest.Item) -> str | None:
    return next((group for group in GROUPS if item.get_closest_marker(group)), None)


def _fixtures(item: pytest.Item) -> Sequence[str]:
    """Those that it asks for, and those that these ask for."""
    names: Sequence[str] = getattr(item, "fixturenames", ())
    return names


def _cost(item: pytest.Item) -> int:
    return max((COSTS.index(name) + 1 for name in _fixtures(item) if name in COSTS), default=0)


@pytest.fixture(scope="session")
def nothing_up(pytestconfig: pytest.Config) -> Iterator[Cloud]:
    """The cloud before its first part is up. ``PLIMSOLL_LAB_KEEP=1`` leaves it up at the end."""
    reporter = pytestconfig.pluginmanager.getplugin("terminalreporter")
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(line)

    cloud = Cloud(say=say, aside=pytestconfig.getoption("lane") == "openstack")
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


@pytest.fixture(scope="module")
def prometheus(nothing_up: Cloud) -> Iterator[Prometheus]:
    """Prometheus with two nodes to scrape and an Alertmanager, which needs no other part.

    It stands still until the next module that asks for it: all rules each second take a fifth of a core.
    """
    nothing_up.up(["prometheus"])
    yield nothing_up.prometheus
    if nothing_up.prometheus.prometheus.running:
        nothing_up.prometheus.prometheus.stop()


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
def nova(openstack: OpenStack, cloud: Cloud, pytestconfig: pytest.Config) -> Nova:
    """Nova with one compute node, the dearest of all; its guests are on a libvirtd of their own."""
    if up := pytestconfig.stash.get(_NOVA, None):
        said, _ = up.communicate(timeout=240)
        if up.returncode:
            # Not begun once more: that would end the whole cloud, which the other lane is using.
            raise LabError(f"Nova did not come up: {said.strip()}")
    cloud.up(["nova"])
    openstack.close()  # its connection may have the catalogue of before: another process brought Nova up
    return cloud.nova


@pytest.fixture(scope="session")
def booted(cloud: Cloud) -> Guest:
    """The one guest with a system in it: vda its own, vdb a volume with a file system."""
    return cloud.booted_guest()


@pytest.fixture(scope="session")
def _others(cloud: Cloud) -> Iterator[list[Guest]]:
    made: list[Guest] = []
    yield made
    for guest in made:
        guest.destroy()


@pytest.fixture(scope="module")
def other(cloud: Cloud, booted: Guest, _others: list[Guest]) -> Guest:
    """A second one with a system in it, until a module has ended it: booting takes half a minute of a core."""
    if not _others or not _others[-1].domain().isActive():
        _others.append(cloud.another_booted_guest())
    return _others[-1]


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


@pytest.fixture
def on_the_node(nova: Nova) -> Iterator[Libvirt]:
    """The libvirtd of Nova's guests."""
    hypervisor = Libvirt(nova.libvirt_uri, deadline=5, at_once=4)
    yield hypervisor
    hypervisor.close()


@pytest.fixture
def word() -> str:
    """For names that no other test has."""
    return uuid4().hex[:8]
