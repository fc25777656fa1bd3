"""A wheelhouse on its way to a node: known by its sums, and unpacked only when it is nothing else."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tests.collection import plugin

action = plugin("action.release")
module = plugin("modules.release")

NAME = "plimsoll-0.1.0-debian12-cp311-x86_64"


def tarball(tmp_path: Path, *members: tuple[str, bytes], link: str = "") -> Path:
    file = tmp_path / f"{NAME}.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        if link:
            member = tarfile.TarInfo(f"{NAME}/more")
            member.type, member.linkname = tarfile.SYMTYPE, link
            tar.addfile(member)
    return file


def test_it_is_known_by_the_sums_that_lie_in_it(tmp_path: Path):
    file = tarball(tmp_path, (f"{NAME}/a.whl", b"wheel"), (f"{NAME}/SHA256SUMS", b"sums"))
    assert action.sums_digest(file) == hashlib.sha256(b"sums").hexdigest()


@pytest.mark.parametrize("name", ["SHA256SUMS", f"{NAME}x/SHA256SUMS", f"{NAME}/more/SHA256SUMS"])
def test_another_tarball_is_refused_with_what_makes_the_right_one(tmp_path: Path, name: str):
    with pytest.raises(action.AnsibleActionFail, match=r"not a wheelhouse.*script/wheelhouse"):
        action.sums_digest(tarball(tmp_path, (name, b"sums")))


def test_what_is_no_tarball_is_named(tmp_path: Path):
    (tmp_path / f"{NAME}.tar.gz").write_bytes(b"half of one")
    with pytest.raises(action.AnsibleActionFail, match=f"{NAME}.tar.gz: cannot be read"):
        action.sums_digest(tmp_path / f"{NAME}.tar.gz")


def test_it_is_unpacked_as_it_was_packed(tmp_path: Path):
    file = tarball(tmp_path, (f"{NAME}/SHA256SUMS", b"sums"), (f"{NAME}/a.whl", b"wheel"))
    home = module.unpack(str(file), str(tmp_path / "to"))
    assert home == tmp_path / "to" / NAME
    assert {path.name: path.read_bytes() for path in home.iterdir()} == {"SHA256SUMS": b"sums", "a.whl": b"wheel"}


@pytest.mark.parametrize("name", ["../evil", f"{NAME}/../evil", "/etc/evil", f"{NAME}/a/b", "evil"])
def test_nothing_is_written_of_a_tarball_that_would_write_elsewhere(tmp_path: Path, name: str):
    file = tarball(tmp_path, (f"{NAME}/SHA256SUMS", b"sums"), (name, b"evil"))
    with pytest.raises(ValueError, match="it contains"):
        module.unpack(str(file), str(tmp_path / "to"))
    assert not (tmp_path / "to").exists()


def test_a_link_is_no_part_of_a_wheelhouse(tmp_path: Path):
    with pytest.raises(ValueError, match="it contains"):
        module.unpack(str(tarball(tmp_path, link="/etc/shadow")), str(tmp_path / "to"))
