"""The tutorial from top to bottom on real guests, from the page's own text: what it lets a reader type and see.

Not here: what a reader builds and installs (``test_newcomer.py``, ``test_packages.py``), and what needs Ceph's admin
or systemd, each with a test of its own by ``tests/functional/test_page_commands.py``.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from lab.cloud import Cloud, OpenStack, Server, ephemeral
from lab.cloud.disk import GIB
from lab.node import Node
from lab.terminal import on_a_terminal

pytestmark = pytest.mark.shared

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/tutorial.rst"
BEGINNING = "\nLook\n----\n"
NOT_HERE = re.compile(r"(runuser -u plimsoll -- )?ceph |install |systemctl |journalctl ")
# What differs from run to run.
VARYING = {
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}": "<uuid>",
    r"\d{4}-\d\d-\d\d \d\d:\d\d UTC": "<time>",
    r"\b[\d.]+ m?s\b": "<seconds>",
}


def blocks(names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What kind of code each is, and its lines."""
    text = PAGE.read_text(encoding="utf-8").partition(BEGINNING)[2]
    for name, here in names.items():
        text = text.replace(name, here)
    for kind, lines in re.findall(r"^\.\. code-block:: (\w+)\n\n((?:   .*\n|\n)+)", text, flags=re.MULTILINE):
        yield kind, dedent(lines).strip("\n") + "\n"


def commands(console: str) -> Iterator[tuple[str, list[str]]]:
    """Each on one line, and the lines that it prints."""
    for part in re.split(r"^# ", console, flags=re.MULTILINE)[1:]:
        typed, *printed = re.sub(r" \\\n\s+", " ", part).splitlines()
        yield typed, printed


def pattern(printed: list[str]) -> str:
    """Of a sample; ``...`` stands for any lines."""
    return "".join("(?:.*\n)*" if line == "..." else f"{re.escape(told(line))}\n" for line in printed)


def told(text: str) -> str:
    for varying, name in VARYING.items():
        text = re.sub(varying, name, text)
    return "\n".join(line.rstrip() for line in text.split("\n"))


@pytest.fixture
def home() -> Iterator[Path]:
    """As long as /etc/plimsoll, so that lines end where they end there."""
    directory = Path(tempfile.mkdtemp(prefix="", dir="/tmp"))  # removed below
    assert len(str(directory)) == len("/etc/plimsoll")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def names(cloud: Cloud, openstack: OpenStack) -> Iterator[dict[str, str]]:
    """The page's two guests, which are all that libvirt has, and what they are called here."""
    web, db = (cloud.paused_guests([[ephemeral(20 * GIB)]], Server(name=name))[0] for name in ("web", "db"))
    spec = openstack.create_qos(f"tutorial of {db.uuid}", {"read_iops_sec": "500", "write_iops_sec": "500"})
    for guest, of_type in ((web, None), (db, spec)):
        kind = openstack.create_volume_type(f"tutorial of {guest.uuid}", of_type)
        made = openstack.create_volume(kind, size_gib=100)
        cloud.attach_volume(guest, made.id)
    yield {"instance-00000012": web.name, "instance-00000013": db.name}
    cloud.destroy_guests([web, db])


def test_a_reader_sees_what_the_tutorial_shows(
    home: Path, cloud: Cloud, names: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(home, cloud, rules="", mode="observe", braked=True)
    # These settings name the file: then comments alone are a fault.
    node.write_rules((ROOT / "etc/rules.yaml.sample").read_text() + "{}\n")
    monkeypatch.setenv("NO_COLOR", "1")
    rules, status, shown = "", 0, 0
    for kind, text in blocks(names):
        if kind == "yaml":
            rules += text
            (home / "rules.yaml").write_text(rules)
            (home / "rules.yaml.new").write_text(rules.replace("250", "300"))
        elif kind == "ini":
            node.set_mode("enforce")
            assert "mode = enforce" in text
        for typed, printed in commands(text) if kind == "console" else ():
            words = shlex.split(typed.replace("/etc/plimsoll", str(home)))
            if typed == "echo $?":
                assert printed == [str(status)]
            elif words[0] == "mv":
                shutil.move(*words[1:])
            elif not NOT_HERE.match(typed):
                if "--refresh" in words:  # the page it points to sets that up
                    node.use_cinder(cloud)
                    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", node.environment["OS_CLIENT_CONFIG_FILE"])
                assert words[0] == "plimsoll", typed
                status, lines = on_a_terminal("--config-file", node.settings, *words[1:], columns=80)
                answer = "\n".join([typed, *lines, ""]).replace(str(home), "/etc/plimsoll")
                if printed:
                    assert re.fullmatch(pattern([typed, *printed]), told(answer)), answer
                    shown += 1
                else:
                    assert status in (0, 2), answer
    assert shown >= 8, "the page's form has changed"
