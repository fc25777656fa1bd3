"""libvirt's own test driver: real bindings, no hypervisor. It shows discovery and errors, never enforcement."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from lab.command import Forked, Installed
from tests.measuring import measure_beginnings, unmeasured
from tests.words import in_output

DATA = Path(__file__).parents[1] / "unit" / "data"


def pytest_configure(config: pytest.Config) -> None:
    measure_beginnings(config)


@pytest.fixture(scope="module")
def programs_unmeasured() -> Iterator[None]:
    """For a file whose tests start large programs of others, or see what the command itself takes."""
    with unmeasured():
        yield


@pytest.fixture
def test_node(tmp_path: Path) -> str:
    """The URI of a node on which guests run that a real Nova made."""
    for number, sample in enumerate(sorted(DATA.glob("*.live.xml"))):
        text = sample.read_text()
        text = re.sub(r"<domain type='qemu' id='\d+'>", "<domain type='test'>", text)
        text = re.sub(r"<sysinfo.*?</sysinfo>", "", text, flags=re.DOTALL)
        text = re.sub(r"<seclabel.*?</seclabel>", "", text, flags=re.DOTALL)
        # The samples are one guest at several moments: each is a guest of its own here.
        text = re.sub(r"<name>ospike-\d+</name>", f"<name>instance-{number + 1:08x}</name>", text)
        text = re.sub(r"<uuid>........-", f"<uuid>{number + 1:08x}-", text, count=1)
        (tmp_path / f"{number}.xml").write_text(text)
    domains = "".join(f'<domain file="{file.name}"/>' for file in sorted(tmp_path.glob("*.xml")))
    (tmp_path / "node.xml").write_text(f"<node>{domains}</node>")
    return f"test://{tmp_path}/node.xml"


def name_cluster(path: Path) -> None:
    """Let the settings that ``plimsoll`` has there name a cluster."""
    (path / "ceph.conf").touch()
    with (path / "plimsoll.conf").open("r+") as settings:
        if "[ceph]" not in settings.read():
            settings.write(f"[ceph]\nconf_files = {path}/ceph.conf\n")


@pytest.fixture
def unreadable_node(test_node: str) -> str:
    """The URI of that node, where the definition of one guest, instance-00000001, cannot be read."""
    file = Path(test_node.removeprefix("test://")).with_name("0.xml")
    file.write_text(re.sub(r"(<nova:name>.*?</nova:name>)", r"\1\1", file.read_text(), count=1))
    return test_node


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


@pytest.fixture
def plimsoll(tmp_path: Path) -> Callable[..., Ran]:
    """Runs the command as a person would, with settings of its own."""
    settings = tmp_path / "plimsoll.conf"
    settings.write_text(f"[DEFAULT]\nstate_dir = {tmp_path}/state\nrules_file = {tmp_path}/rules.yaml\n")
    (tmp_path / "rules.yaml").write_text("{}\n")

    def run(*words: str, stdout: IO[str] | None = None, stderr: IO[str] | None = None, **environment: str) -> Ran:
        with Forked(
            "--config-file",
            settings,
            *words,
            stdout=stdout or subprocess.PIPE,
            stderr=stderr or subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=os.environ | {"COLUMNS": "100"} | environment,
        ) as process:
            return ended(process)

    return run


AS_IN_FILES = ("settings", "monitoring")
"""Commands that print values and definitions as files have them, and so not in the style of what people read."""


def ended(process: Forked | Installed, told: str | None = None) -> Ran:
    """How it ends when it is told this on its standard input; it is killed after a minute.

    What it printed is in the words and the style of ``tests.words``.
    """
    try:
        out, err = process.communicate(told, timeout=180)  # a model of a day takes a minute on a busy machine
    except BaseException:
        process.kill()
        raise
    if not any(word in AS_IN_FILES for word in map(str, process.args)):  # type: ignore[union-attr]
        assert [*in_output(out or ""), *in_output(err or "")] == []
    return Ran(process.returncode, out or "", err or "")
