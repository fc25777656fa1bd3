"""``script/package deb`` and ``rpm``: packages made of a wheelhouse.

The same wheelhouse gives the same bytes: the time of all files is that of the last commit.
"""

from __future__ import annotations

import argparse
import datetime
import email.parser
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.utils import formatdate
from pathlib import Path

import machine
import packing

NAME = "plimsoll"
SUMMARY = "keeps QEMU block I/O limits in force on Ceph RBD disks"
DESCRIPTION = (
    "An agent for OpenStack compute nodes. It keeps the block I/O limits of\n"
    "guests' RBD disks as Cinder's QoS specs and the operator's rules desire\n"
    "them, probes guests with fio, and reports to Nagios and Prometheus.\n"
    "It is installed in observe mode, and no timer is enabled."
)
MAINTAINER = "The plimsoll authors <plimsoll@plimsoll.invalid>"
EXTRAS = {
    "openstack": (("openstack",), "catalogue refresh from Cinder and Nova, and plimsoll qos"),
    "region": (("region",), "slots for probes in etcd"),
    "report": (("report", "insight"), "plots: probe report and hist"),
}
"""The packages beside the one for all nodes: which extras of the wheelhouse they have, and what they add."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_COMMANDS = ("plimsoll", "check_plimsoll")
_PACKAGING = packing.ROOT / "packaging"
_CONFFILE = "/etc/plimsoll/plimsoll.conf"
_PREINST_OF_EXTRA = "case $1 in\n    install | upgrade) check_state ;;\nesac\n"
"""As for the first package: where that one stays, what it needs of the others stays with it."""


class PackageError(Exception):
    """The text says what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class House:
    """An unpacked wheelhouse."""

    directory: Path
    version: str
    os: str
    python: str
    arch: str
    wheels: Mapping[str, Sequence[str]]
    """File names of what is needed without extras (``base``) and with each extra."""

    @property
    def interpreter(self) -> str:
        """``python3.11`` for ``cp311``."""
        return f"python{self.python[2]}.{self.python[3:]}"

    @property
    def own(self) -> str:
        return f"plimsoll_agent-{self.version}-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel of another project, for the bill of materials and the copyright file."""

    file: str
    name: str
    version: str
    license: str
    sha256: str


# --- names, versions, contents: nothing here touches a file ----------------------------------------------


def packaged_version(version: str) -> str:
    """A version as dpkg and rpm order it: with a tilde, a release candidate comes before its release."""
    return re.sub(r"\.?(a|b|rc|dev)(\d+)", r"~\1\2", version)


def release(house: House, revision: int) -> str:
    """What stands after the version: ``1+debian12``, which that of a later Debian is newer than; rpm's ``1.el9``."""
    return f"{revision}.{house.os}" if house.os.startswith("el") else f"{revision}+{house.os}"


def divide(wheels: Mapping[str, Sequence[str]], extras: Iterable[str] = tuple(EXTRAS)) -> dict[str, list[str]]:
    """The wheels of each package. One that two extras need is in the package of all nodes: no file has two owners."""
    packages = {NAME: set(wheels["base"])}
    for extra in extras:
        names = {name for each in EXTRAS[extra][0] for name in wheels[each]}
        packages[f"{NAME}-{extra}"] = names - packages[NAME]
    others = [names for package, names in packages.items() if package != NAME]
    shared = {name for names in others for name in names if sum(name in each for each in others) > 1}
    packages[NAME] |= shared
    return {package: sorted(names if package == NAME else names - shared) for package, names in packages.items()}


