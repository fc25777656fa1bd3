"""The cloud's daemons and its guest are of the release that was asked for."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest, recipe, release

pytestmark = [pytest.mark.shared, pytest.mark.core]

OS_RELEASE = "usr/lib/os-release"


def test_the_clouds_daemons_are_of_its_release(cloud: Cloud) -> None:
    expected = (release.tree(cloud.layout.cache) / OS_RELEASE).read_bytes()
    names = (*cloud.ceph.daemon_names, cloud.libvirtd.name)
    daemons = {name: pid for name, pid in cloud.namespace.daemons().items() if name in names}
    assert set(daemons) == set(names)
    for name, pid in daemons.items():
        assert Path(f"/proc/{pid}/root", OS_RELEASE).read_bytes() == expected, name


def test_the_guest_with_a_system_in_it_is_of_the_release(booted: Guest, cloud: Cloud) -> None:
    """Of sid the name is testing's, so it is asked of the tree."""
    asked = bool(os.environ.get(release.VARIABLE))
    of_daemons = _codename((release.tree(cloud.layout.cache) / OS_RELEASE).read_text())
    told = booted.exec(["sh", "-c", "cat /etc/os-release; fio --version; qemu-ga --version"])
    print(told.out)
    assert _codename(told.out) == (of_daemons if asked else recipe.SUITE)


def _codename(text: str) -> str:
    (found,) = re.findall("^VERSION_CODENAME=(.*)$", text, re.MULTILINE)
    return str(found)
