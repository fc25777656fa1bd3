"""Debs of this tree: the same bytes each time, what documentation names in them, and scripts that refuse in time."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path

import packing
import pytest

from lab import packages, wheelhouses
from plimsoll_agent.store import memory_file
from tests.depth import DEPTH, Depth
from tests.functional.test_package import MAN

ROOT = Path(__file__).parents[2]
DEB = f"plimsoll_{wheelhouses.VERSION}-1+debian12_amd64.deb"
RPM = f"plimsoll-{wheelhouses.VERSION}-1+debian12.x86_64.rpm"
HOME = f"./opt/plimsoll/{wheelhouses.VERSION}-1+debian12"
pytestmark = [
    pytest.mark.packaging,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("programs_unmeasured"),
]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the packages below were made of."""
    there = wheelhouses.unpack(wheelhouses.built(), tmp_path_factory.mktemp("house"))
    yield wheelhouses.revise(there, wheelhouses.VERSION, extras=packages.EXTRAS)
    shutil.rmtree(there)


@pytest.fixture(scope="module")
def deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package for all nodes, beside those of extras; the lab's hosts are given these, too."""
    return _copied(packages.debs(), tmp_path_factory.mktemp("dist")) / DEB


def _copied(made: Iterable[Path], to: Path) -> Path:
    """Others who share the cache may remove them there."""
    for package in made:
        shutil.copy(package, to)
    return to


@pytest.fixture(scope="module")
def members(deb: Path) -> list[tarfile.TarInfo]:
    """What dpkg unpacks, in that order."""
    unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(deb)], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
        return tar.getmembers()


def _of_the_region(package: Path) -> Path:
    """The package of an extra that was made with it."""
    return package.with_name(package.name.replace("plimsoll", "plimsoll-region", 1))


