"""The role probe_guest where systemd and a guest agent run: what it allows, formats, and refuses to touch."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
import yaml

from lab.cloud.fleet import Fleet
from lab.cloud.layout import CHECKOUT
from tests.lab.playbook import Playbooks, Played

pytestmark = pytest.mark.hosts

HOST = "r2-c3"
NOTHING, MUCH, RHEL = (f"probe_guest/{name}.yml" for name in ("nothing", "much", "rhel"))
SOCKET = "/run/qga.sock"
BYTES = "bs=1 status=none conv=notrunc"
DISK, SERIAL = "/dev/plimsoll-test", "0a1b2c3d-4e5f-6789-a"
# The distributions' units, but for the channel: the host has a socket in its place.
UNIT = f"""\
[Service]
EnvironmentFile=-/etc/sysconfig/qemu-ga
ExecStart=/usr/sbin/qemu-ga --method=unix-listen --path={SOCKET} $FILTER_RPC_ARGS
ExecStopPost=/bin/rm -f {SOCKET}
[Install]
WantedBy=multi-user.target
"""
FORBIDDEN = {
    "/etc/qemu/qemu-ga.conf": "[general]\nblacklist = guest-exec,guest-set-time\n",
    "/etc/sysconfig/qemu-ga": 'FILTER_RPC_ARGS="--block-rpcs=guest-file-open,guest-exec,guest-exec-status"\n',
}
ASK = """\
import json, socket, sys, time
agent = socket.socket(socket.AF_UNIX)
agent.settimeout(10)
while True:
    try:
        agent.connect("/run/qga.sock")
        break
    except OSError:
        time.sleep(0.1)
agent.sendall(sys.argv[1].encode())
print(agent.makefile().readline())
"""


class Guest:
    """The fleet's host as a guest with an agent, and with a disk: a loop device of its own."""

    def __init__(self, fleet: Fleet, inventory: Path) -> None:
        self._fleet = fleet
        fleet.write_inventory(inventory, [HOST])

    def run(self, command: str) -> str:
        return self._fleet.run(HOST, command).strip()

    def make(self) -> None:
        self.write("/etc/systemd/system/qemu-guest-agent.service", UNIT)
        self.run("systemctl daemon-reload && systemctl enable -q qemu-guest-agent")
        # No udev makes nodes here.
        self.run("mknod /dev/loop-control c 10 237 && truncate -s 64M /srv/disk.img")
        self.run("disk=$(losetup -f) && mknod $disk b 7 ${disk#/dev/loop} && losetup $disk /srv/disk.img")
        self.run(f"ln -s $(losetup -j /srv/disk.img | cut -d: -f1) {DISK}")
        self.run(f"mkdir -p /dev/disk/by-id && ln -s $(readlink {DISK}) /dev/disk/by-id/virtio-{SERIAL}")

    def remove(self) -> None:
        """The loop device is the machine's: it would outlive the host."""
        self.run(f"! mountpoint -q /srv/data || umount /srv/data; losetup -d {DISK}")
        self._fleet.reset([HOST])

    def write(self, path: str, text: str) -> None:
        self.run(f"mkdir -p {Path(path).parent} && printf %s {shlex.quote(text)} > {path}")

    def forbid(self) -> None:
        """As an agent that was told to forbid everything, in two places, and heeds it."""
        for path, text in FORBIDDEN.items():
            self.write(path, text)
        self.run("systemctl restart qemu-guest-agent")

    def empty(self) -> None:
        self.run(
            f"! mountpoint -q /srv/data || umount /srv/data; dd if=/dev/zero of={DISK} bs=1M status=none || true"
        )
        self.run("sed -i '/srv.data/d' /etc/fstab; rm -rf /srv/data")

    def ask(self, command: str, **arguments: object) -> dict[str, object]:
        """What its agent answers."""
        request = json.dumps({"execute": command, "arguments": arguments} if arguments else {"execute": command})
        answer: dict[str, object] = json.loads(self.run(f"python3 -c {shlex.quote(ASK)} {shlex.quote(request)}"))
        return answer

    def runs_programs(self) -> bool:
        return "return" in self.ask("guest-exec", path="timeout", arg=["5", "true"])

    @property
    def agent(self) -> str:
        """Another one after each start."""
        return self.run("systemctl show -P MainPID qemu-guest-agent")

    @property
    def disk(self) -> str:
        """A sum over all that is on it."""
        return self.run(f"sha256sum < {DISK}")


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inventory") / "hosts.yml"


@pytest.fixture(scope="module")
def the_guest(fleet: Fleet, inventory: Path) -> Iterator[Guest]:
    guest = Guest(fleet, inventory)
    guest.make()
    yield guest
    guest.remove()


@pytest.fixture
def guest(the_guest: Guest) -> Guest:
    """With an agent that forbids all, and an empty disk."""
    the_guest.empty()
    the_guest.forbid()
    return the_guest


@pytest.fixture(scope="module")
def playbooks(tmp_path_factory: pytest.TempPathFactory) -> Playbooks:
    return Playbooks(tmp_path_factory.mktemp("playbooks"))