def fields(package: str, version: str, house: House, libraries: str, installed: int) -> dict[str, str]:
    """The control file of a deb, by field; ``libraries`` as from dpkg-shlibdeps, ``installed`` in KiB."""
    extra = package.removeprefix(f"{NAME}-")
    own = package == NAME
    depends = [house.interpreter, "systemd (>= 252)"] if own else [f"{NAME} (= {version})"]
    described = SUMMARY if own else f"{EXTRAS[extra][1]}"
    lines = DESCRIPTION if own else f"What plimsoll needs for that, beside the package {NAME}."
    return {
        "Package": package,
        "Version": version,
        "Architecture": _ARCHITECTURES.get(house.arch, house.arch),
        "Maintainer": MAINTAINER,
        "Installed-Size": str(installed),
        "Depends": ", ".join([*depends, *filter(None, [libraries])]),
        **({"Suggests": "acl, ceph-common"} if own else {}),
        "Section": "admin",
        "Priority": "optional",
        "Description": "\n ".join([described, *lines.splitlines()]),
    }


def as_control(values: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in values.items())


def bill_of_materials(package: str, version: str, wheels: Sequence[Wheel], when: int) -> str:
    """CycloneDX 1.5 as JSON: the wheels that are in the package, with their sums and licences."""
    seed = json.dumps([package, version, when, [wheel.sha256 for wheel in wheels]])
    digest = hashlib.sha256(seed.encode()).hexdigest()
    serial = "-".join((digest[:8], digest[8:12], f"5{digest[13:16]}", f"8{digest[17:20]}", digest[20:32]))
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{wheel.name}@{wheel.version}",
            "name": wheel.name,
            "version": wheel.version,
            "purl": f"pkg:pypi/{wheel.name}@{wheel.version}",
            "hashes": [{"alg": "SHA-256", "content": wheel.sha256}],
            "licenses": [{"license": {"name": wheel.license}}],
        }
        for wheel in wheels
    ]
    reference = f"pkg:generic/{package}@{version}"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": _iso(when),
            "component": {"type": "application", "bom-ref": reference, "name": package, "version": version},
        },
        "components": components,
        "dependencies": [{"ref": reference, "dependsOn": [component["bom-ref"] for component in components]}],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _iso(when: int) -> str:
    return datetime.datetime.fromtimestamp(when, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def copyright_text(wheels: Sequence[Wheel]) -> str:
    """Debian's copyright file: plimsoll's licence, and those of the wheels, whose texts are in the package."""
    head = (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        f"Upstream-Name: {NAME}\nComment:\n"
        " The package has these projects from PyPI, each with its licence in the directory NAME-VERSION.dist-info\n"
        f" below /opt/plimsoll:\n"
    )
    listed = "".join(f"  {wheel.name} {wheel.version}: {wheel.license}\n" for wheel in wheels)
    return (
        f"{head}{listed}\nFiles: *\nCopyright: 2026 The plimsoll authors\nLicense: Apache-2.0\n"
        " The text is in /usr/share/common-licenses/Apache-2.0 on Debian.\n"
    )


def changelog(package: str, version: str, when: int) -> str:
    """Debian's changelog of this version; what changed is in the release notes."""
    return (
        f"{package} ({version}) stable; urgency=medium\n\n"
        f"  * Version {version.split('-')[0]}. What changed: the release notes in plimsoll's documentation.\n\n"
        f" -- {MAINTAINER}  {formatdate(when)}\n"
    )


def script(text: str, functions: str, judge: str, reads: Mapping[str, tuple[int, int]]) -> str:
    """A maintainer script: the functions, and what calls them."""
    return f"#!/bin/sh\nset -e\n{with_judge(functions, judge, reads)}\n{text}"


def with_judge(functions: str, judge: str, reads: Mapping[str, tuple[int, int]]) -> str:
    """The functions, and ``judge_state``, which prints the program that reads what ``plimsoll state check`` found."""
    call = f"\nsys.exit(main(json.loads('{json.dumps(reads, sort_keys=True)}')))\n"
    return f"{functions}\njudge_state() {{\n    cat << 'END'\n{judge}{call}END\n}}\n"


def listed(stage: Path) -> str:
    """All that is below the directory, as rpm's ``%files`` has it; directories that are only plimsoll's too."""
    lines = []
    for path in sorted(stage.rglob("*")):
        inside = f"/{path.relative_to(stage)}"
        if path.is_dir() and not path.is_symlink():
            if inside.startswith(("/opt/plimsoll", "/etc/plimsoll", f"/usr/share/doc/{NAME}")):
                lines.append(f'%dir "{inside}"')
        elif inside == _CONFFILE:
            lines.append(f'%config(noreplace) "{inside}"')
        else:
            mark = "%doc " if inside.startswith(("/usr/share/doc", "/usr/share/man")) else ""
            lines.append(f'{mark}"{inside}"')
    return "\n".join(lines) + "\n"


# --- the wheelhouse --------------------------------------------------------------------------------------


def load(directory: Path) -> House:
    """Raises ``PackageError`` where it is not one, or a file is not the one that was gathered."""
    try:
        content = json.loads((directory / "wheelhouse.json").read_text(encoding="utf-8"))
        sums = (directory / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    except FileNotFoundError as error:
        raise PackageError(f"{directory}: is not a wheelhouse: make one with script/wheelhouse") from error
    for line in sums:
        known, name = line.split("  ", 1)
        if hashlib.sha256((directory / name).read_bytes()).hexdigest() != known:
            raise PackageError(f"{directory / name}: differs from SHA256SUMS: make the wheelhouse again")
    return House(directory, content["version"], content["os"], content["python"], content["arch"], content["wheels"])


def wheel(path: Path) -> Wheel:
    """What its metadata have."""
    with zipfile.ZipFile(path) as archive:
        # A project may bring another one, with its metadata, further down.
        inside = next(name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        metadata = email.parser.Parser().parsestr(archive.read(inside).decode("utf-8"), headersonly=True)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    name = re.sub(r"[-_.]+", "-", metadata["Name"]).lower()
    return Wheel(path.name, name, metadata["Version"], licence(metadata), digest)


def licence(metadata: Message) -> str:
    """In one line: the expression, else the classifiers, else the first line of the free text."""
    classifiers = metadata.get_all("Classifier") or []
    licences = [text.split(" :: ")[-1] for text in classifiers if text.startswith("License ::")]
    free = (metadata["License"] or "").strip().splitlines()
    return str(metadata["License-Expression"] or ", ".join(licences) or (free[0] if free else "unknown"))


def owners(house: House, packages: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The package of each file in ``site-packages``. Raises ``PackageError`` where two have the same one."""
    found: dict[str, str] = {}
    for package, names in packages.items():
        for name in (house.own, *names) if package == NAME else names:
            with zipfile.ZipFile(house.directory / name) as archive:
                for inside in archive.namelist():
                    path = re.sub(r"^[^/]+\.data/(?:purelib|platlib)/", "", inside)
                    if ".data/" in inside.partition("/")[0] + "/" and path == inside:
                        continue  # scripts and data: they are not in site-packages
                    if found.setdefault(path, package) != package:
                        raise PackageError(
                            f"{name}: {path} is in a wheel of {found[path]} too: both need one package"
                        )
    return found


# --- the files of a package ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Build:
    """What a run builds: ``home`` is the environment's directory on a node, ``trees`` has a directory per package."""

    house: House
    kind: str
    version: str
    release: str
    packages: Mapping[str, Sequence[str]]
    trees: Path
    python: str
    when: int

    @property
    def full_version(self) -> str:
        return f"{self.version}-{self.release}"

    @property
    def home(self) -> str:
        # A directory of its own for each version, and a link that dpkg and rpm put in place after all other files: an
        # upgrade is one step, also where it is killed.
        return f"/opt/plimsoll/{self.full_version}"

    def tree(self, package: str = NAME) -> Path:
        return self.trees / package

    def environment(self, package: str = NAME) -> Path:
        return self.tree(package) / self.home[1:]


def make_trees(build: Build) -> dict[str, tuple[int, int]]:
    """All files of all packages, as on a node. Returns which versions of state files this plimsoll reads."""
    home = build.environment()
    home.parent.mkdir(parents=True)
    run([build.python, "-I", "-m", "venv", "--without-pip", str(home)], "the environment could not be made")
    wheels = [build.house.own, *(name for names in build.packages.values() for name in names)]
    pip = next(build.house.directory.glob("pip-*.whl"))
    run(
        [str(home / "bin/python"), "-I", f"{pip}/pip", "install", "--isolated", "--quiet", "--no-input", "--no-index",
         "--no-deps", "--no-compile", "--no-cache-dir", "--disable-pip-version-check",
         *(str(build.house.directory / name) for name in wheels)],
        "pip could not install the wheels",
    )  # fmt: skip
    reads = _reads(home)
    _make_ours(build, home)
    share = home / "share"
    _place_shared(build, share)
    _part(build, home)
    for package in build.packages:
        for info in _site(build, build.environment(package)).glob("*.dist-info"):
            (info / "INSTALLER").write_text(f"{build.kind}\n", encoding="ascii")
        _compile(build, build.environment(package))
        _document(build, package)
    return reads


def _reads(home: Path) -> dict[str, tuple[int, int]]:
    code = "import json; from plimsoll_agent.app.state_check import readable; print(json.dumps(readable()))"
    printed = run([str(home / "bin/python"), "-I", "-B", "-c", code], "this plimsoll does not run here")
    return {name: (first, last) for name, (first, last) in json.loads(printed).items()}


def _make_ours(build: Build, home: Path) -> None:
    """Remove what tells of the machine that this runs on, and what only pip needs."""
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n", encoding="ascii")
    shutil.rmtree(home / "include", ignore_errors=True)
    for path in (home / "bin").iterdir():
        if path.name in _COMMANDS:
            first, rest = path.read_bytes().split(b"\n", 1)
            assert first.startswith(b"#!"), path
            path.write_bytes(f"#!{build.home}/bin/python\n".encode() + rest)
        elif not path.name.startswith("python"):
            path.unlink()
    (home / "bin/python").unlink()
    (home / "bin/python").symlink_to(f"/usr/bin/{build.house.interpreter}")
    for info in _site(build, home).glob("*.dist-info"):
        # Without RECORD no pip changes what dpkg or rpm has installed (PEP 627).
        for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
            (info / name).unlink(missing_ok=True)


def _site(build: Build, home: Path) -> Path:
    return home / "lib" / build.house.interpreter / "site-packages"


def _place_shared(build: Build, share: Path) -> None:
    """Pages, samples, units and completion, from where the wheel has them to where the distribution has them."""
    usr = build.tree() / "usr"
    units, samples = share / "plimsoll/systemd", usr / f"share/doc/{NAME}/examples"
    for unit in sorted(units.glob("plimsoll-*")):
        _move(unit, usr / "lib/systemd/system" / unit.name)
    for kind in ("sysusers", "tmpfiles"):
        _move(units / f"{kind}.conf", usr / f"lib/{kind}.d/{NAME}.conf")
    for page in sorted(share.glob("man/man*/*plimsoll*")):
        _pack(page, usr / "share/man" / page.parent.name / f"{page.name}.gz")
    _move(share / "bash-completion/completions/plimsoll", usr / "share/bash-completion/completions/plimsoll")
    for page in sorted((share / "doc/plimsoll").iterdir()):
        _move(page, samples.parent / page.name)
    for sample in sorted((share / "plimsoll").iterdir()):
        _move(sample, samples / sample.name)
    shutil.rmtree(share)
    # Where the documentation names them.
    (share / "doc").mkdir(parents=True)
    (share / "plimsoll").symlink_to(f"/usr/share/doc/{NAME}/examples")
    (share / "doc/plimsoll").symlink_to(f"/usr/share/doc/{NAME}")
    (build.tree() / "opt/plimsoll/current").symlink_to(build.full_version)
    (usr / "bin").mkdir()
    for command in _COMMANDS:
        (usr / "bin" / command).symlink_to(f"/opt/plimsoll/current/bin/{command}")
    settings = build.tree() / _CONFFILE[1:]
    (settings.parent / "plimsoll.conf.d").mkdir(parents=True)
    shutil.copyfile(_PACKAGING / "plimsoll.conf", settings)


def _part(build: Build, home: Path) -> None:
    """Move the files of extras to the trees of their packages."""
    site = _site(build, home)
    for inside, package in owners(build.house, build.packages).items():
        source = site / inside
        if package != NAME and source.is_file():
            _move(source, _site(build, build.environment(package)) / inside)
    for directory in sorted((path for path in site.rglob("*") if path.is_dir()), reverse=True):
        if not any(directory.iterdir()):
            directory.rmdir()


def _compile(build: Build, home: Path) -> None:
    """Byte code, without times: units cannot write it, and root's would remain after the package.

    Without ``site``: which constants share a reference depends on what else the process has imported, as a builder's
    ``sitecustomize`` or a ``.pth`` file.
    """
    if not (home / "lib").exists():
        return
    environment = {"PYTHONHASHSEED": "0"}
    prefix = str(home).removesuffix(build.home)
    run(
        [build.python, "-B", "-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", prefix,
         "-p", "/", str(home / "lib")],
        "compileall failed", environment,
    )  # fmt: skip


def _document(build: Build, package: str) -> None:
    """The bill of materials, copyright and changelog; on Debian, reasons for what lintian notes too."""
    wheels = [wheel(build.house.directory / name) for name in build.packages[package]]
    pages = build.tree(package) / "usr/share/doc" / package
    pages.mkdir(parents=True, exist_ok=True)
    (pages / "sbom.cdx.json").write_text(
        bill_of_materials(package, build.full_version, wheels, build.when), encoding="utf-8"
    )
    (pages / "copyright").write_text(copyright_text(wheels), encoding="utf-8")
    if build.kind == "deb":
        (pages / "changelog.Debian").write_text(changelog(package, build.full_version, build.when), encoding="utf-8")
        _pack(pages / "changelog.Debian", pages / "changelog.Debian.gz")
        overrides = build.tree(package) / "usr/share/lintian/overrides" / package
        overrides.parent.mkdir(parents=True)
        text = (_PACKAGING / "lintian-overrides").read_text(encoding="utf-8")
        overrides.write_text(text, encoding="utf-8")


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


def _pack(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(source.read_bytes())
    source.unlink()


def _settle(tree: Path, when: int, libraries: int) -> None:
    """Modes and times of all files; ``libraries``: the mode of shared objects, which Debian and rpm differ in."""
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            is_program = path.is_dir() or path.parent.name == "bin"
            path.chmod(0o755 if is_program else libraries if ".so" in path.suffixes else 0o644)
        os.utime(path, (when, when), follow_symlinks=False)


# --- deb and rpm -----------------------------------------------------------------------------------------


def make_debs(build: Build, output: Path) -> Iterator[Path]:
    reads = make_trees(build)
    functions, judge = _template("functions.sh"), _template("judge_state.py")
    for package in build.packages:
        tree = build.tree(package)
        _settle(tree, build.when, 0o644)
        files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
        # KiB, rounded up for each file, and one for each directory and link (deb-control(5)).
        size = sum(-(-path.stat().st_size // 1024) for path in files) + sum(1 for _ in tree.rglob("*")) - len(files)
        libraries = _libraries([path for path in files if ".so" in path.suffixes], build.trees)
        meta = tree / "DEBIAN"
        meta.mkdir()
        sums = (f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n" for path in files)
        (meta / "md5sums").write_text("".join(sums), encoding="utf-8")
        values = fields(package, build.full_version, build.house, libraries, size)
        (meta / "control").write_text(as_control(values), encoding="utf-8")
        if package != NAME:
            (meta / "preinst").write_text(script(_PREINST_OF_EXTRA, functions, judge, reads), encoding="utf-8")
            (meta / "preinst").chmod(0o755)
        else:
            (meta / "conffiles").write_text(f"{_CONFFILE}\n", encoding="ascii")
            for name in ("preinst", "postinst", "prerm", "postrm"):
                (meta / name).write_text(script(_template(name), functions, judge, reads), encoding="utf-8")
                (meta / name).chmod(0o755)
        target = output / f"{package}_{build.full_version}_{values['Architecture']}.deb"
        # Nodes unpack it with a tenth of the work that xz takes. One thread: more give other bytes.
        run(
            ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z5", "--threads-max=1", "--build", str(tree), str(target)],
            f"{target.name} could not be made", {"SOURCE_DATE_EPOCH": str(build.when)},
        )  # fmt: skip
        yield target


def _libraries(objects: Sequence[Path], work: Path) -> str:
    """The packages that these shared objects need, as dpkg-shlibdeps finds them; libvirt0 with its version."""
    if not objects:
        return ""
    (work / "debian").mkdir(exist_ok=True)
    (work / "debian/control").write_text(f"Source: {NAME}\n\nPackage: {NAME}\nArchitecture: any\n", encoding="ascii")
    # Wheels bring libraries of their own, in directories NAME.libs.
    own = sorted({path.parent for path in objects if path.parent.name.endswith(".libs")})
    printed = run(
        ["dpkg-shlibdeps", "-O", "--warnings=0", "--ignore-missing-info", *(f"-l{path}" for path in own),
         *(f"-e{path}" for path in objects)],
        "dpkg-shlibdeps could not tell which libraries are needed", where=work,
    )  # fmt: skip
    return printed.strip().removeprefix("shlibs:Depends=")


def make_rpms(build: Build, output: Path) -> Iterator[Path]:
    reads = make_trees(build)
    functions = with_judge(_template("functions.sh"), _template("judge_state.py"), reads)
    for package in build.packages:
        _settle(build.tree(package), build.when, 0o755)
        (build.trees / f"{package}.files").write_text(listed(build.tree(package)), encoding="utf-8")
    text = spec(build, _template("plimsoll.spec"), functions)
    (build.trees / "plimsoll.spec").write_text(text, encoding="utf-8")
    top = build.trees / "rpmbuild"
    # Doubled: what the spec gives the first package is a macro too, and all packages would have that name.
    named = "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm"
    defined = {"_topdir": top, "_rpmdir": output, "_build_name_fmt": named}
    run(
        ["rpmbuild", "-bb", "--quiet", "--target", build.house.arch,
         *(word for name, value in defined.items() for word in ("--define", f"{name} {value}")),
         str(build.trees / "plimsoll.spec")],
        "rpmbuild failed", {"SOURCE_DATE_EPOCH": str(build.when)},
    )  # fmt: skip
    for package in build.packages:
        yield output / f"{package}-{build.full_version}.{build.house.arch}.rpm"


def spec(build: Build, text: str, functions: str) -> str:
    """The spec with what only this build knows."""
    extras = [package for package in build.packages if package != NAME]
    described = [
        f"%package -n {package}\nSummary: {_capital(EXTRAS[package.removeprefix(f'{NAME}-')][1])}\n"
        f"Requires: {NAME} = %{{version}}-%{{release}}\nAutoProv: no\n"
        f"%description -n {package}\nWhat plimsoll needs for that, beside the package {NAME}.\n"
        f"\n%pre -n {package}\nset -e\n@FUNCTIONS@\ncheck_state\n"
        for package in extras
    ]
    values = {
        "VERSION": build.version,
        "RELEASE": build.release,
        "SUMMARY": _capital(SUMMARY),
        "PYTHON": build.house.interpreter.removeprefix("python"),
        "DESCRIPTION": DESCRIPTION,
        "EXTRAS": "\n".join(described),
        "EXTRA_FILES": "\n".join(f"%files -n {package} -f {build.trees}/{package}.files" for package in extras),
        "TREES": " ".join(f"{build.tree(package)}/." for package in build.packages),
        "FILES": f"{build.trees}/{NAME}.files",
        "FUNCTIONS": functions.replace("%", "%%"),
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _capital(words: str) -> str:
    """Debian's summaries begin with a small letter, those of rpm with a capital."""
    return words[0].upper() + words[1:]


# --- the command line ------------------------------------------------------------------------------------


def _template(name: str) -> str:
    return (_PACKAGING / name).read_text(encoding="utf-8")


def run(argv: Sequence[str], what: str, more: Mapping[str, str] | None = None, where: Path | None = None) -> str:
    """The program's output. Raises ``PackageError``."""
    environment = os.environ | {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1"} | dict(more or {})
    try:
        done = subprocess.run(argv, cwd=where, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise PackageError(f"{argv[0]} is missing: install {_PROGRAMS.get(argv[0], argv[0])}") from error
    if done.returncode:
        raise PackageError(f"{what}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


_PROGRAMS = {
    "apt-ftparchive": "apt-utils",
    "createrepo_c": "createrepo-c (EL: createrepo_c)",
    "dpkg-shlibdeps": "dpkg-dev",
    "rpmbuild": "rpm (EL: rpm-build)",
    "rpmsign": "rpm (EL: rpm-sign)",
}
"""What Debian's package is called that has the program."""


def _extras(text: str) -> tuple[str, ...]:
    words = tuple(word for word in text.split(",") if word)
    if unknown := [word for word in words if word not in EXTRAS]:
        raise argparse.ArgumentTypeError(f"no such extra: {', '.join(unknown)}; there are {', '.join(EXTRAS)}")
    return words


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/package", description="Makes packages of a wheelhouse.")
    commands = parser.add_subparsers(dest="command", required=True)
    for kind in ("deb", "rpm"):
        make = commands.add_parser(kind, help=f"make {kind}s of a wheelhouse of this machine")
        make.add_argument("wheelhouse", type=Path, metavar="WHEELHOUSE", help="the tarball, or where it is unpacked")
        make.add_argument("--output", type=Path, default=Path("dist"), metavar="DIR", help="default: dist")
        make.add_argument(
            "--revision", type=int, default=1, metavar="N", help="of packages of this version; default: 1"
        )
        make.add_argument(
            "--extras", type=_extras, default=tuple(EXTRAS), metavar="NAME,...",
            help=f"packages beside the one for all nodes; default: {','.join(EXTRAS)}",
        )  # fmt: skip
    return parser


def _make(asked: argparse.Namespace, work: Path) -> Iterable[Path]:
    directory = asked.wheelhouse
    if not directory.is_dir():
        # Not tarfile, whose filter for members Debian 12's Python does not have.
        run(["tar", "-xzf", str(directory), "-C", str(work)], f"{directory} cannot be unpacked")
        directory = next(work.iterdir())
    house = load(directory)
    here = machine.here()
    if (house.os, house.python, house.arch) != (here.os, here.python, here.arch):
        raise PackageError(
            f"{directory.name} is not for {here}: make packages where the wheelhouse was made, with the same --python"
        )
    build = Build(
        house, asked.command, packaged_version(house.version), release(house, asked.revision),
        divide(house.wheels, asked.extras), work / "trees", str(Path(sys.executable).resolve()),
        packing.epoch(packing.ROOT),
    )  # fmt: skip
    asked.output.mkdir(parents=True, exist_ok=True)
    make: Callable[[Build, Path], Iterator[Path]] = make_debs if asked.command == "deb" else make_rpms
    for package in make(build, asked.output.resolve()):
        package.chmod(0o644)
        yield package


def status_of(make: Callable[[], object]) -> int:
    """The exit status of one of the commands of ``script/package``, which says in a line why it failed."""
    try:
        make()
    except (PackageError, OSError) as error:
        print(f"script/package: {error}", file=sys.stderr)
        return 1
    return 0


def main(argv: Sequence[str]) -> int:
    asked = _parser().parse_args(argv)
    os.umask(0o022)

    def make() -> None:
        with tempfile.TemporaryDirectory(prefix="plimsoll-package-") as work:
            for package in _make(asked, Path(work)):
                print(package)

    return status_of(make)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
