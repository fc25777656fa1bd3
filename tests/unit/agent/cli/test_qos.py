"""``plimsoll qos``: what it says and does, and how it ends, on a Cinder that keeps the real one's rules."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml

from plimsoll_agent.catalogue.api import Refused
from plimsoll_agent.cli.qos import QosApply, QosExport, QosLint, QosPlan
from plimsoll_agent.errors import Unreachable
from tests.fakecinder import FakeCinder
from tests.fakes import raising
from tests.unit.person import Person, Ran, Terminal
from tests.unit.widths import misfits

FILE = """\
qos_specs:
  gold:
    consumer: front-end
    keys:
      total_iops_sec: 30
volume_types:
  gold: {qos_spec: gold}
  silver: {qos_spec: gold}
"""


UNASKED = "Who will feel it is unknown: set [prometheus] url to have the use of the 2 volumes looked up."
COMMANDS = {"plan": QosPlan, "apply": QosApply, "export": QosExport, "lint": QosLint}


class Site(Person):
    """Types gold and silver with a spec of 3000, and one volume of each attached."""

    def __init__(self, directory: Path) -> None:
        self.cinder = FakeCinder()
        self.spec = self.cinder.spec("gold", {"total_iops_sec": "3000"})
        self.cinder.default = self.cinder.type("__DEFAULT__")
        for name in ("gold", "silver"):
            self.cinder.type(name, self.spec)
            self.cinder.volume(name, 100)
        self.file = directory / "qos.yaml"
        self.file.write_text(FILE)

    def run(self, verb: str, *words: str, stdout: io.StringIO | None = None, answer: str | None = None) -> Ran:
        """At a terminal where there is an ``answer``."""
        stdin = io.StringIO() if answer is None else Terminal(answer)
        status = self.types(COMMANDS[verb], *words, stdin=stdin, stdout=stdout, cinder=lambda *_: self.cinder)
        return Ran(status, self.out, self.err)

    def keys(self) -> dict[str, str | None]:
        return dict(self.cinder.specs[self.spec]["specs"])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_plan_says_what_is_to_do_and_whom_it_meets_and_does_nothing(site: Site) -> None:
    ran = site.run("plan", str(site.file))
    assert (ran.status, ran.err) == (2, "")
    assert ran.out.splitlines() == [
        "~ QoS spec gold  total_iops_sec 3000 → 30",
        "gold: 1 attached volume changes; one of 100 GiB: 3000 → 30 IOPS (to 1 %)",
        "silver: 1 attached volume changes; one of 100 GiB: 3000 → 30 IOPS (to 1 %)",
        UNASKED,
        "Kept: 1 volume type (__DEFAULT__); default types and their QoS specs are never deleted.",
        "Plan: 0 to create, 1 to change, 0 to delete.",
    ]
    assert site.cinder.writes() == []


def test_a_plan_on_a_terminal_fits_it_and_shows_in_colour_what_hurts(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    pipe, page = site.run("plan", str(site.file)).out, site.run("plan", str(site.file), stdout=Terminal()).out
    assert misfits(page, pipe, 60) == []
    assert "\x1b[1;31mgold: 1 attached volume changes; one of 100 GiB:\x1b[0m\n" in page
    assert "\x1b" not in pipe


def test_apply_says_whom_it_meets_first_does_it_and_has_nothing_to_do_then(site: Site) -> None:
    ran = site.run("apply", "--yes", str(site.file))
    assert (ran.status, ran.err) == (0, "")
    left = "Kept: 1 volume type (__DEFAULT__); default types and their QoS specs are never deleted."
    assert ran.out.splitlines() == [
        "gold: 1 attached volume changes; one of 100 GiB: 3000 → 30 IOPS (to 1 %)",
        "silver: 1 attached volume changes; one of 100 GiB: 3000 → 30 IOPS (to 1 %)",
        UNASKED,
        "~ QoS spec gold  total_iops_sec 3000 → 30   done",
        left,
        "1 of 1 step done; Cinder matches the file.",
    ]
    assert site.keys() == {"total_iops_sec": "30"}
    assert site.run("plan", str(site.file)).status == 0
    writes = len(site.cinder.writes())
    again = site.run("apply", str(site.file))
    assert (again.status, again.out) == (0, f"{left}\nNothing to do: Cinder matches the file.\n")
    assert len(site.cinder.writes()) == writes


def test_a_dry_run_does_nothing(site: Site) -> None:
    ran = site.run("apply", "--dry-run", str(site.file))
    assert (ran.status, site.cinder.writes()) == (0, [])
    assert ran.out.splitlines()[-1] == "Dry run: nothing is written."


def test_where_volumes_are_not_shown_it_is_said_and_the_plan_stands(site: Site) -> None:
    def before(method: str, path: str) -> None:
        if path.startswith("/volumes"):
            raise Refused("forbidden (403) by its policy volume:get_all", 403)

    site.cinder.before = before
    ran = site.run("plan", str(site.file))
    told = "Unknown which attached volumes change: forbidden (403) by its policy volume:get_all\n"
    assert (ran.status, ran.err) == (2, told)
    assert json.loads(site.run("plan", str(site.file), "-f", "json").out)["effects"] is None


def test_an_impossible_spec_is_neither_planned_nor_applied(site: Site) -> None:
    site.file.write_text(FILE.replace("total_iops_sec: 30", "total_iops_sec: 30\n      read_iops_sec: 5"))
    for verb in ("plan", "apply"):
        ran = site.run(verb, str(site.file))
        assert ran.status == 1
        assert "total_iops_sec and read_iops_sec exclude each other" in ran.err.splitlines()[0]
    assert site.cinder.writes() == []


MISSPELLED = FILE.replace("total_iops_sec: 30", "total_iop_sec: 30")
REFUSED = "Nothing applied: 1 error (unknown key). --force applies it anyway."


@pytest.mark.parametrize("words", [("--yes",), ("--dry-run",), ()], ids=["yes", "dry run", "neither"])
def test_what_lint_calls_an_error_is_not_applied(site: Site, words: tuple[str, ...]) -> None:
    site.file.write_text(MISSPELLED)
    ran = site.run("apply", *words, str(site.file), answer="y\n")
    assert ran.status == 1
    finding, refusal = ran.err.splitlines()
    assert finding.startswith(f'{site.file}:5: QoS spec "gold", total_iop_sec: ')
    assert refusal == REFUSED
    assert site.cinder.writes() == []


def test_force_applies_what_lint_calls_an_error_and_still_asks(site: Site) -> None:
    site.file.write_text(MISSPELLED)
    assert site.run("apply", "--force", str(site.file)).status == 64
    assert site.cinder.writes() == []
    ran = site.run("apply", "--force", "--yes", str(site.file))
    assert ran.status == 0
    assert ran.err.startswith(f"{site.file}:5: "), "the error is told all the same"
    assert site.keys() == {"total_iop_sec": "30"}


def test_plan_says_that_apply_would_refuse(site: Site) -> None:
    site.file.write_text(MISSPELLED.replace("30", "30\n      read_iop_sec: 5"))
    ran = site.run("plan", str(site.file))
    assert ran.status == 2
    assert ran.err.splitlines()[-1] == (
        "plimsoll qos apply refuses this: 2 errors (unknown key). --force applies them anyway."
    )


def test_a_spec_with_an_error_that_no_step_is_about_stops_nothing_until_a_type_gets_it(site: Site) -> None:
    site.cinder.spec("old", {"total_iop_sec": "5"})
    with_old = FILE.replace("volume_types:", "  old: {consumer: front-end, keys: {total_iop_sec: 5}}\nvolume_types:")
    site.file.write_text(with_old)
    assert site.run("apply", "--yes", str(site.file)).status == 0
    site.file.write_text(with_old.replace("silver: {qos_spec: gold}", "silver: {qos_spec: old}"))
    ran = site.run("apply", "--yes", str(site.file))
    assert (ran.status, ran.err.splitlines()[-1]) == (1, REFUSED)


WEIGHT = "2 attached volumes get other limits"


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "maybe\n"])
def test_at_a_terminal_it_shows_the_plan_asks_and_takes_all_but_yes_for_no(site: Site, answer: str) -> None:
    ran = site.run("apply", str(site.file), answer=answer)
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.splitlines() == [
        "~ QoS spec gold  total_iops_sec 3000 → 30",
        "gold: 1 attached volume changes; one of 100 GiB: 3000 → 30 IOPS (to 1 %)",
        "silver: 1 attached volume changes; one of 100 GiB: 3000 → 30 IOPS (to 1 %)",
        UNASKED,
        f"{WEIGHT}. Apply 1 step? [y/N] Nothing applied.",
    ]
    assert site.cinder.writes() == []


def test_a_yes_at_the_terminal_applies_it(site: Site) -> None:
    assert site.run("apply", str(site.file), answer="Yes\n").status == 0
    assert site.keys() == {"total_iops_sec": "30"}


@pytest.mark.parametrize("words", [(), ("-f", "json")], ids=["text", "json"])
def test_without_a_terminal_to_ask_on_it_needs_yes(
    site: Site, words: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    ran = site.run("apply", *words, str(site.file), answer="y\n" if words else None)
    assert ran.status == 64
    assert caplog.messages == [
        f"nothing applied: no terminal to ask on: {WEIGHT}. Add --yes, or look first with --dry-run"
    ]
    assert site.cinder.writes() == []


def test_where_it_is_unknown_which_attached_volumes_change_it_asks(site: Site) -> None:
    def before(method: str, path: str) -> None:
        if path.startswith("/volumes"):
            raise Refused("forbidden (403) by its policy volume:get_all", 403)

    site.cinder.before = before
    ran = site.run("apply", str(site.file), answer="n\n")
    assert ran.status == 1
    assert "How many attached volumes get other limits is unknown. Apply 1 step? [y/N]" in ran.out


@pytest.mark.parametrize(
    ("text", "words", "asked"),
    [
        ("qos_specs: {}\nvolume_types: {idle: {qos_spec: none}}\n", (), "1 volume type loses its QoS spec. Apply 1"),
        (
            "qos_specs: {idle: {consumer: front-end, keys: {total_iops_sec: 5}}}\n"
            "volume_types: {idle: {qos_spec: idle, extra_specs: {b: c}}}\n",
            (),
            "1 extra spec is removed. Apply 1",
        ),
        (
            "qos_specs: {}\nvolume_types: {}\n",
            ("--prune",),
            "1 volume type is deleted; 1 QoS spec is deleted. Apply 2",
        ),
    ],
    ids=["loses its spec", "loses extra specs", "deleted"],
)
def test_what_takes_limits_away_is_asked_for_though_no_volume_is_attached(
    site: Site, text: str, words: tuple[str, ...], asked: str
) -> None:
    site.cinder = FakeCinder()
    site.cinder.type("idle", site.cinder.spec("idle", {"total_iops_sec": "5"}), extra_specs={"a": "b"})
    site.file.write_text(text)
    ran = site.run("apply", *words, str(site.file), answer="n\n")
    assert (ran.status, site.cinder.writes()) == (1, [])
    assert asked in ran.out


def test_what_no_attached_volume_notices_is_not_asked_for(site: Site) -> None:
    site.cinder = FakeCinder()
    site.cinder.type("gold", site.cinder.spec("gold", {"total_iops_sec": "3000"}))
    assert site.run("apply", str(site.file)).status == 0


def test_what_cinder_refuses_is_told_and_the_rest_is_done(site: Site) -> None:
    site.file.write_text(FILE.replace("gold: {qos_spec: gold}", "gold: {qos_spec: gold, extra_specs: {a: b}}"))
    ran = site.run("apply", "--yes", str(site.file))
    assert ran.status == 3
    lines = ran.out.splitlines()
    assert lines[3].endswith("  total_iops_sec 3000 → 30   done")
    assert lines[4] == "~ volume type gold  a b added   not done: Volume Type is currently in use."
    assert lines[-1] == "1 of 2 steps done; 1 left: see plimsoll qos plan."
    assert site.run("apply", "--yes", str(site.file)).status == 1, "nothing of what is left could be done"


def test_lint_notes_what_each_number_with_a_unit_is_read_as(site: Site) -> None:
    site.file.write_text(
        "qos_specs:\n  gold:\n    consumer: front-end\n    keys:\n      total_iops_sec: 2k\n"
        "      total_bytes_sec: '104857600'\nvolume_types:\n  gold: {qos_spec: gold}\n"
    )
    ran = site.run("lint", str(site.file))
    assert (ran.status, ran.out.splitlines()) == (
        0,
        [
            f'{site.file}:5: QoS spec "gold", total_iops_sec: 2k is 2000',
            f"{site.file}: 1 QoS spec and 1 volume type, no errors, no warnings",
        ],
    )
    (told,) = json.loads(site.run("lint", str(site.file), "-f", "json").out)
    assert {name: told[name] for name in ("key", "code", "severity", "line", "qos_spec")} == {
        "key": "total_iops_sec",
        "code": "exact-number",
        "severity": "note",
        "line": 5,
        "qos_spec": "gold",
    }


def test_json_tells_steps_effects_and_what_is_left(site: Site) -> None:
    planned = json.loads(site.run("plan", str(site.file), "-f", "json").out)
    assert [step["do"] for step in planned["steps"]] == ["change-spec"]
    assert planned["effects"][0]["median"]["after"] == {"limits": {"total_iops_sec": 30}, "reason": None}
    assert planned["undeclared"] == {"volume_types": ["__DEFAULT__"], "qos_specs": []}
    applied = json.loads(site.run("apply", "--yes", str(site.file), "-f", "json").out)
    assert [(step["do"], step["how"]) for step in applied["steps"]] == [("change-spec", "done")]
    assert applied["left"] == []


def test_an_export_replaces_a_file_and_plan_has_nothing_to_say(site: Site) -> None:
    ran = site.run("export", "--output", str(site.file))
    assert (ran.status, ran.out) == (0, f"{site.file}: 1 QoS spec and 3 volume types\n")
    planned = site.run("plan", "--prune", str(site.file))
    assert (planned.status, planned.out) == (0, "Nothing to do: Cinder matches the file.\n")
    assert site.run("export").out == site.file.read_text()
    assert "description" not in site.file.read_text(), "there is none"
    site.file.write_text(site.run("export", "-f", "json").out)
    assert site.run("plan", str(site.file)).status == 0


def test_extra_specs_that_cinder_may_show_in_part_are_not_exported_and_it_is_said(site: Site) -> None:
    """The file says "all of them": an apply as administrator would remove the others."""
    gold = next(type for type in site.cinder.types.values() if type["name"] == "gold")
    gold["extra_specs"] = {"multiattach": "<is> True", "RESKEY:availability_zones": "az1"}
    ran = site.run("export", "--output", str(site.file))
    assert ran.status == 0
    assert ran.err.startswith("Written without extra_specs")
    assert "extra_specs" not in site.file.read_text()
    assert site.run("plan", str(site.file)).status == 0
    gold["extra_specs"]["volume_backend_name"] = "rbd"
    ran = site.run("export", "--output", str(site.file))
    assert (ran.status, ran.err) == (0, "")
    assert yaml.safe_load(site.file.read_text())["volume_types"]["gold"]["extra_specs"] == gold["extra_specs"]


def test_lint_of_a_file_has_lines_and_of_cinder_has_names(site: Site) -> None:
    site.file.write_text(FILE.replace("total_iops_sec: 30", "total_iop_sec: 30"))
    ran = site.run("lint", str(site.file))
    assert ran.status == 1
    assert ran.out.splitlines()[0].startswith(f'{site.file}:5: QoS spec "gold", total_iop_sec: unknown key')
    live = site.run("lint")
    assert live.status == 0
    assert live.out.splitlines() == [
        'volume type "__DEFAULT__": has no QoS spec, so Cinder limits none of its volumes (warning)',
        "Cinder: 1 QoS spec and 3 volume types, no errors, 1 warning",
    ]
    (told,) = json.loads(site.run("lint", "-f", "json").out)
    assert (told["volume_type"], told["severity"]) == ("__DEFAULT__", "warning")
    assert yaml.safe_load(site.run("lint", "-f", "yaml").out) == [told]


@pytest.mark.parametrize("words", [("plan",), ("apply", "--dry-run")])
def test_yaml_is_what_json_is(site: Site, words: tuple[str, ...]) -> None:
    as_json, as_yaml = (site.run(*words, str(site.file), "-f", form).out for form in ("json", "yaml"))
    assert json.loads(as_json)["steps"]
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_prune_deletes_the_rest_and_prune_in_use_is_about_that_only(site: Site) -> None:
    site.cinder.spec("idle", {})
    assert site.run("plan", "--prune-in-use", str(site.file)).status == 64
    ran = site.run("apply", "--yes", "--prune", str(site.file))
    assert ran.status == 0, ran
    assert "- QoS spec idle   done" in ran.out.splitlines()
    assert "__DEFAULT__" in {type["name"] for type in site.cinder.types.values()}


def test_volumes_whose_spec_is_deleted_by_force_are_among_those_that_change(site: Site) -> None:
    site.file.write_text("qos_specs: {}\nvolume_types: {gold: {qos_spec: none}}\n")
    # The type silver, which has a volume, outlives the plan.
    silver = "silver: 1 attached volume changes; one of 100 GiB: 3000 IOPS → no QoS spec for Nova"
    assert silver not in site.run("plan", "--prune", str(site.file)).out.splitlines()
    assert silver in site.run("plan", "--prune", "--prune-in-use", str(site.file)).out.splitlines()


def test_trouble_is_status_1_and_nothing_is_done(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for words in (
        ("plan", str(tmp_path / "not-there")),
        ("lint", str(tmp_path)),
        ("export", "--output", "/proc/x/y"),
    ):
        assert site.run(*words).status == 1
    assert len(caplog.messages) == 3
    site.cinder.before = raising(Unreachable("Cinder: connection refused"))
    for verb in ("plan", "apply"):
        assert site.run(verb, str(site.file)).status == 1
    assert caplog.messages[3:] == ["Cinder: connection refused"] * 2


def test_where_cinder_is_gone_at_the_end_what_was_done_counts_and_what_is_left_is_unknown(site: Site) -> None:
    def before(method: str, path: str) -> None:
        if site.cinder.writes():
            site.cinder.before = raising(Unreachable("Cinder: connection refused"))

    site.cinder.before = before
    ran = site.run("apply", "--yes", str(site.file))
    assert (ran.status, ran.err) == (3, "Unknown what Cinder has now: Cinder: connection refused\n")
    assert ran.out.splitlines()[-1] == "1 of 1 step done."


class _Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_reader_that_went_away_does_not_stop_a_plan_halfway(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.file.write_text(FILE.replace("silver: {qos_spec: gold}", "silver: {qos_spec: none}"))
    assert site.run("apply", "--yes", str(site.file), stdout=_Gone()).status == 1
    assert len(caplog.messages) == 1
    assert site.run("plan", str(site.file)).status == 0