@pytest.fixture(scope="module")
def unpacked(deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """As on a node, with the scripts in ``DEBIAN``."""
    there = tmp_path_factory.mktemp("node")
    subprocess.run(["dpkg-deb", "--raw-extract", str(deb), str(there)], check=True)
    yield there
    shutil.rmtree(there)


@pytest.fixture(scope="module")
def rpm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As an rpm; Debian has rpmbuild too."""
    return _copied(packages.rpms(), tmp_path_factory.mktemp("rpm")) / RPM


def test_a_deb_is_the_same_bytes_from_elsewhere_at_another_time_by_another_umask_and_sitecustomize(
    deb: Path, house: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "else where"
    for name in packing.tracked(ROOT):
        if name.startswith(("script/", "packaging/")):
            (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, elsewhere / name)
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text('import sys\n\nKEPT = [sys.intern(sign) for sign in "[]"]\n')
    environment = {"SOURCE_DATE_EPOCH": str(packing.epoch(ROOT)), "PYTHONPATH": str(site)}
    environment |= {"TZ": "Pacific/Auckland", "LC_ALL": "C"}
    later = ("/usr/bin/faketime", "2031-03-04 05:06:07", "/bin/sh", "-c", 'umask 077; exec "$0" "$@"')
    words = ("deb", "--extras", ",".join(packages.EXTRAS), "--output", str(tmp_path / "dist"), str(house))
    argv = [*later, str(elsewhere / "script/package"), *words]
    done = subprocess.run(argv, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    made, again = (
        {package.name: _sum(package) for package in at.iterdir()} for at in (deb.parent, tmp_path / "dist")
    )
    assert again == made
    assert {DEB, _of_the_region(deb).name} <= made.keys()


def test_documentation_names_what_is_in_the_deb(members: list[tarfile.TarInfo]) -> None:
    section = (ROOT / "docs/guide/packages.rst").read_text().split("\nOn the node\n")[1].split("\nUpgrade and")[0]
    # Not the paths that other sentences name.
    terms = [line for line in section.splitlines() if line.startswith("``/")]
    named = re.findall(r"``(/[^`]+)``", "\n".join(terms))
    assert len(named) >= 6
    inside = [member.name[1:].rstrip("/") for member in members]
    for path in named:
        assert any(fnmatch(name, path) for name in inside), path
    assert {f"/usr/lib/{kind}.d/plimsoll.conf" for kind in ("sysusers", "tmpfiles")} <= set(inside)


def test_the_deb_has_all_units_pages_and_samples_of_the_tree(members: list[tarfile.TarInfo]) -> None:
    inside = {member.name for member in members if member.isfile()}
    tree = packing.tracked(ROOT)
    examples = "./usr/share/doc/plimsoll/examples"
    units = {f"./usr/lib/systemd/system/{Path(name).name}" for name in tree if name.startswith("systemd/plimsoll-")}
    samples = {f"{examples}/{name}" for name in tree if name.startswith("etc/")} | {
        f"{examples}/systemd/network.conf"
    }
    guides = {f"./usr/share/doc/plimsoll/{name[5:]}" for name in tree if name.startswith("docs/guide/")}
    assert len(units) == 10
    assert units | samples | guides <= inside
    assert {name for name in inside if "/man/" in name and "opt" not in name} == {
        f"./usr/share/man/{page}.gz" for page in MAN
    }
    elsewhere = ("./opt/plimsoll/", "./usr/", "./etc/plimsoll/")
    assert not [name for name in inside if not name.startswith(elsewhere)]


def test_the_link_to_the_version_is_unpacked_after_all_its_files(members: list[tarfile.TarInfo]) -> None:
    """So an upgrade that is killed leaves the old version or the new one."""
    names = [member.name for member in members]
    current = names.index("./opt/plimsoll/current")
    assert members[current].linkname == HOME.rpartition("/")[2]
    assert all(index < current for index, member in enumerate(members) if member.isfile())


def test_files_belong_to_root_and_no_other_user_may_write_them(members: list[tarfile.TarInfo]) -> None:
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, packing.epoch(ROOT))}
    assert {oct(member.mode) for member in members if not member.issym()} == {"0o644", "0o755"}


def test_settings_are_a_conffile_and_the_package_needs_python_and_libvirt(deb: Path, unpacked: Path) -> None:
    shown = subprocess.run(["dpkg-deb", "--field", str(deb)], capture_output=True, text=True, check=True).stdout
    assert re.search(r"^Depends: python3\.11, .*\blibvirt0 \(>= \d", shown, re.MULTILINE)
    assert re.search(rf"^Version: {re.escape(wheelhouses.VERSION)}-1\+debian12$", shown, re.MULTILINE)
    assert (unpacked / "DEBIAN/conffiles").read_text().split() == ["/etc/plimsoll/plimsoll.conf"]
    for name in ("preinst", "postinst", "prerm", "postrm"):
        subprocess.run(["sh", "-n", str(unpacked / "DEBIAN" / name)], check=True)


def test_plimsoll_runs_from_the_package_and_its_byte_code_is_complete(unpacked: Path) -> None:
    home = unpacked / HOME
    before = set(home.rglob("*"))
    done = subprocess.run(
        [str(home / "bin/python"), "-I", "-c", "from plimsoll_agent.terminal.main import main; main()", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split()[-1] == wheelhouses.VERSION
    assert set(home.rglob("*")) == before, "what was not compiled"
    assert (home / "bin/plimsoll").read_text().splitlines()[0] == f"#!{HOME[1:]}/bin/python"
    assert str(unpacked) not in (home / "pyvenv.cfg").read_text()


def test_a_package_of_an_extra_adds_files_of_its_own_to_the_environment(
    deb: Path, unpacked: Path, tmp_path: Path
) -> None:
    node = tmp_path / "node"
    subprocess.run(["dpkg-deb", "--extract", str(_of_the_region(deb)), str(node)], check=True)
    added = {path.relative_to(node) for path in node.rglob("*") if not path.is_dir()}
    assert not [path for path in added if (unpacked / path).exists()], "files with two owners"
    subprocess.run(["dpkg-deb", "--extract", str(deb), str(node)], check=True)
    run = [str(node / HOME / "bin/python"), "-I", "-B", "-c"]
    subprocess.run([*run, "import etcd3gw, tooz, plimsoll_probes.adapters"], check=True)
    missing = subprocess.run([str(unpacked / HOME / "bin/python"), "-I", "-c", "import tooz"], capture_output=True)
    assert missing.returncode == 1


def test_the_bill_of_materials_lists_the_wheels_of_all_nodes(house: Path, unpacked: Path) -> None:
    bill = json.loads((unpacked / "usr/share/doc/plimsoll/sbom.cdx.json").read_text())
    sums = {component["hashes"][0]["content"] for component in bill["components"]}
    base = json.loads((house / "wheelhouse.json").read_text())["wheels"]["base"]
    assert {_sum(house / name) for name in base} <= sums
    assert sums <= {_sum(wheel) for wheel in house.glob("*.whl")}


@pytest.fixture
def node(unpacked: Path, tmp_path: Path) -> Path:
    """A node whose present version is this tree's, with a state directory of its own."""
    commands = tmp_path / "plimsoll/current/bin"
    commands.mkdir(parents=True)
    (tmp_path / "plimsoll.conf").write_text(f"[DEFAULT]\nstate_dir = {tmp_path}/state\n")
    (tmp_path / "state").mkdir()
    (commands / "python").symlink_to(unpacked / HOME / "bin/python")
    program = "from plimsoll_agent.terminal.main import main; main()"
    (commands / "plimsoll").write_text(
        f'#!/bin/sh\nexec "{unpacked}/{HOME}/bin/python" -I -c "{program}"'
        f' --config-file {tmp_path}/plimsoll.conf "$@"\n'
    )
    (commands / "plimsoll").chmod(0o755)
    return tmp_path


def _called(script: Path, node: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A script of a package as dpkg calls it, on that node."""
    text = script.read_text()
    assert "\nbase=/opt/plimsoll\n" in text
    text = text.replace("\nbase=/opt/plimsoll\n", f"\nbase={node}/plimsoll\n")
    text = text.replace("[ -d /run/systemd/system ]", "false")
    argv = ["sh", "-c", text, script.name, *words]
    return subprocess.run(argv, env=os.environ | environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", params=["plimsoll", "plimsoll-region"])
def preinst(request: pytest.FixtureRequest, deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script that dpkg calls before an upgrade: an extra of a version that is refused must not come alone."""
    control = tmp_path_factory.mktemp("control")
    package = deb if request.param == "plimsoll" else _of_the_region(deb)
    subprocess.run(["dpkg-deb", "--control", str(package), str(control)], check=True)
    return control / "preinst"


def test_an_upgrade_is_refused_where_the_state_cannot_be_read_unless_the_operator_says_so(
    preinst: Path, node: Path
) -> None:
    memory, upgrade = node / "state/memory.json", ("upgrade", "0.0.9-1")
    memory.write_text(json.dumps({"version": memory_file.VERSION + 1}))
    done = _called(preinst, node, *upgrade)
    assert done.returncode == 1
    version = memory_file.VERSION
    assert f"{memory}: has version {version + 1}, and the version to install reads up to {version}" in done.stderr
    assert "the present version stays" in done.stderr
    assert _called(preinst, node, *upgrade, PLIMSOLL_SKIP_STATE_CHECK="1").returncode == 0
    memory.unlink()
    done = _called(preinst, node, *upgrade)
    assert (done.returncode, done.stderr) == (0, "")


def _asked(rpm: Path, *query: str) -> list[str]:
    argv = ["rpm", "--query", *query, "--package", str(rpm)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_rpm_has_the_files_of_the_deb_and_needs_the_nodes_libvirt(
    rpm: Path, members: list[tarfile.TarInfo]
) -> None:
    of_debian = re.compile(r"/usr/share/(lintian|doc/plimsoll/changelog)")
    # A directory belongs to the rpm only where it is plimsoll's.
    inside = {member.name[1:] for member in members if not member.isdir()}
    files = set(_asked(rpm, "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\n]"))
    packed = {line.split(" ", 1)[1] for line in files if not line.startswith("d")}
    assert packed == {name for name in inside if not of_debian.match(name)}
    of_the_region = _asked(_of_the_region(rpm), "--list")
    assert any("/site-packages/tooz/" in name for name in of_the_region)
    assert not {name for name in of_the_region if name in packed}
    needs = _asked(rpm, "--requires")
    assert "python(abi) = 3.11" in needs
    own = {need for need in needs if "plimsoll" in need}
    assert own <= {*_asked(rpm, "--provides")}, "no other package provides it"
    assert any(need.startswith("libvirt.so.0(LIBVIRT_") for need in needs)
    assert _asked(rpm, "--configfiles") == ["/etc/plimsoll/plimsoll.conf"]
    assert _asked(rpm, "--queryformat", "%{BUILDTIME} %{BUILDHOST}") == [f"{packing.epoch(ROOT)} reproducible"]
    assert set(_asked(rpm, "--queryformat", "[%{FILEMTIMES}\n]")) == {str(packing.epoch(ROOT))}


def test_scripts_of_the_rpm_are_those_of_the_deb(rpm: Path, unpacked: Path) -> None:
    functions = (unpacked / "DEBIAN/preinst").read_text().split("judge_state() {")[1].split("\n}\n")[0]
    for tag in ("PREIN", "POSTIN", "PREUN"):
        text = "\n".join(_asked(rpm, "--queryformat", f"%{{{tag}}}"))
        assert functions in text, tag
        subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    of_extra = "\n".join(_asked(_of_the_region(rpm), "--queryformat", "%{PREIN}"))
    assert functions in of_extra
    assert of_extra.endswith("\ncheck_state")


def _judged(program: str, *words: str) -> str:
    return subprocess.run([program, *words], capture_output=True, text=True, check=False).stdout


@pytest.mark.skipif(
    not shutil.which("lintian") or not shutil.which("rpmlint"), reason="of 130 more packages of Debian"
)
@pytest.mark.skipif(DEPTH is not Depth.SOAK, reason="takes a minute")
def test_lintian_and_rpmlint_find_nothing_but_what_has_a_reason(deb: Path, rpm: Path) -> None:
    of_lintian = _judged("lintian", "--allow-root", "--show-overrides", str(deb), str(_of_the_region(deb)))
    assert "O: plimsoll: dir-or-file-in-opt" in of_lintian, "it judged nothing"
    assert not re.findall(r"^[EW]: .*", of_lintian, re.MULTILINE)
    of_rpmlint = _judged("rpmlint", "-c", str(ROOT / "packaging/rpmlint.toml"), str(rpm), str(_of_the_region(rpm)))
    assert "0 errors, 0 warnings" in of_rpmlint, of_rpmlint


def test_apt_and_dnf_read_the_repository_and_apt_refuses_what_was_changed(
    deb: Path, rpm: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    gnupg = os.environ | {"GNUPGHOME": str(keys)}
    try:
        subprocess.run(
            ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "repo@plimsoll.invalid"],
            env=gnupg, capture_output=True, check=True,
        )  # fmt: skip
        there = tmp_path / "repository"
        argv = [
            str(ROOT / "script/package"),
            "repo",
            "--sign",
            "repo@plimsoll.invalid",
            str(there),
            str(deb),
            str(rpm),
        ]
        done = subprocess.run(argv, env=gnupg, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], env=gnupg, check=False)
    signed = there / f"dnf/debian12/x86_64/{RPM}"
    listed = f"{_sum(deb)}  apt/pool/debian12/{DEB}\n{_sum(signed)}  {signed.relative_to(there)}\n"
    assert (there / "SHA256SUMS").read_text() == listed
    (tmp_path / "rpmdb").mkdir()
    keyring = ["rpmkeys", "--dbpath", str(tmp_path / "rpmdb")]
    subprocess.run([*keyring, "--import", str(there / "plimsoll.asc")], check=True)
    checked = subprocess.run([*keyring, "--checksig", str(signed)], capture_output=True, text=True, check=True)
    assert "digests signatures OK" in checked.stdout
    primary = next((signed.parent / "repodata").glob("*-primary.xml.gz"))
    assert _sum(signed) in gzip.decompress(primary.read_bytes()).decode()
    assert (signed.parent / "repodata/repomd.xml.asc").exists()
    assert "0.1.0-1+debian12" in _policy(there, tmp_path / "apt")
    index = there / "apt/dists/debian12/InRelease"
    index.write_text(index.read_text().replace("Suite: debian12", "Suite: debian13"))
    with pytest.raises(subprocess.CalledProcessError):
        _policy(there, tmp_path / "later")


def _policy(repository: Path, state: Path) -> str:
    """What apt would install, with a state and sources of its own."""
    for name in ("lists/partial", "cache/archives/partial", "etc"):
        (state / name).mkdir(parents=True)
    (state / "status").touch()
    source = f"deb [signed-by={repository}/plimsoll.asc] file:{repository}/apt debian12 main\n"
    (state / "etc/sources.list").write_text(source)
    values = {
        "Dir::State": state, "Dir::State::status": state / "status", "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": state / "etc/sources.list", "Dir::Etc::sourceparts": "-",
        "APT::Update::Error-Mode": "any", "APT::Sandbox::User": "root",
    }  # fmt: skip
    options = [f"-o{name}={value}" for name, value in values.items()]
    subprocess.run(["apt-get", *options, "update"], capture_output=True, check=True)
    return subprocess.run(
        ["apt-cache", *options, "policy", "plimsoll"], capture_output=True, text=True, check=True
    ).stdout


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
