"""What the documentation says of commands, options, statuses, codes and keys is so."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from lab.command import NO_BRAKE
from plimsoll_agent.app.state_check import FileCondition
from plimsoll_agent.catalogue.api import Refused
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model.entries import Ending
from plimsoll_agent.qos import file as qos_file
from plimsoll_agent.qos.lint import LintCode, SpecFault
from plimsoll_agent.qos.review import LooseEnd
from plimsoll_agent.rules import loader
from plimsoll_agent.store.record import SCHEMA_VERSION
from plimsoll_agent.store.state import State
from plimsoll_agent.terminal.main import Plimsoll
from plimsoll_agent.util import locks
from plimsoll_insight.simulate import scenario
from plimsoll_probes.model import finding as probes
from plimsoll_probes.store import history
from tests import schemas
from tests.fakecinder import FakeCinder
from tests.functional import cloudserver
from tests.functional.cloudserver import cloud_server, credentials
from tests.functional.conftest import Ran
from tests.functional.daemons import a_daemon
from tests.functional.test_congestion import Site
from tests.functional.test_drill import STATUS
from tests.functional.test_mds import REEF, Beside, file_system
from tests.functional.test_prometheus_api import nodes, prometheus
from tests.functional.test_qos import serving
from tests.functional.test_qos_balances import VOLUMES, lines
from tests.functional.test_return import Cluster
from tests.functional.test_return import statuses as returning
from tests.functional.webserver import key_pair
from tests.lab.faults.table import ELSEWHERE, Elsewhere
from tests.simulated_region import prometheus_of
from tests.tables import TABLES, Table, standing
from tests.trust import ROWS as TRUST
from tests.trust import Trust

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(page for page in DOCS.rglob("*.rst") if "_build" not in page.parts),
        *(ROOT / "releasenotes/notes").glob("*.yaml"),
    ]
)
Run = Callable[..., Ran]
__all__ = ["nodes", "prometheus"]  # fixtures: a real Prometheus, and what it scrapes


def commands_in(text: str) -> Iterator[tuple[str, bool]]:
    """What follows ``plimsoll`` in console lines, and in literals; True for a line that is typed as it stands."""
    for line in re.findall(r"^ *# plimsoll (.+)$", re.sub(r"\\\n *", "", text), re.MULTILINE):
        yield re.split(r" [|>#] ", line)[0], True
    for words in re.findall(r"``?plimsoll\s([^`]+)``?", text):
        yield " ".join(words.split()), False


def test_there_are_commands_to_look_at() -> None:
    assert sum(typed for page in PAGES for _, typed in commands_in(page.read_text())) > 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_is_known(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = Plimsoll()
    for line, typed in commands_in(page.read_text()):
        words = shlex.split(line)
        if words[0] == "--version":
            continue
        if not typed and any(name.startswith(f"{line} ") for name, _ in app.command_manager):
            continue  # ``plimsoll region``: all that begin so
        factory, name, rest = app.command_manager.find_command(words)
        parser = factory(app, None).get_parser(f"plimsoll {name}")
        unknown = {word.partition("=")[0] for word in rest if word.startswith("-")} - set(
            parser._option_string_actions
        )
        assert not unknown, f"plimsoll {line}"
        if typed:
            try:
                parser.parse_args(rest)
            except SystemExit:
                pytest.fail(f"plimsoll {line}: {capsys.readouterr().err}")


def test_every_command_of_the_first_page_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    app = Plimsoll()
    lines = [line for line, _ in commands_in((DOCS / "index.rst").read_text())]
    assert len(lines) > 15
    for line in lines:
        factory, name, rest = app.command_manager.find_command(shlex.split(line))
        try:
            factory(app, None).get_parser(f"plimsoll {name}").parse_args(rest)
        except SystemExit:
            pytest.fail(f"plimsoll {line}: {capsys.readouterr().err}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_of_the_checkout_that_is_named_is_there(page: Path) -> None:
    named = re.findall(r"(?<![\w/.-])((?:script|tests|etc|docs|agent|probes)/[\w./-]*\w)", page.read_text())
    missing = [name for name in named if not (ROOT / name).exists() and "_build" not in name]
    assert not missing


_WIDTH = 80


def samples_in(text: str) -> Iterator[tuple[int, str]]:
    """Each line of a literal block with its number, as a terminal shows it; pictures are none."""
    opened: int | None = None  # how far the paragraph before the block is indented
    lines: list[tuple[int, str]] = []
    for number, line in enumerate([*text.splitlines(), "end"], 1):
        indent = len(line) - len(line.lstrip())
        if opened is not None and line.strip() and indent <= opened:
            if not any(":class: picture" in each for _, each in lines):
                body = [each for each in lines if not re.match(r" +:\w+:", each[1])]
                margin = min((len(each) - len(each.lstrip()) for _, each in body), default=0)
                yield from ((at, each[margin:]) for at, each in body)
            opened, lines = None, []
        if opened is not None and line.strip():
            lines.append((number, line))
        elif opened is None and re.match(r"(?!\s*\.\. (?!code-block::)).*::( \w+)?$", line):
            opened = indent


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.suffix == ".rst"], ids=lambda page: page.relative_to(DOCS).as_posix()
)
def test_no_sample_is_wider_than_a_terminal(page: Path) -> None:
    assert [(number, line) for number, line in samples_in(page.read_text()) if len(line) > _WIDTH] == []


def test_samples_are_found() -> None:
    text = "A::\n\n   one\n     two\n\nB\n\n.. code-block:: ini\n   :caption: c\n\n   three\n\n.. note::\n\n   no\n"
    picture = "\n.. code-block:: none\n   :class: picture\n\n   four\n"
    assert list(samples_in(text + picture)) == [(3, "one"), (4, "  two"), (11, "three")]


def _status(
    run: Run, directory: Path, *words: str, text: str = "{}", before: str | None = None, **environment: str
) -> int:
    file = directory / "rules.yaml"
    if before is not None:
        file.write_text(before)
        run("enforce", *words[1:])
    file.write_text(text)
    return run(*words, **environment).status


def _statuses_of_the_rest(run: Run, directory: Path, test_node: str) -> Iterator[tuple[str, int]]:
    """Those of commands that look, try rules, or tell the node something."""
    file, node = directory / "tried.yaml", ("--uri", test_node)
    (directory / "rules.yaml").write_text("{}")
    yield "top", run("top", "--once", "--interval", "0.5", "--uri", "test:///default").status
    broken = Path(test_node.removeprefix("test://")).with_name("0.xml")
    whole = broken.read_text()
    broken.write_text(re.sub(r"(<nova:name>.*?</nova:name>)", r"\1\1", whole, count=1))
    yield "top", run("top", "--once", "--interval", "0.5", *node).status
    broken.write_text(whole)
    for text in ("{}", "default: {limits: {total_iops_sec: 5}}", "broken"):
        file.write_text(text)
        yield "rules check", run("rules", "check", str(file)).status
        yield "rules test", run("rules", "test", str(file), *node).status
    (guest,) = {row["guest"] for row in json.loads(run("disk", "list", *node, "-f", "json").out)[:1]}
    hold = ("--for", "1h", "--limits", "total_iops_sec=5", "--reason", "a test")
    yield "disk hold add", run("disk", "hold", "add", guest, "vda", *hold, *node).status
    yield "disk hold list, disk hold end", run("disk", "hold", "end", guest, "vda").status
    yield "disk hold list, disk hold end", run("disk", "hold", "list").status
    yield "disk hold add", run("disk", "hold", "add", guest, "vda", *hold, *node, OS_DEFAULT__MODE="enforce").status
    yield "any", run("disk", "hold", "end", guest, "vdz").status
    yield "disk hold list, disk hold end", _of_a_damaged_memory(run, directory / "state/memory.json")
    revision = str(loader.parse((directory / "rules.yaml").read_text(), "").revision)
    why = ("--reason", "a test")
    words = (("approve", revision, *why), ("pause", *why), ("resume", *why))
    told = {"OS_DEFAULT__PAUSE_FILE": str(directory / "paused")}
    yield "record", run("record").status
    for word in words:
        yield "approve, pause, resume", run(*word, **told).status
    (directory / "state/record.sqlite").write_text("damaged")
    yield "record", run("record").status
    for word in words:
        yield "approve, pause, resume", run(*word, **told).status


def _statuses_of_the_catalogue(run: Run, directory: Path) -> Iterator[tuple[str, int]]:
    with cloud_server() as cloud:
        told = {
            "OS_CATALOGUE__SOURCE": "openstack",
            "OS_CATALOGUE__DIRECTORY": str(directory / "catalogue"),
            "OS_CATALOGUE__CREDENTIALS_FILE": str(credentials(directory, f"{cloud.url}/identity/v3")),
        }
        cloud.types = [{"id": "t", "name": "gold", "qos_specs_id": None}]

        def status(verb: str, *words: str) -> tuple[str, int]:
            return f"catalogue {verb}", run("catalogue", verb, *words, **told).status

        yield from (status("show"), status("age"), status("diff"), status("refresh"))
        yield from (status("show"), status("age"), status("diff"))
        (directory / "state").mkdir()
        (directory / "state/attachments.json").write_text("damaged")
        yield status("refresh")
        key, _ = key_pair(directory)
        region = ("--region-file", str(directory / "region.json"), "--signing-key", str(key))
        gold = {"id": "s", "name": "gold", "consumer": "front-end", "specs": {"total_iops_sec": "500"}}
        cloud.types = [{"id": "t", "name": "gold", "qos_specs_id": "s"}]
        cloud.volumes = [{"id": "v", "volume_type": "gold", "volume_type_id": "t"}]
        for specs in ({"total_iops_sec": "500"}, {"total_iops_sec": "5"}):
            cloud.specs = [gold | {"specs": specs}]
            yield status("refresh", *region)
        cloud.faults = {"/volume": [cloudserver.status(403), ...]}
        yield from (status("diff"), status("refresh", "--now"))


def _statuses_of_qos(run: Run, directory: Path) -> Iterator[tuple[str, int]]:
    file, cinder = directory / "qos.yaml", FakeCinder()

    def no_types(method: str, path: str) -> None:
        if method == "POST" and path == "/types":
            raise Refused("no", 400)

    def refuses_one(method: str, path: str) -> None:
        if method == "POST" and VOLUMES["saved"] in path:
            raise Refused("no", 400)

    with serving(cinder) as url:
        told = {"OS_CATALOGUE__CREDENTIALS_FILE": str(credentials(directory, f"{url}/identity/v3"))}

        def status(verb: str, *words: str) -> tuple[str, int]:
            return f"qos {verb}", run("qos", verb, *words, **told).status

        file.write_text(
            "qos_specs: {a: {consumer: front-end, keys: {total_iops_sec: 5}}}\nvolume_types: {a: {qos_spec: a}}\n"
        )
        cinder.before = no_types
        yield from (status("plan", str(file)), status("lint", str(file)), status("apply", str(file)))
        cinder.before = lambda method, path: None
        yield from (status("apply", str(file)), status("plan", str(file)))
        file.write_text("qos_specs: {}\nvolume_types: {}\n")
        yield status("apply", "--prune", str(file))
        yield from (status("export"), status("export", "--output", str(directory / "no/such/file")))
        file.write_text("broken")
        yield from (status("plan", str(file)), status("lint", str(file)), status("apply", str(file)))
        yield status("balances", "--prometheus", url)
        for volume in VOLUMES.values():
            cinder.volume(None, 1)
            cinder.volumes[-1]["id"] = volume
        with prometheus_of(lines(), directory) as prometheus:
            cinder.before = refuses_one
            yield status("balances", "--prometheus", prometheus.url)
            cinder.before = lambda method, path: None
            yield status("balances", "--prometheus", prometheus.url)


def _statuses_of_monitoring(run: Run, directory: Path, test_node: str) -> Iterator[tuple[str, int]]:
    (directory / "rules.yaml").write_text("{}")
    apart = {"OS_DEFAULT__STATE_DIR": str(directory / "apart")}
    yield "status", run("status", **apart).status
    run("enforce", "--mode", "observe", "--uri", test_node, **apart)
    yield "status", run("status", **apart).status
    yield "status", run("status", **apart, OS_HEALTH__PASS_AGE_WARNING="86400:").status
    yield "gate", run("gate", **apart).status
    yield "gate", run("gate", "--by-version", "0.0.1", **apart).status
    yield "gate", run("gate", "--pass", **apart, PATH=str(directory)).status


def _statuses_of_congestion(run: Run, directory: Path) -> Iterator[tuple[str, int]]:
    """Without Prometheus every factor is 1, and is published."""
    site = Site(directory, "http://127.0.0.1:1")
    words = ["--config-file", str(directory / "plimsoll.conf"), "congestion"]
    publish = [
        *words,
        "publish",
        "--once",
        "--out",
        str(site.out),
        "--signing-key",
        str(directory / "congestion.key"),
    ]
    path = f"{directory}:{os.environ['PATH']}"
    yield "congestion fetch", run(*words, "fetch").status
    yield "congestion publish", run(*publish, PATH=path).status
    yield "congestion fetch", run(*words, "fetch").status
    (directory / "ceph.conf").unlink()
    yield "congestion publish", run(*publish, PATH=path).status


def _statuses_of_the_region(run: Run, directory: Path, prometheus: str) -> Iterator[tuple[str, int]]:
    for region in ("r1", "r2"):
        yield "region status", run("region", "status", "--prometheus", prometheus, "--region", region).status
    for verb in ("status", "disks", "probes", "promised", "load", "congestion"):
        nowhere = run("region", verb, "--prometheus", prometheus, "--region", "nowhere").status
        yield (
            "region status, region disks, region plan, region probes, region promised, region load,"
            " region congestion",
            nowhere,
        )
    for verb in ("disks", "probes"):
        status = run("region", verb, "--prometheus", prometheus).status
        yield "region disks, region plan, region probes, region promised, region load, region congestion", status
    log = directory / "remote.log"
    log.write_text("2026-11-20T14:02:11+00:00 cmp-017 systemd[1]: Started plimsoll-enforce.service.\n")
    for file in (str(log), "/nowhere"):
        yield "region record", run("region", "record", "--from", file).status
    rules = directory / "rules.yaml"
    for effect, url in (
        ("manage: true, ceiling: {total_iops_sec: 10}", prometheus),
        ("manage: false", prometheus),
        ("limits: {total_iops_sec: 10}, override: true", prometheus),
        ("manage: false", "http://127.0.0.1:1"),
    ):
        rules.write_text(f"rules: [{{name: all, match: {{pool: '*'}}, {effect}}}]")
        replay = ("simulate", "--since", "1h", "--rules", str(rules))
        yield "simulate", run(*replay, "--region", "r1", "--from-prometheus", url).status
    yield "simulate", run("simulate", "--samples").status
    yield "simulate", run("simulate", str(directory / "no-scenario")).status
    guest = "instance-00000001"
    for server, url in ((guest, prometheus), ("no-such", prometheus), (guest, "http://127.0.0.1:1")):
        yield "region explain", run("region", "explain", server, "--region", "r1", "--prometheus", url).status


def _statuses_of_made_files(run: Run, directory: Path) -> Iterator[tuple[str, int]]:
    yield "monitoring dashboards", run("monitoring", "dashboards", str(directory)).status
    yield "any", run("monitoring", "dashboards", str(directory / "nowhere")).status
    for file in ("alerts", "nagios", "rules"):
        yield "monitoring alerts, monitoring nagios, monitoring rules", run("monitoring", file).status
        yield "any", run("monitoring", file, "--values", "/nowhere").status


def _statuses_of_undo(run: Run, directory: Path, test_node: str) -> Iterator[tuple[str, int]]:
    apart = {"OS_DEFAULT__STATE_DIR": str(directory / "undone"), "OS_DEFAULT__PAUSE_FILE": str(directory / "halt")}
    (directory / "rules.yaml").write_text("default: {limits: {total_iops_sec: 50, total_iops_sec_max: 50}}")
    run("enforce", "--mode", "enforce", "--uri", test_node, **apart, **NO_BRAKE)
    undo = ("undo", "--since", "1h", "--uri", test_node)
    yield "any", run(*undo, **apart).status
    # The test driver puts nothing in force; as if it had, and somebody had removed that again.
    took = "UPDATE change SET result = 'done', before = '{}'"
    another = "UPDATE change SET before = '{\"total_iops_sec\": 9}' WHERE id = (SELECT max(id) FROM change)"
    for sql in (took, another):
        with closing(sqlite3.connect(directory / "undone/record.sqlite")) as database, database:
            database.execute(sql)
        yield "undo", run(*undo, "--yes", **apart).status
    yield "settings", run("settings").status
    yield "state check", run("state", "check", **apart).status
    (directory / "halt").touch()
    yield "undo", run(*undo, "--yes", **apart).status
    (directory / "undone/memory.json").write_text("damaged")
    yield "state check", run("state", "check", **apart).status


def _statuses_of_probes(run: Run, directory: Path, test_node: str) -> Iterator[tuple[str, int]]:
    (directory / "rules.yaml").write_text("{}")
    (directory / "probing-paused").touch()
    yield "probe run", run("probe", "run", "--uri", test_node).status
    yield "probe run", run("probe", "run", "--due", OS_DEFAULT__PAUSE_FILE=str(directory / "probing-paused")).status
    yield "probe run", run("probe", "run", "--here", "--directory", str(directory / "not-there")).status
    for _ in ("whole", "damaged"):
        for verb in ("list", "history", "show", "compare"):
            of = ("1",) if verb in ("show", "compare") else ()
            yield "probe list, probe history, probe show, probe compare", run("probe", verb, *of).status
        yield "probe timetable", run("probe", "timetable", "--uri", test_node).status
        yield "probe report", run("probe", "report", "-o", str(directory / "report.html")).status
        (directory / "state").mkdir(exist_ok=True)
        (directory / "state/probes.sqlite").write_text("damaged")


def _statuses_of_insight(run: Run, directory: Path, test_node: str) -> Iterator[tuple[str, int]]:
    short = ("--for", "500ms", "--interval", "500ms")
    yield "load", run("load", "--uri", test_node, *short).status
    yield "load", run("load", "--uri", "test:///nowhere.xml", *short).status
    State(directory / "state").prepare()
    lock = locks.take(State(directory / "state").histograms_lock)
    yield "load", run("load", "--uri", test_node, "--latency", "--top", "1").status
    os.close(lock)
    yield "hist", run("hist", str(Path(__file__).parents[1] / "unit/data/fio-hist")).status
    (directory / "a_clat_hist.1.log").write_text("")
    yield "hist", run("hist", str(directory)).status
    os.mkfifo(directory / "pipe")
    yield "hist", run("hist", str(directory / "pipe")).status
    yield "slow", run("slow", str(directory / "a_clat_hist.1.log")).status
    (directory / "health").write_text("HEALTH_OK\n")
    yield "slow", run("slow", str(directory / "health")).status
    yield "forecast", run("forecast", "--degraded", "50", "--network", "10Gbit/s", "--osds-per-domain", "3").status
    file, recorded = directory / "drill", "drill mark, drill report, drill compare"
    record = ("drill", "record", str(file), "--for", "1s", "--interval", "500ms", "--no-ceph", "--uri", test_node)
    yield "drill record", run(*record).status
    yield "drill record", run(*record).status
    ceph = directory / "ceph"
    ceph.write_text(f"#!/bin/sh\ncase \"$*\" in *status*) cat {directory}/status.json ;; *) echo '[]' ;; esac\n")
    ceph.chmod(0o755)
    (directory / "status.json").write_text(json.dumps(STATUS))
    (directory / "ceph.conf").touch()
    cluster, path = ("--ceph-conf", str(directory / "ceph.conf")), f"{directory}:{os.environ['PATH']}"
    bound = [word for word in record if word != "--no-ceph"] + ["--until-stalled", "5s", *cluster]
    bound[2] += "-with-a-bound"
    yield "drill record", run(*bound, PATH=path).status
    yield recorded, run("drill", "mark", str(file), "begun").status
    yield recorded, run("drill", "report", str(file)).status
    yield recorded, run("drill", "compare", str(file)).status
    for verb in ("report", "compare"):
        yield recorded, run("drill", verb, str(directory / "no-drill")).status
    yield recorded, run("drill", "mark", str(directory / "no-drill"), "begun").status
    yield "forecast", run("forecast", "--live", "--each", "osd", *cluster, PATH=path).status
    yield (
        "slow",
        run("slow", str(directory / "a_clat_hist.1.log"), "--tree", str(directory / "a_clat_hist.1.log")).status,
    )


def _statuses_of_return(run: Run, directory: Path) -> Iterator[tuple[str, int]]:
    (directory / "cluster").mkdir()
    yield from returning(Cluster(directory / "cluster"), run, directory / "state")


def _of_a_damaged_memory(run: Run, memory: Path) -> int:
    whole = memory.read_text()
    memory.write_text("damaged")
    status = run("disk", "hold", "list").status
    memory.write_text(whole)
    return status


def _statuses_of_passes(run: Run, directory: Path, test_node: str) -> Iterator[tuple[str, int]]:
    # libvirt's test driver refuses a limit without a burst, so such a write fails.
    refused, desired = (
        "default: {limits: {total_iops_sec: 50}}",
        "default: {limits: {total_iops_sec: 50, total_iops_sec_max: 50}}",
    )
    some = (
        "rules:\n  - {name: a, match: {pool: osp-vms}, override: true, limits: unlimited}\n"
        "  - {name: b, match: {pool: osp-volumes}, override: true, limits: {total_iops_sec: 50}}\n"
    )
    fsid = "bcebd1ee-e0de-43ae-9dbe-a7fd9e23a0d7"  # no Ceph configuration here tells which disks it has
    unsure = f"rules: [{{name: a, match: {{cluster: {fsid}}}, override: true, limits: {{total_iops_sec: 50}}}}]"
    node = ("--uri", test_node)

    def status(*words: str, text: str = "{}", before: str | None = None, **environment: str) -> int:
        return _status(run, directory, *words, *node, text=text, before=before, **environment)

    yield "any", status("plan", "--no-such-option")
    state = State(directory / "state")
    state.prepare()
    with state.locked():
        yield "any", status("enforce")
    yield "any", status("plan", text="broken")
    for text, before in (("{}", None), (desired, None), (some, None), (unsure, None), ("broken", "{}")):
        planned = status("plan", text=text, before=before)
        yield "plan, enforce --dry-run", planned
        assert status("enforce", "--dry-run", text=text, before=before) == planned
    yield "enforce", status("enforce", text=desired)
    yield "enforce", status("enforce", "--mode", "enforce", text=some)
    yield "enforce", status("enforce", "--mode", "enforce", text=some, **NO_BRAKE)
    yield "enforce", status("enforce", "--mode", "enforce", text=refused)
    yield "enforce", status("enforce", text="broken", before="{}")
    yield "disk list, disk show, disk explain", status("disk", "list")
    yield "disk list, disk show, disk explain", status("disk", "list", text="broken")
    named = ("disk", "acknowledge")
    yield "disk acknowledge add, disk acknowledge list, disk acknowledge end", run(*named, "list").status
    (directory / "state" / "memory.json").write_text("?")
    yield "disk acknowledge add, disk acknowledge list, disk acknowledge end", run(*named, "list").status


def _statuses_of_the_daemon(run: Run, directory: Path, test_node: str) -> Iterator[tuple[str, int]]:
    with a_daemon(directory, test_node) as daemon:
        daemon.until("READY=1")
        yield "any", run("daemon", "--config-file", str(daemon.config)).status
        yield "daemon", daemon.ended()


# Lines of the list, and what tries all of them with these fixtures beside ``plimsoll``.
def _statuses_of_orders(run: Run, directory: Path) -> Iterator[tuple[str, int]]:
    for file in (directory / "region.json", directory / "none" / "region.json"):
        for verb in (("pause", "--reason", "x"), ("resume",), ("hold", "list"), ("approvals",)):
            ran = run("region", *verb, "--region-file", str(file))
            yield (
                "region approve, region approvals, region withdraw, region pause, region resume, region hold",
                ran.status,
            )


def _statuses_of_file_systems(run: Run, directory: Path) -> Iterator[tuple[str, int]]:
    beside, both = Beside(directory, run), "mds settle, mds undo"
    short = ("watch", "--for", "1s", "--interval", "1s")
    yield "mds watch", beside.mds(*short).status
    yield both, beside.mds("settle").status
    beside.has(file_system(), stuck=True)
    yield both, beside.mds("settle", "--yes", "--wait", "100ms").status
    yield both, beside.mds("undo", "--yes").status
    lock = locks.take(State(directory / "state").directory / "file-systems.lock")
    yield both, beside.mds("settle", "--yes").status
    os.close(lock)
    beside.has(REEF, silent="mds.b")
    yield "mds watch", beside.mds(*short).status
    yield both, beside.mds("settle", "--yes", "--gather", "0").status
    beside.has()
    yield "mds watch", beside.mds(*short).status
    yield both, beside.mds("undo", "--yes").status


PARTS: Mapping[str, tuple[Callable[..., Iterator[tuple[str, int]]], tuple[str, ...]]] = {
    "any; plan, enforce --dry-run; enforce; disk list, disk show, disk explain;"
    " disk acknowledge add, disk acknowledge list, disk acknowledge end": (
        _statuses_of_passes,
        ("tmp_path", "test_node"),
    ),
    "daemon": (_statuses_of_the_daemon, ("tmp_path", "test_node")),
    "top; record; disk hold add; disk hold list, disk hold end; rules check; rules test; approve, pause, resume": (
        _statuses_of_the_rest,
        ("tmp_path", "test_node"),
    ),
    "catalogue refresh; catalogue show; catalogue age; catalogue diff": (_statuses_of_the_catalogue, ("tmp_path",)),
    "qos plan; qos lint; qos apply; qos export; qos balances": (_statuses_of_qos, ("tmp_path",)),
    "congestion publish; congestion fetch": (_statuses_of_congestion, ("tmp_path",)),
    "status; gate": (_statuses_of_monitoring, ("tmp_path", "test_node")),
    "region approve, region approvals, region withdraw, region pause, region resume, region hold": (
        _statuses_of_orders,
        ("tmp_path",),
    ),
    "region status; region status, region disks, region plan, region probes, region promised, region load,"
    " region congestion; region disks, region plan, region probes, region promised, region load, region congestion;"
    " region record; region explain;"
    " simulate": (
        _statuses_of_the_region,
        ("tmp_path", "prometheus"),
    ),
    "monitoring alerts, monitoring nagios, monitoring rules; monitoring dashboards": (
        _statuses_of_made_files,
        ("tmp_path",),
    ),
    "undo; state check; settings": (_statuses_of_undo, ("tmp_path", "test_node")),
    "hist; slow; load; forecast; drill record; drill mark, drill report, drill compare": (
        _statuses_of_insight,
        ("tmp_path", "test_node"),
    ),
    "mds watch; mds settle, mds undo": (_statuses_of_file_systems, ("tmp_path",)),
    "return plan; return run; return status; return stop": (_statuses_of_return, ("tmp_path",)),
    "probe run; probe list, probe history, probe show, probe compare; probe timetable; probe report": (
        _statuses_of_probes,
        ("tmp_path", "test_node"),
    ),
}


def _table() -> set[tuple[str, int]]:
    listed = (REFERENCE / "plimsoll.rst").read_text().partition("\nExit statuses\n")[2].partition("\nFiles\n")[0]
    commands = re.findall(r"^(\S.*)\n((?: {4}.+\n)+)", listed, re.MULTILINE)
    return {
        (command, int(number))
        for command, told in commands
        for number in re.findall(r"^    - \*\*(\d+)\*\* ", told, re.MULTILINE)
    }


@pytest.mark.parametrize("part", PARTS)
def test_the_exit_statuses_are_those_of_the_table(part: str, plimsoll: Run, request: pytest.FixtureRequest) -> None:
    try_all, fixtures = PARTS[part]
    found = set(try_all(plimsoll, *map(request.getfixturevalue, fixtures)))
    rows = part.split("; ")
    assert {row for row in found if row[0] in rows} == {row for row in _table() if row[0] in rows}
    assert {row for row in found if row[0] not in rows} <= {row for row in _table() if row[0] == "any"}


@pytest.mark.parametrize("file", ["alerts", "nagios", "rules"])
def test_help_has_the_status_of_a_file_with_a_fault(file: str, plimsoll: Run, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("moon: full")
    status = plimsoll("monitoring", file, "--values", str(tmp_path / "values.yaml")).status
    assert f" {status} FILE has a fault" in " ".join(plimsoll("monitoring", file, "--help").out.split())


def test_every_row_of_the_table_of_exit_statuses_is_tried() -> None:
    assert sorted({command for command, _ in _table()}) == sorted("; ".join(PARTS).split("; "))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.page)
def test_a_table_that_is_made_from_the_code_is_up_to_date(table: Table) -> None:
    assert standing(table) == table.text, "run: python -m tests.tables"


@pytest.mark.parametrize("row", [*ELSEWHERE, *TRUST], ids=lambda row: row.test)
def test_what_a_test_is_said_to_show_has_that_test(row: Elsewhere | Trust) -> None:
    file, _, name = row.test.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_every_manual_page_that_is_referred_to_is_made_and_installed() -> None:
    """``script/package`` puts the pages of conf.py into the wheel, and packages have them."""
    pages = set(
        re.findall(r'^    \("reference/\S+", "(\S+)",.* (\d)\),$', (DOCS / "conf.py").read_text(), re.MULTILINE)
    )
    named = re.compile(r"\b(\w*plimsoll[\w.-]*)\((\d)\)")
    folders = ("agent", "probes", "monitoring", "insight", "etc", "systemd")
    files = [file for folder in folders for file in (DOCS.parent / folder).rglob("*")]
    referred = {
        found
        for file in files
        if file.is_file() and file.suffix != ".pyc"
        for found in named.findall(file.read_text())
    }
    assert ("plimsoll-rules", "5") in referred
    assert referred <= pages


def test_every_result_of_a_recorded_change_stands_in_its_table_and_no_other() -> None:
    text = (REFERENCE / "state.rst").read_text()
    for table in TABLES:
        text = text.replace(table.text, "")
    assert set(re.findall(r"\* - ``(.+)``\n", text)) == {ending.value for ending in Ending}


def test_every_verdict_of_a_probe_and_every_reason_stands_in_its_table_and_no_other() -> None:
    text = (DOCS / "guide/probes.rst").read_text()
    reasons = text.partition("\n.. _probe-codes:\n")[2].partition("\nWhat the limits allow\n")[0]
    told = re.findall(r"\* - ``(.+)``\n", text) + re.findall(r"^``(.+)``\n {4}\S", reasons, re.MULTILINE)
    assert sorted(told) == sorted([*probes.Verdict, *probes.Why])


def test_the_page_of_state_files_has_the_versions_of_the_record_and_of_results_of_probes() -> None:
    text, newest = (REFERENCE / "state.rst").read_text(), SCHEMA_VERSION
    assert f"The schema, version {newest} (``PRAGMA user_version``): changes" in text
    assert f"A file of version 2 (0.1.0) to {newest - 1} becomes one of version {newest} " in text
    assert f"The schema, version {history.SCHEMA_VERSION} (``PRAGMA user_version``): results" in text
    assert f"or {history.SCHEMA_VERSION - 1} becomes one of version {history.SCHEMA_VERSION} " in text


def test_every_condition_of_a_state_file_is_told() -> None:
    text = (REFERENCE / "state.rst").read_text()
    section = text[text.index(".. _state-check:") :]
    assert [condition for condition in FileCondition if f"``{condition.value}``" not in section] == []


def test_every_fault_of_a_spec_stands_in_its_table_with_its_severity() -> None:
    found = re.findall(r"\* - ``(.+)``\n +- (error|warning)\n", (REFERENCE / "plimsoll-qos.rst").read_text())
    known = {code.value: SpecFault(spec="", key=None, code=code).severity for code in LintCode}
    assert dict(found) == known | {code.value: "warning" for code in LooseEnd}


def test_the_json_that_is_shown_is_as_its_schema_says() -> None:
    schemas.hold("plan", (REFERENCE / "plan.json").read_text(), "json")


def test_the_page_of_json_links_to_every_schema() -> None:
    linked = re.findall(r"<\.\./schemas/(\S+)>`__", (REFERENCE / "json.rst").read_text())
    assert sorted(linked) == sorted(file.name for file in schemas.FOLDER.glob("*.json"))


@pytest.mark.parametrize(
    "text", ["-: 1", "rules: [{-: 1}]", "rules: [{match: {-: 1}}]"], ids=["file", "rule", "match"]
)
def test_every_key_of_the_rules_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="known are") as refused:
        loader.parse(text, "rules.yaml")
    known = re.findall(r"known are (.+)", str(refused.value))[0].split(", ")
    page = (REFERENCE / "plimsoll-rules.rst").read_text()
    assert [key for key in known if not re.search(f"^``{key}``$", page, re.MULTILINE)] == []


# Prometheus's settings, and plays.
_OF_OTHERS = ("scrape_configs:", "rule_files:", "route:", "- ")


def test_the_rules_that_are_shown_are_good() -> None:
    pages = (page.read_text() for page in PAGES if page.suffix == ".rst")
    blocks = [block for page in pages for block in re.findall(r"code-block:: yaml\n\n((?: {3,}.*\n|\n)+)", page)]
    ours = [block for block in blocks if not block.lstrip().startswith(_OF_OTHERS)]
    assert len(ours) > 4
    for block in ours:
        reader = qos_file if "qos_specs:" in block else scenario if "duration:" in block else loader
        reader.parse(textwrap.dedent(block), "block")
