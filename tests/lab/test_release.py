"""The cloud's daemons are of the release that was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cloud import Cloud, release

pytestmark = [pytest.mark.shared, pytest.mark.core]

OS_RELEASE = "usr/lib/os-release"


def test_the_clouds_daemons_are_of_its_release(cloud: Cloud) -> None:
    expected = (release.tree(cloud.layout.cache) / OS_RELEASE).read_bytes()
    names = (*cloud.ceph.daemon_names, cloud.libvirtd.name)
    daemons = {name: pid for name, pid in cloud.namespace.daemons().items() if name in names}
    assert set(daemons) == set(names)
    for name, pid in daemons.items():
        assert Path(f"/proc/{pid}/root", OS_RELEASE).read_bytes() == expected, name
