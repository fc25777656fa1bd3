"""Each command with ``-f json`` has a published schema that is closed and knows the program's codes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import StrEnum
from importlib.metadata import distribution
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from plimsoll_agent.messages.sums import KINDS as COUNTED
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.entries import Ending, Happening
from plimsoll_agent.model.limits import PARAMETERS
from plimsoll_agent.model.reason import Code
from plimsoll_agent.monitor.thresholds import MEASURES, Level
from plimsoll_agent.qos.apply import How
from plimsoll_agent.qos.lint import LintCode
from plimsoll_agent.qos.review import LooseEnd, NoteCode
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.terminal.main import Plimsoll
from plimsoll_agent.util.schema import RemarkCode
from plimsoll_probes.evaluate.compare import compare
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Circumstances, Health, QemuCounts
from plimsoll_probes.output import serialize
from tests import golden, schemas
from tests.schemas import FOLDER
from tests.unit.results import KEPT_UNTIL, LIMIT, SINCE, a_probe

FILES = sorted(FOLDER.glob("*.json"))
COMMON = json.loads((FOLDER / "common.json").read_text())["$defs"]


def _with_json() -> Iterator[str]:
    app = Plimsoll()
    for point in distribution("plimsoll-agent").entry_points.select(group="plimsoll.commands"):
        name = point.name.replace("_", " ")
        for action in point.load()(app, None).get_parser(name)._actions:
            if "-f" in action.option_strings and "json" in (action.choices or ()):
                yield name


def test_each_command_with_json_has_a_schema_and_no_other_has_one() -> None:
    named = {schemas.file_of(command).name for command in _with_json()}
    assert named == {file.name for file in FILES} - {"common.json"}


def _parts(schema: object) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for part in schema.values():
            yield from _parts(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _parts(part)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_schema_is_closed_and_refers_to_what_is_there(file: Any) -> None:
    schema = json.loads(file.read_text())
    Draft202012Validator.check_schema(schema)
    for part in _parts(schema):
        if part.get("type") in ("object", ["object", "null"]):
            closed = part.get("unevaluatedProperties") is False and "$ref" in part
            assert closed or part.get("additionalProperties", True) is not True, part
            assert set(part.get("required", ())) <= set(part.get("properties", ())), part
        if isinstance(part.get("$ref"), str):
            name, _, path = part["$ref"].partition("#")
            found = json.loads((FOLDER / name).read_text()) if name else schema
            for step in path.split("/")[1:]:
                found = found[step]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_schema_names_its_command_and_the_number_of_its_format(file: Any) -> None:
    if file.stem == "common":
        return
    schema = json.loads(file.read_text())
    named = re.fullmatch(r"plimsoll (.+) -f json, format ([1-9])", schema["title"])
    assert named
    assert schemas.file_of(named[1]) == file
    version = schema.get("properties", {}).get("version")
    assert version in (None, {"const": int(named[2])})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_schema_is_laid_out_as_all_are(file: Any) -> None:
    text = file.read_text()
    golden.compare(file, text, schemas.laid_out(json.loads(text)) + "\n")


ENUMS: list[tuple[str, type[StrEnum] | list[type[StrEnum]]]] = [
    ("common.json $defs result", Kind),
    ("common.json $defs direction", Direction),
    ("common.json $defs verdict", Verdict),
    ("common.json $defs probe_why", Why),
    ("rules-check.json items properties code", RemarkCode),
    ("qos-lint.json items properties code", [LintCode, LooseEnd, NoteCode]),
    ("qos-plan.json $defs how", How),
    ("record.json $defs change properties result", Ending),
    ("record.json $defs event properties what", Happening),
]


@pytest.mark.parametrize(("place", "kinds"), ENUMS, ids=[place for place, _ in ENUMS])
def test_codes_are_those_of_the_program(place: str, kinds: Any) -> None:
    name, *steps = place.split()
    found: Any = json.loads((FOLDER / name).read_text())
    for step in steps:
        found = found[int(step) if isinstance(found, list) else step]
    known = {code.value for kind in (kinds if isinstance(kinds, list) else [kinds]) for code in kind}
    assert {code for code in found["enum"] if code is not None} == known


def test_reasons_limits_levels_figures_and_counts_are_those_of_the_program() -> None:
    codes = [branch["properties"]["code"]["const"] for branch in COMMON["reason"]["anyOf"]]
    assert sorted(codes) == sorted(code.value for code in Code)
    assert all(branch["description"] for branch in COMMON["reason"]["anyOf"])
    assert list(COMMON["limits"]["properties"]) == [*(one.name for one in PARAMETERS), "group_name"]
    assert set(COMMON["level"]["enum"]) == {level.name.lower() for level in Level}
    assert COMMON["figure"]["enum"] == [measure.name for measure in MEASURES]
    counts = json.loads((FOLDER / "plan.json").read_text())["properties"]["counts"]
    assert set(counts["properties"]) == set(COUNTED)


AGE = {"part": "volumes", "entries": 0, "oldest": None, "newest": None, "source": "lab"}


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (AGE | {"added": 1}, "'added' was unexpected"),
        ({key: AGE[key] for key in AGE if key != "entries"}, "'entries' is a required property"),
        (AGE | {"entries": None}, "None is not of type 'integer'"),
        (AGE | {"part": "snapshots"}, "'snapshots' is not one of"),
        (AGE | {"oldest": "2026-11-22T10:00:00+01:00"}, "is not a 'date-time'"),
    ],
    ids=["a new key", "a missing key", "null", "a new code", "a time that is not in UTC"],
)
def test_what_is_not_as_the_schema_says_is_seen(row: dict[str, object], fault: str) -> None:
    schemas.hold("catalogue age", json.dumps([AGE]), "json")
    with pytest.raises(AssertionError, match=fault):
        schemas.of_words(["--config-file", "x", "catalogue", "age", "-f", "json"], json.dumps([row]))


def test_columns_that_were_not_asked_for_may_be_absent_and_no_other_may_be_there() -> None:
    words = ["catalogue", "age", "-c", "part", "--format=yaml"]
    schemas.of_words(words, "- part: volumes\n")
    with pytest.raises(AssertionError, match="'parts' was unexpected"):
        schemas.of_words(words, "- parts: volumes\n")


def test_a_reason_has_a_code_that_is_known_and_the_facts_of_its_sentence() -> None:
    def row(reason: dict[str, object]) -> str:
        names = ("server", "volume", "type", "size", "actual", "desired", "project", "project_name", "cluster")
        told = dict.fromkeys(names) | dict.fromkeys(("guest", "disk", "pool", "guest_uuid"), "x")
        return json.dumps([told | {"state": "in-sync", "reason": reason}])

    schemas.hold("disk list", row({"code": "rule", "rule": "bronze"}), "json")
    for reason, fault in (
        ({"code": "rule"}, "'rule' is a required property"),
        ({"code": "whim"}, "'whim' is not a code"),
        ({"code": "rule", "rule": "bronze", "mood": 1}, "'mood' was unexpected"),
    ):
        with pytest.raises(AssertionError, match=fault):
            schemas.hold("disk list", row(reason), "json")


def test_each_line_of_a_record_that_is_followed_is_held() -> None:
    with pytest.raises(AssertionError, match="record"):
        schemas.of_words(["record", "--follow", "-f", "json"], '{"kind": "change"}\n{"kind": "event"}\n')


def test_a_result_of_a_probe_with_everything_is_as_its_schema_says() -> None:
    health = Health(("OSD_DOWN",), "1 osds down")
    run = a_probe(
        job=JobName.MIXED,
        counted=QemuCounts(seconds=30.0, read_operations=1, write_operations=1, read_bytes=1, write_bytes=1),
        circumstances=Circumstances(
            promised=LIMIT, before=LIMIT, after=LIMIT, health_before=health, health_after=health
        ),
        objective=Objective(((0.99, 0.25),), slowest=5.0),
    )
    shown = serialize.result_data(run, histograms=True, streak=(SINCE, KEPT_UNTIL))
    schemas.hold("probe show", json.dumps(shown), "json")
    compared = serialize.comparison_data(compare(run, [a_probe(job=JobName.MIXED, started=SINCE)]))
    schemas.hold("probe compare", json.dumps(compared), "json")