def test_the_agent_may_run_programs_and_the_empty_disk_is_mounted_and_a_second_run_changes_nothing(
    guest: Guest, playbooks: Playbooks, inventory: Path
) -> None:
    assert not guest.runs_programs(), "else this proves nothing"
    before, agent = guest.disk, guest.agent
    checked = playbooks.play(MUCH, inventory, "--check", "--diff")
    assert checked.ok, checked.failures
    assert what(checked) == [
        "Allow the commands that plimsoll uses",
        "Show that the device would be formatted",
        "Restrict the directory to root",
    ]
    assert (guest.disk, guest.agent) == (before, agent)

    played = playbooks.play(MUCH, inventory)
    assert played.ok, played.failures
    assert guest.runs_programs()
    assert guest.run("cat /etc/qemu/qemu-ga.conf /etc/sysconfig/qemu-ga").splitlines() == [
        "[general]",
        "blacklist = guest-set-time",
        'FILTER_RPC_ARGS="--block-rpcs=guest-file-open"',
    ]
    assert guest.run("stat -c '%a %U %G' /srv/data") == "700 root root"
    assert guest.run("findmnt -n -o FSTYPE,LABEL,OPTIONS /srv/data").startswith("ext4   plimsoll rw,nosuid,nodev,")
    (mounted,) = guest.run("grep /srv/data /etc/fstab").splitlines()
    assert mounted.startswith("UUID=")
    assert mounted.endswith(" /srv/data ext4 nofail,nodev,nosuid 0 2")

    agent = guest.agent
    for words in ((), ("--check",)):
        again = playbooks.play(MUCH, inventory, *words)
        assert (again.ok, again.changed) == (True, []), again.failures
    assert guest.agent == agent, "it was not restarted for nothing"


def what(played: Played) -> list[str]:
    return [task for task, _ in played.changed]


def test_with_nothing_set_the_directory_is_made_once_the_guest_has_a_channel(
    guest: Guest, playbooks: Playbooks, inventory: Path
) -> None:
    refused = playbooks.play(NOTHING, inventory)
    assert refused.failures[HOST].startswith(
        "Nothing was done: this guest has no channel for an agent (/dev/virtio-ports/"
    )
    assert not guest.runs_programs()

    guest.run(f"mkdir -p /dev/virtio-ports && ln -sf {SOCKET} /dev/virtio-ports/org.qemu.guest_agent.0")
    played = playbooks.play(NOTHING, inventory)
    assert played.ok, played.failures
    assert guest.runs_programs()
    assert guest.run("stat -c '%a %U' /srv/probe") == "700 root"

    small = playbooks.play(NOTHING, inventory, "--check", "--tags", "place", plimsoll_probe_guest_file_size=2**40)
    assert (
        "a probe needs 1049088 (plimsoll_probe_guest_file_size and plimsoll_probe_guest_keep_free)"
        in small.failures[HOST]
    )


@pytest.mark.parametrize(
    ("fill", "why"),
    [
        pytest.param(f"mkfs.ext4 -q -L data {DISK}", "(ext4, label data)", id="file system"),
        pytest.param(
            f"printf '\\0\\0\\2\\0\\203\\0\\0\\0\\1\\0\\0\\0\\0\\10\\0\\0' | dd of={DISK} {BYTES} seek=446 && "
            f"printf '\\125\\252' | dd of={DISK} {BYTES} seek=510",
            "(dos)",
            id="partition",
        ),
        pytest.param(
            f"echo a row of a table | dd of={DISK} {BYTES} seek=51200",
            "(no file system, but data)",
            id="data",
        ),
    ],
)
def test_a_disk_that_holds_anything_is_left_as_it_is(
    guest: Guest, playbooks: Playbooks, inventory: Path, fill: str, why: str
) -> None:
    guest.run(fill)
    before = guest.disk
    played = playbooks.play(MUCH, inventory)
    assert f"{DISK} is not empty {why}" in played.failures[HOST]
    assert played.changed == []
    assert guest.disk == before
    assert not guest.runs_programs()


def test_on_an_enforcing_system_it_must_be_said_what_selinux_is_to_allow(
    guest: Guest, playbooks: Playbooks, inventory: Path
) -> None:
    refused = playbooks.play(RHEL, inventory, plimsoll_probe_guest_channel=SOCKET)
    assert "SELinux is enforcing here and would block the agent's commands" in refused.failures[HOST]
    assert refused.changed == []

    played = playbooks.play(
        RHEL, inventory, plimsoll_probe_guest_channel=SOCKET, plimsoll_probe_guest_selinux="leave"
    )
    assert played.ok, played.failures
    assert guest.runs_programs()


def test_what_a_canary_runs_at_its_first_start_comes_to_the_same(guest: Guest) -> None:
    role = CHECKOUT / "ansible/roles/canary"
    environment = jinja2.Environment(keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    environment.filters["quote"] = shlex.quote
    commands = yaml.safe_load((role / "vars/main.yml").read_text())["__canary_commands"]
    script = environment.from_string((role / "templates/prepare.sh.j2").read_text()).render(
        plimsoll_canary_directory="/srv/data",
        plimsoll_canary_filesystem="ext4",
        __canary_volume=SERIAL,
        __canary_commands=commands,
    )
    guest.run("rm /etc/qemu/qemu-ga.conf")
    for _ in range(2):
        guest.run(script)
        assert guest.runs_programs()
        assert guest.run("cat /etc/sysconfig/qemu-ga") == 'FILTER_RPC_ARGS="--block-rpcs=guest-file-open"'
        assert guest.run("stat -c %a /srv/data && findmnt -n -o LABEL /srv/data && grep -c /srv/data /etc/fstab") == (
            "700\nplimsoll\n1"
        )
