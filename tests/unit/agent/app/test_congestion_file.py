"""The files of congestion's factors: what killed publishers and fetchers leave is removed."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from plimsoll_agent.app.congestion_fetch import Fetcher
from plimsoll_agent.app.congestion_file import CongestionFile
from plimsoll_agent.config import settings as config
from tests.unit.agent.congestion.values import a_factor, a_factor_file
from tests.unit.regionfile import a_key, keep_public
from tests.unit.values import NOON


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    published, fetched = tmp_path / "published", tmp_path / "fetched"
    for directory, name in ((published, "congestion.json"), (fetched, "congestion-0.json")):
        directory.mkdir()
        for ending in ("old", "new"):
            (directory / f".{name}.{ending}").touch()
        os.utime(directory / f".{name}.old", (0, 0))
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    signing_key = tmp_path / "congestion.key"
    signing_key.write_bytes(a_key().key.private_bytes(*pem))
    signing_key.chmod(0o600)
    CongestionFile(published / "congestion.json", signing_key).write(a_factor_file(a_factor()))
    assert {path.name for path in published.iterdir()} == {"congestion.json", ".congestion.json.new"}
    keep_public(tmp_path / "congestion.pub", a_key())
    (tmp_path / "plimsoll.conf").write_text(
        f"[catalogue]\ndirectory = {fetched}\n"
        f"[congestion]\nfiles = {published}/congestion.json\nkey = {tmp_path}/congestion.pub\n"
    )
    assert Fetcher(config.load([tmp_path / "plimsoll.conf"], [])).fetch(NOON) == []
    assert {path.name for path in fetched.iterdir()} == {"congestion-0.json", ".congestion-0.json.new"}
