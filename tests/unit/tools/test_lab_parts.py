"""The parts of the lab that ``python -m lab.cloud up`` is told to start."""

from __future__ import annotations

import sys

import pytest

from lab.cloud import __main__ as command


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--parts", "ceph", "libvirt"], ["ceph", "libvirt"]),
        (["--parts", "ceph,libvirt"], ["ceph", "libvirt"]),
        (["--parts", "ceph,", "libvirt,nagios"], ["ceph", "libvirt", "nagios"]),
        ([], ["ceph", "libvirt", "guest"]),
    ],
)
def test_parts_are_separated_by_spaces_or_commas(
    words: list[str], parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(command.Cloud, "up", lambda _, parts: started.extend(parts))
    monkeypatch.setattr(command, "_say_how_to_reach", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["lab.cloud", "up", *words])
    assert command.main() == 0
    assert started == parts
