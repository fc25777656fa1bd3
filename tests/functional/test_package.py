"""What is shipped: everything, and the same bytes wherever and whenever it is built."""

from __future__ import annotations

import configparser
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import packing
import pytest
from setuptools import find_packages

ROOT = Path(__file__).parents[2]
COMMANDS = {point.name for point in distribution("plimsoll-agent").entry_points.select(group="plimsoll.commands")}
MAN = {
    "man1/plimsoll.1",
    "man1/check_plimsoll.1",
    "man5/plimsoll.conf.5",
    "man5/plimsoll-rules.5",
    "man5/plimsoll-qos.5",
    *(f"man1/plimsoll-{name.replace('_', '-')}.1" for name in COMMANDS - {"record_list"}),
}


def _setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


VERSION = _setup()["metadata"]["version"]
WHEEL = f"plimsoll_agent-{VERSION}-py3-none-any.whl"
SDIST = f"plimsoll_agent-{VERSION}.tar.gz"
COLLECTION = f"plimsoll-cloud-{VERSION}.tar.gz"
DATA = f"plimsoll_agent-{VERSION}.data/data/share"
COPIES = {
    "nagios": ["nrpe-plimsoll.cfg", "plimsoll-objects.cfg", "icinga2-plimsoll.conf"],
    "prometheus": [
        *("plimsoll-rules.yaml", "plimsoll-alerts.yaml"),
        *("plimsoll-region.json", "plimsoll-node.json", "plimsoll-disk.json"),
    ],
}
"""What roles bring of ``etc``."""
pytestmark = pytest.mark.usefixtures("programs_unmeasured")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree at another place, without its history, as another user would leave it."""
    return _copy(tmp_path_factory.mktemp("a copy") / "else where")


@pytest.fixture(scope="module")
def built(elsewhere: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all three packages of this tree; made just after the copy, should somebody be editing."""
    output = tmp_path_factory.mktemp("dist")
    _package(ROOT, output, {})
    return output


