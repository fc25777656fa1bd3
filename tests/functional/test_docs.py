"""What the documentation says of commands, options, statuses, codes and keys is so."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from plimsoll_agent import qosfile, rulesfile
from plimsoll_agent.cli.app import Plimsoll
from plimsoll_agent.cloudapi import Refused
from plimsoll_agent.entries import Verdict
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.outcome import Kind
from plimsoll_agent.qoslint import Fault, LintCode
from plimsoll_agent.qosreview import LooseEnd
from plimsoll_agent.reason import Code
from plimsoll_agent.rules import Objective
from plimsoll_probes import finding as probes
from plimsoll_probes import views
from plimsoll_probes.compare import compare
from plimsoll_probes.job import JobName
from plimsoll_probes.result import Circumstances, Counted, Health
from tests.fakecinder import FakeCinder
from tests.functional import cloudserver
from tests.functional.cloudserver import cloud_server, credentials
from tests.functional.conftest import Ran
from tests.functional.test_qos import serving
from tests.unit.probes import KEPT_UNTIL, LIMIT, SINCE, a_probe

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


def commands_in(text: str) -> Iterator[tuple[str, bool]]:
    """What follows ``plimsoll`` in console lines, and in literals; True for a line that is typed as it stands."""
    for line in re.findall(r"^ *# plimsoll (.+)$", text, re.MULTILINE):
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_of_the_checkout_that_is_named_is_there(page: Path) -> None:
    named = re.findall(r"(?<![\w/.-])((?:script|tests|etc|docs|agent|probes)/[\w./-]*\w)", page.read_text())
    missing = [name for name in named if not (ROOT / name).exists() and "_build" not in name]
    assert not missing


def _status(run: Run, directory: Path, *words: str, text: str = "{}", before: str | None = None) -> int:
    file = directory / "rules.yaml"
    if before is not None:
        file.write_text(before)
        run("enforce", *words[1:])
    file.write_text(text)
    return run(*words).status


def _statuses_of_the_rest(run: Run, directory: Path, test_node: str) -> Iterator[tuple[str, int]]:
    """Those of commands that look, try rules, or tell the node something."""
    file, node = directory / "tried.yaml", ("--uri", test_node)
    (directory / "rules.yaml").write_text("{}")
    yield "top", run("top", "--once", "--interval", "0.5", "--uri", "test:///default").status
    yield "top", run("top", "--once", "--interval", "0.5", *node).status  # the test driver has no block stats
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
    edition = str(rulesfile.parse((directory / "rules.yaml").read_text(), "").edition)
    words = (("approve", edition), ("pause", "--reason", "a test"), ("resume", "--reason", "a test"))
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
        (directory / "state/sightings.json").write_text("damaged")
        yield status("refresh")
        cloud.faults = {"/volume": [cloudserver.status(403), ...]}
        yield from (status("diff"), status("refresh", "--now"))


def _statuses_of_qos(run: Run, directory: Path) -> Iterator[tuple[str, int]]:
    file, cinder = directory / "qos.yaml", FakeCinder()

    def no_types(method: str, path: str) -> None:
        if method == "POST" and path == "/types":
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
        yield from (status("export"), status("export", "--output", str(directory / "no/such/file")))
        file.write_text("broken")
        yield from (status("plan", str(file)), status("lint", str(file)), status("apply", str(file)))


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
        (directory / "state/probes.sqlite").write_text("damaged")


def _of_a_damaged_memory(run: Run, memory: Path) -> int:
    whole = memory.read_text()
    memory.write_text("damaged")
    status = run("disk", "hold", "list").status
    memory.write_text(whole)
    return status


def test_the_exit_statuses_are_those_of_the_table(plimsoll: Run, test_node: str, tmp_path: Path) -> None:
    # libvirt's test driver refuses a limit without a burst, so such a write fails.
    refused, wanted = (
        "default: {limits: {total_iops_sec: 5}}",
        "default: {limits: {total_iops_sec: 5, total_iops_sec_max: 5}}",
    )
    node = ("--uri", test_node)

    def status(*words: str, text: str = "{}", before: str | None = None) -> int:
        return _status(plimsoll, tmp_path, *words, *node, text=text, before=before)

    some = (
        "rules:\n  - {name: a, match: {pool: osp-vms}, override: true, limits: unlimited}\n"
        "  - {name: b, match: {pool: osp-volumes}, override: true, limits: {total_iops_sec: 5}}\n"
    )
    found = {
        ("any", status("plan", "--no-such-option")),
        ("any", status("plan", text="broken")),
        ("plan", status("plan")),
        ("plan", status("plan", text=wanted)),
        ("plan", status("plan", text="broken", before="{}")),
        ("enforce", status("enforce", text=wanted)),
        ("enforce", status("enforce", "--mode", "enforce", "--yes", text=some)),
        ("enforce", status("enforce", "--mode", "enforce", text=refused)),
        ("enforce", status("enforce", "--total-iops-sec", "5")),
        ("disk list, disk show, disk explain", status("disk", "list")),
        ("disk list, disk show, disk explain", status("disk", "list", text="broken")),
        *_statuses_of_the_rest(plimsoll, tmp_path, test_node),
        *_statuses_of_the_catalogue(plimsoll, tmp_path),
        *_statuses_of_qos(plimsoll, tmp_path),
        *_statuses_of_probes(plimsoll, tmp_path, test_node),
    }
    table = re.findall(r"\* - (.+)\n +- (\d+)\n", (REFERENCE / "plimsoll.rst").read_text())
    assert {(command, int(number)) for command, number in table} == found


@pytest.mark.parametrize(("names", "page"), [(Code, "json.rst"), (Verdict, "state.rst")])
def test_every_code_stands_in_its_table_and_no_other(names: type[StrEnum], page: str) -> None:
    assert set(re.findall(r"\* - ``(.+)``\n", (REFERENCE / page).read_text())) == {name.value for name in names}


def test_every_verdict_of_a_probe_and_every_reason_stands_in_its_table_and_no_other() -> None:
    told = re.findall(r"\* - ``(.+)``\n", (DOCS / "guide/probes.rst").read_text())
    assert sorted(told) == sorted([*probes.Verdict, *probes.Why])


def _keys(value: object) -> Iterator[str]:
    """Of objects within objects; limits, facts and verdicts are not keys of ours."""
    if isinstance(value, list):
        for inner in value:
            yield from _keys(inner)
    if isinstance(value, dict):
        yield from value
        for key, inner in value.items():
            if key not in ("facts", "promised", "before", "after", "verdicts"):
                yield from _keys(inner)


def test_every_key_of_a_probe_is_told() -> None:
    health = Health(("OSD_DOWN",), "1 osds down")
    run = a_probe(
        job=JobName.MIXED,
        counted=Counted(30.0, 1, 1, 1, 1),
        circumstances=Circumstances(LIMIT, LIMIT, LIMIT, health, health),
        objective=Objective(((0.99, 0.25),), slowest=5.0),
    )
    shown = views.result_data(run, histograms=True, streak=(SINCE, KEPT_UNTIL))
    compared = views.comparison_data(compare(run, [a_probe(job=JobName.MIXED, started=SINCE)]))
    text = (REFERENCE / "json.rst").read_text()
    section = text[text.index(".. _json-probes:") : text.index(".. _codes:")]
    assert {key for key in _keys([shown, compared]) if f"``{key}``" not in section} == set()


def test_every_fault_of_a_spec_stands_in_its_table_with_its_severity() -> None:
    found = re.findall(r"\* - ``(.+)``\n +- (error|warning)\n", (REFERENCE / "plimsoll-qos.rst").read_text())
    known = {code.value: Fault("", None, code).severity for code in LintCode}
    assert dict(found) == known | {code.value: "warning" for code in LooseEnd}


def test_every_kind_of_outcome_is_told() -> None:
    text = (REFERENCE / "json.rst").read_text()
    assert [kind for kind in Kind if f"``{kind.value}``" not in text] == []


def _shape(value: object) -> object:
    """The keys of an object, and of those in it; limits and facts are not keys of ours."""
    if not isinstance(value, dict):
        return None
    return {key: _shape(inner) if key == "change" else None for key, inner in value.items()}


def test_the_json_shown_has_the_keys_of_the_real_one(plimsoll: Run, test_node: str) -> None:
    shown = json.loads((REFERENCE / "plan.json").read_text())
    real = json.loads(plimsoll("plan", "--uri", test_node, "--total-iops-sec", "5", "-f", "json").out)
    assert (shown["version"], set(shown)) == (real["version"], set(real))
    assert _shape(shown["outcomes"][0]) == _shape(real["outcomes"][0])
    explained = (REFERENCE / "json.rst").read_text()
    assert [key for key in real["outcomes"][0] if f"``{key}``" not in explained] == []


@pytest.mark.parametrize(
    "text", ["-: 1", "rules: [{-: 1}]", "rules: [{match: {-: 1}}]"], ids=["file", "rule", "match"]
)
def test_every_key_of_the_rules_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="known are") as refused:
        rulesfile.parse(text, "rules.yaml")
    known = re.findall(r"known are (.+)", str(refused.value))[0].split(", ")
    page = (REFERENCE / "plimsoll-rules.rst").read_text()
    assert [key for key in known if not re.search(f"^``{key}``$", page, re.MULTILINE)] == []


def test_the_rules_that_are_shown_are_good() -> None:
    pages = (page.read_text() for page in PAGES if page.suffix == ".rst")
    blocks = [block for page in pages for block in re.findall(r"code-block:: yaml\n\n((?: {3,}.*\n|\n)+)", page)]
    assert len(blocks) > 4
    for block in blocks:
        (qosfile if "qos_specs:" in block else rulesfile).parse(textwrap.dedent(block), "block")
