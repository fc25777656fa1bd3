"""Packages for nodes, as far as it is text: versions, who has which file, what scripts refuse."""

from __future__ import annotations

import io
import json
import runpy
import sys
import zipfile
from collections.abc import Iterable
from email.message import Message
from pathlib import Path

import ospackage
import pytest
import repository
from ospackage import House, PackageError, Wheel

PACKAGING = Path(ospackage.__file__).parents[1] / "packaging"
WHEELS = {
    "base": ["cliff-4.0-py3-none-any.whl"],
    "openstack": ["cliff-4.0-py3-none-any.whl", "openstacksdk-4.0-py3-none-any.whl", "psutil-7.0-py3-none-any.whl"],
    "region": ["cliff-4.0-py3-none-any.whl", "tooz-7.0-py3-none-any.whl", "psutil-7.0-py3-none-any.whl"],
    "report": ["matplotlib-3.0-py3-none-any.whl"],
    "insight": ["matplotlib-3.0-py3-none-any.whl", "zstandard-0.2-py3-none-any.whl"],
}
HOUSE = House(Path("house"), "0.1.0", "debian12", "cp311", "x86_64", WHEELS)
PYYAML = Wheel("PyYAML-6.0.whl", "pyyaml", "6.0", "MIT", "ab" * 32)


@pytest.mark.parametrize(
    ("version", "packaged"),
    [("0.1.0", "0.1.0"), ("0.2.0rc1", "0.2.0~rc1"), ("1.0.dev3", "1.0~dev3"), ("1.0b2", "1.0~b2")],
)
def test_dpkg_and_rpm_order_a_candidate_before_its_release(version: str, packaged: str) -> None:
    assert ospackage.packaged_version(version) == packaged


def test_packages_of_two_systems_have_two_versions_and_those_of_el_its_own_form() -> None:
    el = House(Path("house"), "0.1.0", "el9", "cp311", "x86_64", WHEELS)
    assert ospackage.release(HOUSE, 2) == "2+debian12"
    assert ospackage.release(el, 2) == "2.el9"


def test_a_wheel_that_two_extras_need_is_in_the_package_of_all_nodes() -> None:
    assert ospackage.divide(WHEELS) == {
        "plimsoll": ["cliff-4.0-py3-none-any.whl", "psutil-7.0-py3-none-any.whl"],
        "plimsoll-openstack": ["openstacksdk-4.0-py3-none-any.whl"],
        "plimsoll-region": ["tooz-7.0-py3-none-any.whl"],
        "plimsoll-report": ["matplotlib-3.0-py3-none-any.whl", "zstandard-0.2-py3-none-any.whl"],
    }


def test_without_extras_there_is_one_package() -> None:
    assert ospackage.divide(WHEELS, ()) == {"plimsoll": ["cliff-4.0-py3-none-any.whl"]}


def test_an_extra_needs_the_very_build_that_it_was_made_with() -> None:
    extra = ospackage.fields("plimsoll-region", "0.1.0-1+debian12", HOUSE, "libc6 (>= 2.34)", 10)
    own = ospackage.fields("plimsoll", "0.1.0-1+debian12", HOUSE, "libvirt0 (>= 9.0.0)", 10)
    assert extra["Depends"] == "plimsoll (= 0.1.0-1+debian12), libc6 (>= 2.34)"
    assert own["Depends"] == "python3.11, systemd (>= 252), libvirt0 (>= 9.0.0)"
    assert own["Architecture"] == "amd64"


def test_a_control_file_has_no_empty_line_and_no_line_that_dpkg_takes_for_a_field() -> None:
    text = ospackage.as_control(ospackage.fields("plimsoll", "1", HOUSE, "", 1))
    continued = text.split("Description: ")[1].splitlines()[1:]
    assert continued
    assert all(line.startswith(" ") and line.strip() for line in continued)


def test_the_bill_of_materials_has_each_wheel_with_its_sum() -> None:
    made = json.loads(ospackage.bill_of_materials("plimsoll", "0.1.0-1", [PYYAML], 86_400))
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.5")
    assert made["metadata"]["timestamp"] == "1970-01-02T00:00:00Z"
    (component,) = made["components"]
    assert component["purl"] == "pkg:pypi/pyyaml@6.0"
    assert component["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert made["dependencies"][0]["dependsOn"] == ["pkg:pypi/pyyaml@6.0"]


def test_two_bills_have_the_same_serial_number_only_where_they_list_the_same_files() -> None:
    other = Wheel(PYYAML.file, PYYAML.name, PYYAML.version, PYYAML.license, "cd" * 32)
    first, again, changed = (
        json.loads(ospackage.bill_of_materials("plimsoll", "0.1.0-1", [wheel], 0))["serialNumber"]
        for wheel in (PYYAML, PYYAML, other)
    )
    assert first == again != changed


def _metadata(**fields: str) -> Message:
    message = Message()
    for name, value in fields.items():
        message[name.replace("_", "-")] = value
    return message


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License_Expression": "MIT", "License": "other"}, "MIT"),
        ({"Classifier": "License :: OSI Approved :: MIT License", "License": "long"}, "MIT License"),
        ({"License": "BSD\nand all of its text"}, "BSD"),
        ({}, "unknown"),
    ],
)
def test_a_licence_is_one_line(fields: dict[str, str], licence: str) -> None:
    assert ospackage.licence(_metadata(**fields)) == licence


