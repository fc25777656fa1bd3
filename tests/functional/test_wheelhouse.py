"""A wheelhouse of this tree, installed below a directory: real venv, real pip, no index, a hostile environment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from plimsoll_agent.store import memory_file
from tests import wheelhouses

ROOT = Path(__file__).parents[2]
# The wheelhouse is built where the tree has changed.
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, or becomes another user")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
# What a node may have about it, and what must not matter.
HOSTILE = {
    "PATH": "/usr/bin:/bin",
    "https_proxy": "http://127.0.0.1:9",
    "http_proxy": "http://127.0.0.1:9",
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_REQUIRE_VIRTUALENV": "1",
    "PIP_TARGET": "/nonexistent",
    "PYTHONPATH": "/nonexistent",
    "PYTHONHOME": "/nonexistent",
    "LC_ALL": "C",
}


@dataclass(frozen=True)
class Node:
    """A directory that is taken for a node's root."""

    root: Path

    def run(self, installer: Path, *words: str, status: int = 0, before: tuple[str, ...] = ()) -> str:
        """What it said: on standard output, or on standard error where it was to fail."""
        done = subprocess.run(
            [*before, *self.argv(installer, *words)], env=HOSTILE, capture_output=True, text=True, umask=0o077,
            check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done.stderr if status else done.stdout

    def argv(self, installer: Path, *words: str) -> list[str]:
        return [str(installer), *words, "--root", str(self.root)]

    @property
    def base(self) -> Path:
        return self.root / "opt/plimsoll"

    @property
    def installer(self) -> Path:
        return self.base / "install"

    @property
    def state(self) -> Path:
        return self.root / "var/lib/plimsoll"

    def version(self) -> str:
        """What the command says."""
        return self.plimsoll("--version").split()[-1]

    def plimsoll(self, *words: str) -> str:
        command = [str(self.root / "usr/local/bin/plimsoll"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@dataclass(frozen=True)
class Houses:
    """Unpacked wheelhouses: of this tree, and of a version after it that writes another format of the memory."""

    present: Path
    newer: Path


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Houses]:
    there = tmp_path_factory.mktemp("houses")
    tarball = wheelhouses.built()
    timer = (ROOT / "systemd/plimsoll-enforce.timer").read_bytes()
    memory = (ROOT / "agent/plimsoll_agent/store/memory_file.py").read_text(encoding="utf-8")
    present = f"\nVERSION = {memory_file.VERSION}\n"
    assert present in memory
    changes = {
        "plimsoll_agent/store/memory_file.py": memory.replace(present, "\nVERSION = 99\n").encode(),
        "data/share/plimsoll/systemd/plimsoll-enforce.timer": timer + b"# newer\n",
    }
    newer = wheelhouses.revise(wheelhouses.unpack(tarball, there), "9.9.9", changes)
    yield Houses(wheelhouses.unpack(tarball, there), newer)
    shutil.rmtree(there)  # some 120 MB


@pytest.fixture(scope="module")
def node(houses: Houses) -> Iterator[Node]:
    """One with the version of this tree; tests leave it in force."""
    there = Node(Path(tempfile.mkdtemp(prefix="plimsoll-node-")))  # pytest's directory is closed to other users
    there.root.chmod(0o755)
    there.run(houses.present / "install", "install")
    yield there
    shutil.rmtree(there.root)


def test_the_version_of_this_tree_runs_from_its_link(node: Node) -> None:
    assert node.version() == wheelhouses.VERSION
    assert json.loads(node.plimsoll("state", "check", "--state-dir", str(node.state), "-f", "json"))


def test_the_environment_keeps_its_python_when_the_system_gets_a_later_one(node: Node) -> None:
    assert Path(os.path.realpath(node.base / "current/bin/python")).name in (
        str(Path(link.readlink()).name) for link in (node.base / "current/bin").glob("python*") if link.is_symlink()
    )


def test_everything_that_a_pass_imports_was_compiled(node: Node) -> None:
    packages = next(node.base.glob("current/lib/python3.*/site-packages"))
    for package in ("plimsoll_agent", "plimsoll_probes", "cliff", "oslo_config", "yaml"):
        sources = [path for path in (packages / package).rglob("*.py") if "tests" not in path.parts]
        compiled = {path.name.partition(".")[0] for path in (packages / package).rglob("*.pyc")}
        assert {path.stem for path in sources} <= compiled, package


@as_root
def test_another_user_can_run_it_though_the_umask_was_077(node: Node) -> None:
    done = subprocess.run(
        [*NOBODY, str(node.base / "current/bin/plimsoll"), "plan", "--help"],
        capture_output=True, text=True, check=False, cwd="/", env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_nothing_that_it_made_can_be_written_by_others(node: Node) -> None:
    loose = [
        path
        for path in node.root.rglob("*")
        if not path.is_symlink() and path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ]
    assert loose == []


def test_units_and_man_pages_of_the_tree_are_in_their_places(node: Node) -> None:
    for unit in [*(ROOT / "systemd").glob("*.service"), *(ROOT / "systemd").glob("*.timer")]:
        assert (node.root / "etc/systemd/system" / unit.name).read_bytes() == unit.read_bytes()
    for page in ("man1/plimsoll.1", "man1/check_plimsoll.1", "man5/plimsoll.conf.5"):
        assert '.TH "' in (node.root / "usr/local/share/man" / page).read_text(encoding="utf-8")


def test_a_second_run_reports_no_change(node: Node, houses: Houses) -> None:
    said = json.loads(node.run(houses.present / "install", "install", "-f", "json"))
    assert (said["changed"], said["version"], said["did"]) == (False, wheelhouses.VERSION, [])


def test_upgrade_and_downgrade_keep_the_state_unless_it_cannot_be_read(node: Node, houses: Houses) -> None:
    node.state.mkdir(parents=True)
    memory = node.state / "memory.json"
    memory.write_text(
        json.dumps({"version": memory_file.VERSION, "boot": "", "disks": {}, "holds": {}}), encoding="utf-8"
    )
    (node.state / "busy.count").write_bytes(b"...")
    before = {path: path.read_bytes() for path in node.state.iterdir()}

    # The newer version knows no way from this format: it must not be put in force.
    said = node.run(houses.newer / "install", "install", status=1)
    assert said.startswith("install: plimsoll 9.9.9 cannot read the state of this node: ")
    assert "memory.json: corrupt" in said
    assert len(said.splitlines()) == 1
    assert node.version() == wheelhouses.VERSION

    memory.unlink()
    node.run(houses.newer / "install", "install")
    assert node.version() == "9.9.9"
    assert (node.root / "etc/systemd/system/plimsoll-enforce.timer").read_text().endswith("# newer\n")

    # What the newer version has written by now, the older one cannot read.
    memory.write_text(json.dumps({"version": 99, "boot": "", "disks": {}, "holds": {}}), encoding="utf-8")
    refused = node.run(node.installer, "rollback", status=1)
    assert f"plimsoll {wheelhouses.VERSION} cannot read the state of this node" in refused
    assert "memory.json: newer" in refused
    assert node.version() == "9.9.9"

    memory.write_bytes(before[memory])
    said = json.loads(node.run(node.installer, "rollback", "--skip-state-check", "-f", "json"))
    assert (said["version"], said["previous"]) == (wheelhouses.VERSION, "9.9.9")
    assert node.version() == wheelhouses.VERSION
    assert {path: path.read_bytes() for path in node.state.iterdir()} == before
    timer = (ROOT / "systemd/plimsoll-enforce.timer").read_bytes()
    assert (node.root / "etc/systemd/system/plimsoll-enforce.timer").read_bytes() == timer
    shutil.rmtree(node.state)


def test_killed_while_pip_works_the_next_run_waits_for_it_and_completes(houses: Houses, tmp_path: Path) -> None:
    node = Node(tmp_path)
    installer = subprocess.Popen(
        node.argv(houses.present / "install", "install"), env=HOSTILE, stdout=subprocess.DEVNULL
    )
    _wait(lambda: any(node.base.glob("versions/*/lib/python3*/site-packages/*")), installer)
    refused = node.run(houses.present / "install", "install", "--wait", "0", status=1)
    assert refused.endswith("is under way; this one changed nothing\n")
    installer.send_signal(signal.SIGKILL)
    installer.wait()
    assert not (node.base / "current").exists()
    done = subprocess.run(
        node.argv(houses.present / "install", "install"), env=HOSTILE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # pip lives on, and holds the lock: what it writes must not get into what the next run makes.
    assert done.stderr == "another install, rollback or remove is under way on this node: waiting for it\n"
    assert node.version() == wheelhouses.VERSION
    assert "nothing to do" in node.run(houses.present / "install", "install")

    node.state.mkdir(parents=True)
    (node.state / "busy.count").write_bytes(b".")
    node.run(node.installer, "remove")
    assert not node.base.exists()
    # What is left goes with any wheelhouse: the node's own installer is gone.
    node.run(houses.present / "install", "remove", "--state")
    assert [path for path in node.root.rglob("*") if not path.is_dir()] == []


def _wait(is_so, process: subprocess.Popen[bytes]) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + 120
    while not is_so():
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < end, "it did not come so far"
        time.sleep(0.02)


@as_root
def test_a_disk_that_fills_up_under_pip_leaves_nothing_of_the_version(houses: Houses, tmp_path: Path) -> None:
    node = Node(tmp_path / "root")
    node.root.mkdir()
    # In a mount namespace of its own, with room for the files and without inodes for them.
    mount = (
        f'mount -t tmpfs -o size=1g,nr_inodes=900 none "{node.root}" && "$@"; code=$?; find "{node.base}"; exit $code'
    )
    done = subprocess.run(
        ["unshare", "--mount", "/bin/sh", "-c", mount, "sh", *node.argv(houses.present / "install", "install")],
        env=HOSTILE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no space left: it needs about" in done.stderr
    assert done.stderr.endswith("nothing was switched\n")
    assert f"{node.base}/versions/" not in done.stdout.replace(f"{node.base}/versions\n", "")
    assert f"{node.base}/current" not in done.stdout


@as_root
def test_a_disk_that_is_too_small_is_said_before_anything_is_copied(houses: Houses, tmp_path: Path) -> None:
    node = Node(tmp_path / "root")
    node.root.mkdir()
    mount = f'mount -t tmpfs -o size=20m none "{node.root}" && "$@"; code=$?; find "{node.base}" -type f; exit $code'
    done = subprocess.run(
        ["unshare", "--mount", "/bin/sh", "-c", mount, "sh", *node.argv(houses.present / "install", "install")],
        env=HOSTILE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "MiB are free; make room and run it again; nothing was switched" in done.stderr


def test_a_wheel_with_one_other_byte_is_refused(houses: Houses, tmp_path: Path) -> None:
    house = tmp_path / houses.present.name
    shutil.copytree(houses.present, house)
    wheel = next(house.glob("libvirt_python-*.whl"))
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 0x40
    wheel.write_bytes(content)
    said = Node(tmp_path / "node").run(house / "install", "install", status=1)
    assert said.startswith(
        f"install: {wheel}: is not the file that was built: its SHA-256 is not the one in SHA256SUMS"
    )
    assert len(said.splitlines()) == 1


def test_a_node_with_another_python_is_told_what_to_build(houses: Houses, tmp_path: Path) -> None:
    house = tmp_path / houses.present.name
    shutil.copytree(houses.present, house)
    described = (house / "wheelhouse.json").read_text().replace('"debian12"', '"el9"')
    (house / "wheelhouse.json").write_text(described)
    sums = (house / "SHA256SUMS").read_text().splitlines(keepends=True)
    (house / "SHA256SUMS").write_text("".join(line for line in sums if "wheelhouse.json" not in line))
    listed = subprocess.run(["sha256sum", "wheelhouse.json"], cwd=house, capture_output=True, text=True, check=True)
    with (house / "SHA256SUMS").open("a") as file:
        file.write(listed.stdout)
    said = Node(tmp_path / "node").run(house / "install", "install", status=1)
    assert "el9" in said
    assert "Run script/wheelhouse on such a machine, and install plimsoll-" in said


@as_root
def test_an_ordinary_user_is_told_that_root_has_to_run_it(houses: Houses, tmp_path: Path) -> None:
    reachable = Path("/tmp") / f"plimsoll-install-{os.getpid()}"  # pytest's directory is closed to others
    shutil.copyfile(houses.present / "install", reachable)
    try:
        done = subprocess.run(
            [*NOBODY, "/usr/bin/python3", str(reachable), "rollback"],
            capture_output=True, text=True, check=False, cwd="/",
        )  # fmt: skip
    finally:
        reachable.unlink()
    assert (done.returncode, done.stderr) == (1, "install: run it as root\n")


# --- building ---


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1", "plimsoll needs 3.11 or later"),
        (
            '[ "$2" = -c ] && case $3 in *ensurepip*) exit 1 ;; esac',
            "install Debian's and Ubuntu's package python3-venv",
        ),
        ("case $3 in *sysconfig*) echo /nonexistent ;; esac", "has no headers: install python3-dev"),
    ],
)
def test_a_machine_that_cannot_build_is_told_what_to_install(tmp_path: Path, script: str, words: str) -> None:
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    done = subprocess.run(
        [str(ROOT / "script/wheelhouse"), "--python", str(python), "--output", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("missing", "words"),
    [("libvirt", "install libvirt-dev"), ("cc gcc", "install gcc"), ("pkg-config", "pkg-config is")],
)
def test_a_missing_compiler_or_header_is_named(tmp_path: Path, missing: str, words: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "cat", "cc", "dirname", "gcc", "pkg-config", "printf", "env", "ls", "mkdir"):
        found = shutil.which(tool)
        if found and tool not in missing.split():
            (tools / tool).symlink_to(found)
    environment = {"PATH": str(tools)}
    if missing == "libvirt":
        environment["PKG_CONFIG_LIBDIR"] = str(tmp_path)
    done = subprocess.run(
        [str(ROOT / "script/wheelhouse"), "--output", str(tmp_path)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert words in done.stderr
