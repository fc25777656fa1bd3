"""``plimsoll qos`` as a person types it, and as a pipeline does, on a Cinder that keeps the real one's rules."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.command import PLIMSOLL, Forked
from plimsoll_agent.catalogue.api import BLOCK_STORAGE, Refused
from tests.fakecinder import FakeCinder
from tests.functional.cloudserver import Cloud, Handler, Server, credentials
from tests.functional.conftest import Ran, ended
from tests.unit.agent.cli.test_qos import FILE


class CinderHandler(Handler):
    """Keystone as in ``cloudserver``, and behind it a fake Cinder."""

    cinder: FakeCinder

    def _service(self, cloud: Cloud, path: str) -> None:
        path, body = path.removeprefix("/volume/v3"), json.loads(self.body) if self.body else None
        try:
            answer = self.cinder.call(self.command, BLOCK_STORAGE, path, self.query, body)
        except Refused as error:
            self.say_json(error.status, {"badRequest": {"message": str(error)}})
        else:
            self.say(202, b"") if answer is None else self.say_json(200, answer)


@contextmanager
def serving(cinder: FakeCinder) -> Iterator[str]:
    """The address of its Keystone."""
    server = Server(("127.0.0.1", 0), type("Bound", (CinderHandler,), {"cinder": cinder}))
    server.cloud = Cloud(url=f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server.cloud.url
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Site:
    """A Cinder, a file for it, and the command between them."""

    cinder: FakeCinder
    file: Path
    settings: Path

    def start(self, *words: str) -> Forked:
        pipe = subprocess.PIPE
        return Forked("--config-file", self.settings, "qos", *words, stdin=pipe, stdout=pipe, stderr=pipe)

    def run(self, *words: str, text: str | None = None) -> Ran:
        return ended(self.start(*words), text)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Types gold and silver with a spec of 3000, one volume of each attached."""
    cinder = FakeCinder()
    spec = cinder.spec("gold", {"total_iops_sec": "3000"})
    cinder.default = cinder.type("__DEFAULT__")
    for name in ("gold", "silver"):
        cinder.type(name, spec)
        cinder.volume(name, 100)
    file = tmp_path / "qos.yaml"
    file.write_text(FILE)
    with serving(cinder) as url:
        settings = tmp_path / "plimsoll.conf"
        settings.write_text(f"[catalogue]\ncredentials_file = {credentials(tmp_path, f'{url}/identity')}\n")
        yield Site(cinder, file, settings)


def test_what_was_planned_is_applied_and_then_nothing_is_to_do(site: Site) -> None:
    assert site.run("plan", str(site.file)).status == 2
    applied = site.run("apply", "--yes", "-", text=FILE)
    assert (applied.status, applied.err) == (0, "")
    assert site.run("plan", str(site.file)).status == 0
    assert site.run("lint").out.splitlines()[-1] == "Cinder: 1 QoS spec and 3 volume types, no errors, 1 warning"


def test_what_cinder_refuses_is_told_in_its_own_words(site: Site) -> None:
    ran = site.run("apply", "--yes", "-", text=FILE.replace("gold: {qos", "gold: {extra_specs: {a: b}, qos"))
    assert ran.status == 3
    (line,) = (line for line in ran.out.splitlines() if "not done" in line)
    assert line.startswith("~ volume type gold  a b added   not done: Cinder (http://")
    assert line.endswith("Volume Type is currently in use.")


def test_without_credentials_it_is_a_line_that_says_where_they_go(site: Site, tmp_path: Path) -> None:
    (tmp_path / "openstack.conf").unlink()
    ran = site.run("plan", str(site.file))
    assert (ran.status, len(ran.err.splitlines())) == (1, 1)
    assert "openstack.conf: no such file; write the credentials there, or name a cloud of clouds.yaml" in ran.err
    assert "plimsoll qos --cloud NAME or OS_CLOUD" in ran.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_between_two_steps_and_the_next_run_goes_on(site: Site, number: signal.Signals) -> None:
    """In the middle of a move, where the type has no spec."""
    site.cinder.spec("other", {"total_iops_sec": "3000"})
    site.file.write_text(
        "qos_specs:\n  other:\n    consumer: front-end\n    keys: {total_iops_sec: 3000}\n"
        "volume_types:\n  gold: {qos_spec: other}\n  silver: {qos_spec: other}\n"
    )
    process: Forked | None = None

    def before(method: str, path: str) -> None:
        if path.endswith("/disassociate") and process is not None and process.poll() is None:
            os.kill(process.pid, number)

    site.cinder.before = before
    process = site.start("apply", str(site.file))
    out, err = process.communicate(timeout=60)
    assert out.splitlines() == [
        "~ volume type gold  QoS spec gold → other   done",
        "~ volume type silver  QoS spec gold → other   not tried: interrupted",
        "Kept: 1 QoS spec (gold); not in the file; --prune deletes them.",
        "Kept: 1 volume type (__DEFAULT__); default types and their QoS specs are never deleted.",
        "1 of 2 steps done; 1 left: see plimsoll qos plan.",
    ]
    assert err.startswith("Interrupted: no more steps.")
    assert process.returncode == 3
    site.cinder.before = lambda method, path: None
    assert site.run("apply", str(site.file)).status == 0


@pytest.mark.parametrize(("words", "loaded"), [(("qos", "export"), True), (("catalogue", "refresh"), False)])
def test_qos_alone_loads_openstacksdk(site: Site, words: tuple[str, ...], loaded: bool) -> None:
    settings = site.settings.read_text()
    site.settings.write_text(f"{settings}source = openstack\ndirectory = {site.settings.parent}/catalogue\n")
    command = [sys.executable, "-X", "importtime", PLIMSOLL, "--config-file", site.settings, *words]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert ran.returncode == 0
    assert ("openstack.connection" in re.findall(r"^import time:.*\| +(\S+)$", ran.stderr, re.MULTILINE)) is loaded