def test_a_wheel_is_named_by_its_own_metadata_in_any_letters(tmp_path: Path) -> None:
    file = tmp_path / "Some_Thing-1.2-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("some_thing/_vendor/other-3.dist-info/METADATA", "Name: other\nVersion: 3\n\n")
        text = "Name: Some_Thing\nVersion: 1.2\nLicense: © the authors\n\n"
        archive.writestr("some_thing-1.2.dist-info/METADATA", text)
    found = ospackage.wheel(file)
    assert (found.name, found.version, found.license) == ("some-thing", "1.2", "© the authors")


def _house(tmp_path: Path, files: dict[str, Iterable[str]]) -> House:
    for name, inside in files.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for file in inside:
                archive.writestr(file, "")
    with zipfile.ZipFile(tmp_path / HOUSE.own, "w") as archive:
        archive.writestr("plimsoll_agent/__init__.py", "")
        archive.writestr("plimsoll_agent-0.1.0.data/data/share/man/man1/plimsoll.1", "")
    return House(tmp_path, "0.1.0", "debian12", "cp311", "x86_64", {})


def test_each_file_has_the_package_of_its_wheel(tmp_path: Path) -> None:
    files = {"one.whl": ["one/a.py", "one-1.data/purelib/one/b.py", "one-1.data/scripts/one"], "two.whl": ["two.py"]}
    house = _house(tmp_path, {name: list(inside) for name, inside in files.items()})
    assert ospackage.owners(house, {"plimsoll": ["one.whl"], "plimsoll-region": ["two.whl"]}) == {
        "one/a.py": "plimsoll",
        "one/b.py": "plimsoll",
        "two.py": "plimsoll-region",
        "plimsoll_agent/__init__.py": "plimsoll",
    }


def test_a_file_of_two_packages_is_an_error_since_dpkg_would_refuse_it(tmp_path: Path) -> None:
    house = _house(tmp_path, {"one.whl": ["tests/__init__.py"], "two.whl": ["tests/__init__.py"]})
    with pytest.raises(PackageError, match=r"two\.whl: tests/__init__\.py"):
        ospackage.owners(house, {"plimsoll": ["one.whl"], "plimsoll-region": ["two.whl"]})


def test_rpm_keeps_the_operators_settings_and_owns_only_directories_of_plimsoll(tmp_path: Path) -> None:
    for name in ("etc/plimsoll/plimsoll.conf", "opt/plimsoll/1/bin/plimsoll", "usr/share/man/man1/plimsoll.1.gz"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert ospackage.listed(tmp_path).splitlines() == [
        '%dir "/etc/plimsoll"',
        '%config(noreplace) "/etc/plimsoll/plimsoll.conf"',
        '%dir "/opt/plimsoll"',
        '%dir "/opt/plimsoll/1"',
        '%dir "/opt/plimsoll/1/bin"',
        '"/opt/plimsoll/1/bin/plimsoll"',
        '%doc "/usr/share/man/man1/plimsoll.1.gz"',
    ]


def _judged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: object) -> tuple[int, str]:
    reads = {"memory.json": (3, 6)}
    monkeypatch.setattr(sys, "stdin", io.StringIO(found if isinstance(found, str) else json.dumps(found)))
    status = runpy.run_path(str(PACKAGING / "judge_state.py"))["main"](reads)
    return status, capsys.readouterr().out


def _row(version: int | None, condition: str = "ok", name: str = "memory.json") -> dict[str, object]:
    return {"file": f"/var/lib/plimsoll/{name}", "version": version, "condition": condition, "detail": "why"}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([_row(7)], "/var/lib/plimsoll/memory.json: has version 7, and the version to install reads up to 6"),
        ([_row(2)], "/var/lib/plimsoll/memory.json: has version 2, and the version to install reads from 3 on"),
        ([_row(None, "corrupt")], "/var/lib/plimsoll/memory.json: corrupt: why"),
        ("plimsoll: settings are faulty", "correct what plimsoll state check prints"),
        ("", "correct what plimsoll state check prints"),
    ],
)
def test_a_version_that_cannot_read_the_state_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: object, words: str
) -> None:
    status, said = _judged(monkeypatch, capsys, found)
    assert status == 1
    assert words in said


@pytest.mark.parametrize(
    "found", [[], [_row(3)], [_row(6)], [_row(None, "missing")], [_row(9, "newer", "pass.json")]]
)
def test_a_version_that_can_read_the_state_or_replaces_it_is_let_through(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: object
) -> None:
    assert _judged(monkeypatch, capsys, found) == (0, "")


def test_the_program_in_a_script_ends_as_a_program_and_has_what_this_version_reads() -> None:
    text = ospackage.with_judge("", (PACKAGING / "judge_state.py").read_text(), {"memory.json": (3, 6)})
    program = text.split("cat << 'END'\n")[1].split("\nEND\n")[0]
    compile(program, "judge_state", "exec")
    assert program.endswith("""sys.exit(main(json.loads('{"memory.json": [3, 6]}')))""")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("plimsoll_0.1.0-1+debian12_amd64.deb", "apt/pool/debian12"),
        ("plimsoll-region_0.2.0~rc1-3+ubuntu24.04_arm64.deb", "apt/pool/ubuntu24.04"),
        ("plimsoll-0.1.0-1.el9.x86_64.rpm", "dnf/el9/x86_64"),
        ("plimsoll-report-0.1.0-2.el10.aarch64.rpm", "dnf/el10/aarch64"),
    ],
)
def test_a_package_is_where_machines_of_its_system_look(name: str, place: str) -> None:
    assert str(repository.place(name)) == f"{place}/{name}"


def test_a_file_that_is_no_package_of_ours_is_refused() -> None:
    with pytest.raises(PackageError, match=r"plimsoll\.tar\.gz"):
        repository.place("plimsoll.tar.gz")