def _package(tree: Path, output: Path, environment: dict[str, str], *before: str) -> None:
    done = subprocess.run(
        [*before, str(tree / "script/package"), "--output", str(output)],
        env={name: value for name, value in (os.environ | environment).items() if value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _copy(to: Path) -> Path:
    for name in reversed(packing.tracked(ROOT)):
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        target.chmod(0o700 if (ROOT / name).stat().st_mode & 0o100 else 0o600)
    (to / ".venv").symlink_to(ROOT / ".venv")
    return to


@pytest.fixture(scope="module")
def sdist(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in it, unpacked."""
    into = tmp_path_factory.mktemp("sdist")
    subprocess.run(["tar", "-xzf", str(built / SDIST), "-C", str(into)], check=True)
    return into / SDIST.removesuffix(".tar.gz")


def test_every_folder_with_modules_is_a_package_that_setup_finds() -> None:
    for top in ("agent", "probes", "monitoring", "insight"):
        folders = {file.parent.relative_to(ROOT / top) for file in (ROOT / top).rglob("*.py")}
        assert set(find_packages(str(ROOT / top))) == {".".join(folder.parts) for folder in folders}


def test_every_entry_point_can_be_loaded() -> None:
    ours = distribution("plimsoll-agent").entry_points
    assert {"plimsoll.commands", "console_scripts", "oslo.config.opts"} <= {point.group for point in ours}
    for point in ours:
        point.load()


@pytest.mark.packaging
def test_the_wheel_has_every_file_of_the_packages_and_of_what_operators_install(built: Path, elsewhere: Path) -> None:
    with zipfile.ZipFile(built / WHEEL) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    tree = packing.tracked(elsewhere)
    desired = {
        name.partition("/")[2] for name in tree if name.startswith(("agent/", "probes/", "monitoring/", "insight/"))
    }
    desired |= {f"{DATA}/plimsoll/{name}" for name in tree if name.startswith(("systemd/", "etc/"))}
    pages = [name for name in tree if name.startswith("docs/") and name.endswith(".rst")]
    pages += [name for name in tree if name.startswith(("docs/reference/", "docs/html/")) and name.endswith(".json")]
    named = {name.removeprefix("docs/").removeprefix("html/") for name in pages} - {"release-notes.rst"}
    desired |= {f"{DATA}/doc/plimsoll/{name}" for name in named}
    desired |= {f"{DATA}/man/{page}" for page in MAN} | {f"{DATA}/bash-completion/completions/plimsoll"}
    assert inside == desired


@pytest.mark.packaging
def test_what_the_wheel_has_is_what_the_tree_has(built: Path, elsewhere: Path) -> None:
    with zipfile.ZipFile(built / WHEEL) as archive:
        for name in packing.tracked(elsewhere):
            if name.startswith(("systemd/", "etc/")):
                assert archive.read(f"{DATA}/plimsoll/{name}") == (elsewhere / name).read_bytes(), name


@pytest.mark.packaging
def test_man_pages_and_completion_know_the_commands_of_this_tree(built: Path) -> None:
    with zipfile.ZipFile(built / WHEEL) as archive:
        page = archive.read(f"{DATA}/man/man1/plimsoll.1").decode()
        completion = archive.read(f"{DATA}/bash-completion/completions/plimsoll").decode()
    assert f'"{VERSION}"' in page.split("\n.SH", 1)[0]
    for name in COMMANDS - {"record_list"}:
        assert f"plimsoll-{name.replace('_', '-')}(1)" in page.replace("\\-", "-"), name
        assert name.split("_")[0] in completion


@pytest.mark.packaging
def test_the_sdist_is_the_tree_with_its_man_pages(sdist: Path, elsewhere: Path) -> None:
    made = {f"docs/_build/man/{page.partition('/')[2]}" for page in MAN} | {"docs/_build/completions/plimsoll"}
    inside = {str(path.relative_to(sdist)) for path in sdist.rglob("*") if path.is_file()}
    by_setuptools = {name for name in inside if name == "PKG-INFO" or name.startswith("plimsoll_agent.egg-info/")}
    assert inside - by_setuptools == set(packing.tracked(elsewhere)) | made


@pytest.mark.packaging
def test_a_wheel_made_from_the_sdist_is_the_same_wheel(built: Path, sdist: Path, tmp_path: Path) -> None:
    epoch = str(packing.epoch(ROOT))
    code = "import sys, setuptools.build_meta as meta; meta.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=sdist, env=os.environ | {"SOURCE_DATE_EPOCH": epoch}, capture_output=True, check=True,
    )  # fmt: skip
    assert _sum(tmp_path / WHEEL) == _sum(built / WHEEL)


@pytest.mark.packaging
def test_packages_are_the_same_bytes_from_elsewhere_at_another_time_by_another_umask(
    built: Path, elsewhere: Path, tmp_path: Path
) -> None:
    environment = {"SOURCE_DATE_EPOCH": str(packing.epoch(ROOT)), "TZ": "Pacific/Auckland", "LC_ALL": "C", "HOME": ""}
    later = ("/usr/bin/faketime", "2031-03-04 05:06:07", "/bin/sh", "-c", 'umask 077; exec "$0" "$@"')
    _package(elsewhere, tmp_path / "dist", environment, *later)
    first = {path.name: _sum(path) for path in built.iterdir()}
    second = {path.name: _sum(path) for path in (tmp_path / "dist").iterdir()}
    assert first == second
    assert set(first) == {WHEEL, SDIST, COLLECTION}


@pytest.mark.packaging
def test_members_of_the_tarballs_belong_to_root_and_are_open_to_all(built: Path) -> None:
    for name in (SDIST, COLLECTION):
        with tarfile.open(built / name) as tar:
            members = tar.getmembers()
        assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, packing.epoch(ROOT))}
        assert {oct(member.mode) for member in members} <= {"0o644", "0o755"}
        assert [member.name for member in members if member.isfile()] == sorted(
            member.name for member in members if member.isfile()
        )


@pytest.mark.packaging
def test_the_collection_has_what_etc_has(built: Path) -> None:
    parts = (ROOT / "etc" / part for part in ("nagios", "prometheus", "grafana"))
    samples = {file.name: file.read_bytes() for part in parts for file in part.iterdir()}
    with tarfile.open(built / COLLECTION) as tar:
        for role, names in COPIES.items():
            for name in names:
                packed = tar.extractfile(f"roles/{role}/files/{name}")
                assert packed is not None, "a link"
                assert packed.read() == samples.pop(name)
    assert samples == {}, "what no role brings"


@pytest.mark.packaging
def test_the_collection_has_all_roles_playbooks_and_plugins_of_the_tree_and_no_bytecode(
    built: Path, elsewhere: Path
) -> None:
    with tarfile.open(built / COLLECTION) as tar:
        inside = {member.name for member in tar.getmembers() if member.isfile()}
    tree = {name.removeprefix("ansible/") for name in packing.tracked(elsewhere) if name.startswith("ansible/")}
    needed = {name for name in tree if name.startswith(("roles/", "playbooks/", "plugins/", "meta/", "README.md"))}
    assert needed <= inside
    assert inside - tree <= {"MANIFEST.json", "FILES.json"}


@pytest.mark.packaging
def test_the_collection_is_what_ansible_galaxy_takes(built: Path, tmp_path: Path) -> None:
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    done = subprocess.run(
        [str(galaxy), "collection", "install", str(built / COLLECTION), "--no-deps", "-p", str(tmp_path)],
        env=os.environ | {"ANSIBLE_HOME": str(tmp_path / "home")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    there = tmp_path / "ansible_collections/plimsoll/cloud"
    roles = {path.parent.parent.name for path in (ROOT / "ansible/roles").glob("*/meta/argument_specs.yml")}
    assert {path.name for path in (there / "roles").iterdir()} >= roles
    # It compares every file with the list that we have put in order.
    verified = subprocess.run(
        [str(galaxy), "collection", "verify", "--offline", "plimsoll.cloud", "-p", str(tmp_path)],
        env=os.environ | {"ANSIBLE_HOME": str(tmp_path / "home")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.packaging
def test_a_fresh_checkout_can_be_installed_for_editing_without_man_pages(tmp_path: Path) -> None:
    there = _copy(tmp_path / "checkout")
    code = "import sys, setuptools.build_meta as meta; print(meta.build_editable(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=there, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        assert not [name for name in archive.namelist() if "/man/" in name]


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
