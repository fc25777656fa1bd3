"""Random nodes: plan, enforce, pass.json, status, metrics, Nagios, alerts and the region never disagree."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.errors import DeadlineExceeded, Rejected
from plimsoll_agent.messages.serialize import report_data, state_reason_data
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import Survey
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.monitor import daemon_metrics, daemon_status, pass_metrics, pass_summary_file
from plimsoll_agent.monitor.daemon_status import DaemonStatus
from plimsoll_agent.monitor.pass_summary import LastPass, PassSetting, failed, fold
from plimsoll_agent.monitor.thresholds import MEASURE, MEASURES, SHIPPED, Level, alarms
from plimsoll_agent.reconcile.grade import Grade, exit_status
from plimsoll_agent.reconcile.outcome import Kind, Mode, Outcome, PassReport
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.alerts.definition import Alert
from plimsoll_monitoring.alerts.files import alerts_of
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.nagios import check
from plimsoll_monitoring.nagios.measure import Only, measure
from plimsoll_monitoring.node import status_data, status_words
from plimsoll_monitoring.node.health import Figure, figures_of_daemon, figures_of_pass, judge, no_room
from plimsoll_monitoring.node.status import NodeStatus
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region import messages
from plimsoll_monitoring.region import status as fleet_status
from plimsoll_monitoring.region.answers import Series
from plimsoll_monitoring.region.problems import problems
from plimsoll_monitoring.region.serialize import status_data as region_data
from tests import schemas
from tests.fakes import FakeGuest, FakeHypervisor, volume
from tests.unit import told as told_by
from tests.unit.clouds import a_catalogue, a_server, a_spec, a_type
from tests.unit.daemonstatus import FULL
from tests.unit.node import Node, guest, own_disk, uuid_of
from tests.unit.values import examples_of

GOLD = a_type("gold", a_spec("gold", total_iops_sec="3000"))
DEFAULT = Limits(total_iops_sec=250)
RICH, POOR, UNLIMITED = Limits(total_iops_sec=3000), Limits(total_iops_sec=2000), Limits()
UNMANAGED = uuid_of(4)
"""A rule leaves the disks of this guest alone."""
LOST = Unknown(because(Code.CATALOGUE_UNREADABLE, detail="?"))
NOTHING: Mapping[str, dict[str, Any]] = {}
CHANGED = {"missing": {"missing": True}, "no such type": {"type": "id-of-none"}}
"""By what Cinder has of a volume: its entry in the catalogue."""
MODES = {True: Mode.ENFORCE, False: Mode.OBSERVE}
TELLS_PASS = ("sources_down", "failed", "unknown", "unreachable_guests")
"""What makes any pass partial; one in mode enforce also ``braked`` and ``behind``."""


@dataclass(frozen=True)
class One:
    """A volume: what is in force, what Cinder has of it, and what a write to it meets."""

    actual: Limits = RICH
    cinder: str = "known"
    """``known``, ``missing``, ``no such type``, or ``new``: attached after the catalogue was read."""
    held: str = ""
    """``here``, ``there`` (at other limits) or ``open`` (unlimited)."""
    write: str = ""
    """``refused`` or ``hangs``."""
    acknowledged: bool = False


@dataclass(frozen=True)
class Some:
    """A guest."""

    volumes: tuple[One, ...]
    own: Limits = DEFAULT
    """What is in force on its own disk, for which there is a rule."""
    write: str = ""
    acknowledged: bool = False
    trouble: str = ""
    """``hangs`` or ``refuses`` when its disks are read; ``dark`` cannot even be listed."""


@dataclass(frozen=True)
class Whole:
    """A node, and what happens between its first pass and the one that is looked at."""

    guests: tuple[Some, ...]
    enforcing: bool = True
    paused: bool = False
    cluster: str = "healthy"
    catalogue: str = "fresh"
    """``fresh``, ``stale``, ``lost`` or ``none``."""
    spec: int = 3000
    """The QoS spec of gold: an edit to 30 is one for the brake."""
    broken_rules: bool = False
    daemon: str = ""
    """``runs``, ``killed``, ``no events`` or ``not reloaded``; "" without one."""


class Troubled(FakeHypervisor):
    """Guests that cannot be listed, and disks that cannot be written."""

    def __init__(self, *guests: FakeGuest) -> None:
        super().__init__(*guests)
        self.dark: set[str] = set()
        self.writing: dict[tuple[str, str], str] = {}

    def survey(self, uuid: str) -> Survey:
        if uuid in self.dark:
            raise DeadlineExceeded("no answer from libvirt within 5 s")
        return super().survey(uuid)

    def set_limits(self, asked: Disk, limits: Limits, *, alone: bool = False) -> None:
        trouble = self.writing.get((asked.guest.uuid, asked.target))
        if trouble == "refused":
            raise Rejected("QEMU is busy")
        if trouble == "hangs":
            raise DeadlineExceeded("no answer from QEMU within 5 s")
        super().set_limits(asked, limits, alone=alone)


volumes = st.builds(
    One,
    st.sampled_from([RICH, RICH, POOR, UNLIMITED]),
    st.sampled_from(["known", "known", "known", "missing", "no such type", "new"]),
    st.sampled_from(["", "", "", "here", "there", "open"]),
    st.sampled_from(["", "", "", "refused", "hangs"]),
    st.booleans(),
)
guests = st.builds(
    Some,
    st.lists(volumes, max_size=3).map(tuple),
    st.sampled_from([DEFAULT, DEFAULT, POOR, UNLIMITED]),
    st.sampled_from(["", "", "", "refused", "hangs"]),
    st.booleans(),
    st.sampled_from(["", "", "", "", "hangs", "refuses", "dark"]),
)
nodes = st.builds(
    Whole,
    st.lists(guests, min_size=1, max_size=4).map(tuple),
    st.booleans(),
    st.sampled_from([False, False, True]),
    st.sampled_from(["healthy", "healthy", "unhealthy", "unreachable"]),
    st.sampled_from(["fresh", "fresh", "fresh", "stale", "lost", "none"]),
    st.sampled_from([3000, 3000, 2500, 30]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from(["", "", "runs", "killed", "no events", "not reloaded"]),
)


class Seen:
    """What everything that tells of one node tells of it."""

    def __init__(self, whole: Whole, directory: Path) -> None:
        self.node = Node(directory, rules=_rules())
        self.node.hypervisor = Troubled(
            *(
                guest(number, own_disk(number), *_volumes(number, some))
                for number, some in enumerate(whole.guests, start=1)
            )
        )
        self.whole = whole
        self.mode = MODES[whole.enforcing]
        self._begin()
        self.planned = self._pass(Mode.PLAN)
        self.node.now -= timedelta(minutes=5)
        self.report = self._pass(self.mode)
        setting = PassSetting(version="1.2.3", boot="b1", ended=self.node.now, stale_after=7200)
        self.tell(fold(None, self.report, setting))

    def tell(self, last: LastPass) -> None:
        """As a pass publishes it."""
        self.last = last
        pass_summary_file.save(self.node.state, last)
        loaded = pass_summary_file.load(self.node.state)
        assert loaded is not None
        self.loaded: LastPass = loaded
        families = [*pass_metrics.families(self.last, detail="disk")]
        if daemon := self._daemon():
            daemon_status.save(self.node.state, daemon)
            families += daemon_metrics.families(daemon)
        self.series = _series(families)

    def _daemon(self) -> DaemonStatus | None:
        now, what = self.node.now, self.whole.daemon
        runs = replace(FULL, written=now - timedelta(seconds=15), reloaded=True, trouble="")
        return {
            "": None,
            "runs": runs,
            "killed": replace(runs, written=now - timedelta(minutes=4)),
            "no events": replace(runs, connected_since=None, disconnected="libvirt: no answer"),
            "not reloaded": replace(runs, reloaded=False, trouble="plimsoll.conf:3: no"),
        }[what]

    @property
    def figures(self) -> tuple[Figure, ...]:
        return (*figures_of_pass(self.last, self.node.now), *figures_of_daemon(self._daemon(), self.node.now))

    def _begin(self) -> None:
        """All was well once; then came what is the matter."""
        node, whole = self.node, self.whole
        catalogue = whole.catalogue
        if catalogue != "none":
            node.catalogue = LOST
            node.run()
            node.catalogue = self._catalogue(3000)
        node.run(yes=True)
        for number, some in enumerate(whole.guests, start=1):
            its = node.hypervisor.by_uuid[uuid_of(number)]
            ones = (One(some.own, write=some.write, acknowledged=some.acknowledged), *some.volumes)
            for each, (target, disk) in zip(ones, its.disks.items(), strict=True):
                disk.actual = disk.defined = each.actual
                if each.held:
                    limits = {"here": None, "there": POOR, "open": UNLIMITED}[each.held]
                    node.hold(number, target, limits)
                if each.acknowledged:
                    node.acknowledge(number, target)
                if each.cinder == "new":
                    node.hypervisor.attach(its, target, disk)
                if each.write:
                    self.hypervisor.writing[its.uuid, target] = each.write
            its.trouble = {"hangs": DeadlineExceeded("?"), "refuses": Rejected("?")}.get(some.trouble)
            if some.trouble == "dark":
                self.hypervisor.dark.add(its.uuid)
        if catalogue == "lost":
            node.catalogue = LOST
        elif catalogue != "none":
            node.catalogue = self._catalogue(whole.spec, CHANGED)
        if whole.cluster == "unhealthy":
            node.ceph.raised = ("PG_AVAILABILITY",)
        elif whole.cluster == "unreachable":
            node.ceph.silent = DeadlineExceeded("no answer within 10 s")
        if whole.paused:
            node.paused = lambda: because(Code.PAUSED, file="/etc/plimsoll/paused", why="maintenance")
        if catalogue == "stale":
            node.now += timedelta(hours=3)

    @property
    def hypervisor(self) -> Troubled:
        assert isinstance(self.node.hypervisor, Troubled)
        return self.node.hypervisor

    def _catalogue(self, iops: int, changed: Mapping[str, dict[str, Any]] = NOTHING) -> Catalogue:
        spec, met = a_spec("gold", total_iops_sec=str(iops)), self.node.state.load_attachments()
        wanted = {disk.volume_id: each.cinder for disk, each in self._named()}
        known = a_catalogue(
            spec,
            types=[replace(GOLD, qos_spec=spec.id)],
            volumes=dict.fromkeys(met.marks_of_volumes(), GOLD),
            met=met,
            issued=self.node.now,
            servers={uuid: a_server(met, uuid) for uuid in met.guests},
        )
        return replace(
            known, volumes={id: replace(one, **changed.get(wanted[id], {})) for id, one in known.volumes.items()}
        )

    def _named(self) -> list[tuple[object, One]]:
        return [
            pair
            for number, some in enumerate(self.whole.guests, start=1)
            for pair in zip([*self.hypervisor.by_uuid[uuid_of(number)].disks.values()][1:], some.volumes, strict=True)
        ]

    def _pass(self, mode: Mode) -> PassReport:
        node_store = NodeStore(self.node.state, "tests")
        if self.whole.catalogue == "stale":
            node_store.notes.add(Code.CATALOGUE_STALE, "?")
        report = self.node.run(mode, node_store=node_store)
        return replace(report, complaint="rules.yaml:14: no" if self.whole.broken_rules else "")

    # --- what each tells: by the measure's name its value and level

    def told(self) -> dict[str, dict[str, tuple[float | None, Level]]]:
        now = self.node.now
        return {
            "health": _judged(self.figures),
            "pass.json": _judged(figures_of_pass(self.loaded, now)),
            "Nagios": _judged(
                figure
                for subject in ("agent", "limits")
                for figure in measure(subject, self.node.state.directory, Only(), now).figures
            ),
            "region": self.of_region(),
        }

    @property
    def region(self) -> fleet_status.RegionSnapshot:
        answers = {name: self.asked(promql) for name, promql in fleet_status.questions(SeriesSelection()).items()}
        return fleet_status.status(answers, self.node.now.timestamp(), SHIPPED)

    def of_region(self) -> dict[str, tuple[float | None, Level]]:
        (node,) = self.region.nodes
        return {
            found.figure.name: (found.figure.value, found.level)
            for found in node.judgement.findings
            if found.measure.subject != "probe"
        }

    def asked(self, promql: str) -> list[Series]:
        """An answer to the simple ones of the region's queries; of probes there are no data."""
        if age := re.fullmatch(r"max by \(.*?\) \(\(timestamp\((\w+){}\) - \1{}\)\)", promql):
            now = self.node.now.timestamp()  # it is scraped now
            of = {"region": "r1", "instance": "n1"}
            return [Series(of, now - value) for _, value in self.series.get(age[1], [])]
        found = re.fullmatch(r"max by \((.*?)\) \((\w+)(?:\{(.*)\})?\)( > 0)?", promql)
        if found is None:
            return []
        labels, metric, matchers, positive = found.groups()
        wanted = dict(re.findall(r'(\w+)="([^"]*)"', matchers or ""))
        return [
            Series({"region": "r1", "instance": "n1", **{k: v for k, v in its.items() if k in labels}}, value)
            for its, value in self.series.get(metric, [])
            if wanted.items() <= its.items() and not (positive and value <= 0)
        ]

    def sum(self, metric: str, **labels: str) -> float | None:
        values = [value for its, value in self.series.get(metric, []) if labels.items() <= its.items()]
        return sum(values) if values else None

    @property
    def status(self) -> NodeStatus:
        return NodeStatus(
            now=self.node.now,
            last=self.loaded,
            probes=None,
            paused=self.report.paused,
            written={},
            thresholds=SHIPPED,
            daemon=daemon_status.load(self.node.state),
            no_room=no_room(self.node.state.directory),
        )


def _rules() -> Rules:
    rule = Rule(name="hands off", match=Match(guest=(UNMANAGED,)), manage=False)
    return Rules(rules=(rule,), default=DEFAULT, revision="a" * 64)


def _volumes(number: int, some: Some) -> Sequence[object]:
    return [
        volume(f"aaaaa{number}0{at}-001a-4ea4-a2eb-d491b58efc11", actual=RICH, defined=RICH)
        for at, _ in enumerate(some.volumes)
    ]


def _judged(figures: object) -> dict[str, tuple[float | None, Level]]:
    assert not isinstance(figures, Mapping)
    findings = judge(figures, SHIPPED).findings  # type: ignore[arg-type]
    return {found.figure.name: (found.figure.value, found.level) for found in findings}


def _series(families: object) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in families:  # type: ignore[attr-defined]
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


METRIC = {
    "pass_age": "plimsoll_pass_last_timestamp_seconds",
    "good_pass_age": "plimsoll_pass_last_good_timestamp_seconds",
    "pass_seconds": "plimsoll_pass_duration_seconds",
    "sources_down": "plimsoll_source_up",
    "catalogue_age": "plimsoll_catalogue_issued_timestamp_seconds",
    "paused": "plimsoll_pass_paused",
    "braked": "plimsoll_pass_braked_disks",
    "unlimited": "plimsoll_disks_unlimited",
    "failed": "plimsoll_disks",
    "unknown": "plimsoll_disks_unknown",
    "unreachable_guests": "plimsoll_guests",
    "daemon_faults": "plimsoll_daemon_",
}
"""What the alerts ask of each measure."""
COUNTS = {
    "braked": ("plimsoll_pass_braked_disks", {}),
    "unlimited": ("plimsoll_disks_unlimited", {}),
    "failed": ("plimsoll_disks", {"state": "failed"}),
    "unknown": ("plimsoll_disks_unknown", {}),
    "unreachable_guests": ("plimsoll_guests", {"state": "unreachable"}),
    "paused": ("plimsoll_pass_paused", {}),
}


ASIDE = Whole((Some((One(UNLIMITED, cinder="missing", acknowledged=True),)),))
"""An operator knows that its desired limits are unknown; that it has lost its limits is wrong all the same."""


@given(nodes)
@example(ASIDE)
@examples_of(200)
def test_whoever_is_asked_about_a_node_tells_the_same(whole: Whole) -> None:
    with tempfile.TemporaryDirectory() as directory:
        agree(Seen(whole, Path(directory)))


@given(nodes)
@examples_of(60)
def test_the_json_of_a_node_is_as_its_schemas_say(whole: Whole) -> None:
    with tempfile.TemporaryDirectory() as directory:
        seen = Seen(whole, Path(directory))
        for report in (seen.planned, seen.report):
            schemas.hold_part("plan.json", report_data(report))
            for outcome in report.outcomes:
                schemas.hold_part("common.json#/$defs/reason", state_reason_data(outcome))
        schemas.hold_part("status.json", status_data.data(seen.status))
        region = seen.region
        schemas.hold_part("region-status.json", region_data(region, problems(region)))


def agree(seen: Seen) -> None:
    """All that tells of one pass: its files, metrics, JSON, words, exit statuses, plan and alerts."""
    figures = seen.told()
    health = figures["health"]
    for who, its in figures.items():
        rest = {"daemon_faults"} if who == "pass.json" else set()
        assert {name: each for name, each in its.items() if name in health} == _without(health, rest), who
    values = {name: value for name, (value, _) in health.items()}
    counted_alike(seen, values)
    in_words(seen, values)
    wrong = {name for name, (_, level) in health.items() if level is not Level.OK}
    graded_alike(seen, wrong, max(level for _, level in health.values()))
    planned_alike(seen, values, wrong)
    for alert in alerts_of(Site()):
        alerted_alike(seen, alert, health)


def counted_alike(seen: Seen, values: Mapping[str, float | None]) -> None:
    """What was counted while the pass ran is what the files, the metrics and the JSON count."""
    report = seen.report
    assert values["failed"] == report.count(Kind.FAILED)
    assert values["behind"] == report.count(Kind.PLANNED, Kind.DEFERRED)
    assert values["unknown"] == report.unknown
    known = sum(each.acknowledged is not None and not report.is_new(each) for each in _unknown(report))
    new = sum(map(report.is_new, report.outcomes))
    assert report.unknown + known + new == report.count(Kind.UNKNOWN)
    said = seen.sum("plimsoll_disks_unknown_acknowledged") or 0
    assert said == sum(each.acknowledged is not None for each in _unknown(report))
    kinds = {kind: report.count(kind) for kind in Kind}
    assert {kind: sum(disk.kind is kind for disk in seen.last.disks) for kind in Kind} == kinds
    for name, (metric, labels) in COUNTS.items():
        assert (seen.sum(metric, **labels) or 0) == values[name], name
    for kind in Kind:
        assert (seen.sum("plimsoll_disks", state=kind.value) or 0) == kinds[kind]
    of_node, of_region = status_data.data(seen.status)["disks"], region_data(seen.region, ())
    assert of_node["states"] == of_region["disks"] == {kind.value: number for kind, number in kinds.items()}
    for data in (of_node, of_region):
        assert (data["unknown"], data["unlimited"]) == (values["unknown"], values["unlimited"])
        assert data["unknown_acknowledged"] == said


def graded_alike(seen: Seen, wrong: Collection[str], level: Level) -> None:
    """The grade, the exit status and the findings are one."""
    report, is_good = seen.report, seen.last.grade is Grade.GOOD
    causes = {*TELLS_PASS, *(("braked", "behind") if seen.whole.enforcing else ())}
    assert is_good == (not causes.intersection(wrong) and not report.notes), wrong
    status = exit_status(report)
    assert (status == 0) == (is_good and report.braked is None)
    assert status == 4 or report.braked is None or report.complaint
    assert (seen.status.exit_status == 0) == (not wrong)
    assert seen.status.level is level


def planned_alike(seen: Seen, values: Mapping[str, float | None], wrong: Collection[str]) -> None:
    """What plan says is what the pass then meets."""
    planned = {outcome.disk.key: outcome.result.kind for outcome in seen.planned.outcomes}
    for outcome in seen.report.outcomes:
        assert outcome.result.kind in _AFTER[planned[outcome.disk.key]], outcome
    assert seen.planned.unknown + seen.planned.count(Kind.PLANNED, Kind.DEFERRED) >= (values["unknown"] or 0)
    if exit_status(seen.planned) == 0:
        assert not {"behind", "failed", "unknown", "unlimited", "unreachable_guests", "braked"}.intersection(wrong)


def alerted_alike(seen: Seen, alert: Alert, health: Mapping[str, tuple[float | None, Level]]) -> None:
    """The same metric, and the range of the table, at the level of the table."""
    if alert.measure in METRIC:
        assert METRIC[alert.measure] in alert.expr, alert.name
    if alert.measure in COUNTS and alert.severity in ("warning", "critical"):
        metric, labels = COUNTS[alert.measure]
        fires = alarms(Site().range_of(alert.measure, alert.severity), seen.sum(metric, **labels) or 0)
        assert fires == (health[alert.measure][1] >= Level[alert.severity.upper()]), alert.name


NOUNS = {
    "failed": ("failed",),
    "unknown": ("unknown",),
    "behind": ("out of sync", "deferred"),
    "unreachable_guests": ("guest unreachable",),
}
"""By the measure, the states that sums of disks and guests have in its place."""
PROBLEMS = {
    "unlimited": r"(\d+) disks? unlimited",
    "failed": r"change failed on (\d+) disks?",
    "behind": r"(\d+) disks? (?:out of sync|deferred(?! by))",
    "unknown": r"(\d+) disks? unknown",
    "unreachable_guests": r"(\d+) guests? unreachable",
    "braked": r"(\d+) disks? deferred by the brake",
}


def in_words(seen: Seen, values: Mapping[str, float | None]) -> None:
    """What is printed has the same numbers and nouns: sums of all, problems of status, checks and the region."""
    summed_alike(seen, values)
    # What two figures tell of the same disks is told once.
    texts = [problem.problem.text for problem in seen.status.problems()]
    for name, pattern in PROBLEMS.items():
        counted = sum(int(match[1]) for text in texts if (match := re.match(pattern, text)))
        assert counted <= (values[name] or 0), (name, texts)
        if name in ("unlimited", "unreachable_guests", "braked"):  # told first, or of nothing else
            assert counted == values[name], (name, texts)
    checked_alike(seen, values)
    region_alike(seen, values)


def summed_alike(seen: Seen, values: Mapping[str, float | None]) -> None:
    report, status = seen.report, seen.status
    told = told_by.enforced(report) if seen.mode is Mode.ENFORCE else told_by.planned(report)
    sums = {
        "pass": _sum(told, "Done" if seen.mode is Mode.ENFORCE else "Plan"),
        "status": _numbers(status_words.facts(status).get("disks", "")),
        "region": _numbers(messages.status_facts(seen.region)["disks"]),
    }
    guests = _numbers(status_words.facts(status)["guests"])
    for sum_ in ("status", "region"):
        sums[sum_]["guest unreachable"] = guests.get("unreachable", 0)
    for who, its in sums.items():
        for name, nouns in NOUNS.items():
            assert sum(its.get(noun, 0) for noun in nouns) == values[name], (who, name, its)
        for kind in (Kind.DEFERRED, Kind.LEFT_ALONE, Kind.FAILED):
            assert its.get(kind.value.replace("-", " "), 0) == report.count(kind), (who, kind)
        settled = its.get("in sync", 0) + its.get("changed", 0)
        assert settled == report.count(Kind.IN_SYNC, Kind.CHANGED), (who, its)
        new = sum(report.is_new(each) and each.acknowledged is None for each in report.outcomes)
        assert its.get("unknown until the next catalogue", 0) == new, who
        known = sum(each.acknowledged is not None for each in report.outcomes)
        assert its.get("unknown but acknowledged", 0) == known, who


def region_alike(seen: Seen, values: Mapping[str, float | None]) -> None:
    """The region tells of this node all that is wrong, with the same numbers."""
    told = list(problems(seen.region))
    wrong = judge(seen.figures, SHIPPED).wrong
    assert {name for each in told for name in each.figures} == {finding.measure.name for finding in wrong}
    for name, pattern in PROBLEMS.items():
        counted = sum(int(found[1]) for each in told if (found := re.search(pattern, each.text)))
        once = name == "behind" and (values[name] or 0) <= (values["braked"] or 0)  # told with the brake
        assert counted == (0 if once else values[name] or 0), (name, told)


def _without(told: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: each for name, each in told.items() if name not in names}


def checked_alike(seen: Seen, values: Mapping[str, float | None]) -> None:
    """The state and the figures of check_plimsoll."""
    settings = seen.node.state.directory / "none.conf"
    settings.touch()
    levels = []
    for subject in ("agent", "limits"):
        options = check.options_of(
            [subject, "--state-dir", str(seen.node.state.directory), "--config-file", str(settings), "--no-data=ok"]
        )
        checked = check.check(options, seen.node.now)
        for name, number in re.findall(r"(\w+)=([0-9.]+)", checked.text.partition("\n")[0].partition(" | ")[2]):
            assert float(number) == pytest.approx(values[name], abs=0.001), name
        levels.append({0: Level.OK, 1: Level.WARNING, 2: Level.CRITICAL, 3: Level.UNKNOWN}[checked.status])
    assert max(levels) is seen.status.level


def _sum(lines: Sequence[str], begins: str) -> dict[str, int]:
    """The numbers of the last sentence that begins so; it may be wrapped."""
    text = " ".join(" ".join(lines).split())
    return _numbers(text.rpartition(f"{begins}: ")[2].partition(".")[0])


def _numbers(text: str) -> dict[str, int]:
    """By what is counted; changes that are planned are out of sync, and those that were made are in sync."""
    found: dict[str, int] = {}
    for number, noun in re.findall(r"(\d+) ([a-z ]+)", text):
        name = "guest unreachable" if noun.startswith("guest") else _CHANGES.get(noun.strip(), noun.strip())
        found[name] = found.get(name, 0) + int(number)
    return found


_CHANGES = {
    **{f"to {turn}": "out of sync" for turn in ("set", "raise", "lower", "remove")},
    **dict.fromkeys(("set", "raised", "lowered", "removed"), "in sync"),
}


def _unknown(report: PassReport) -> list[Outcome]:
    return [outcome for outcome in report.outcomes if outcome.result.kind is Kind.UNKNOWN]


_AFTER: Mapping[Kind, Collection[Kind]] = {
    Kind.PLANNED: (Kind.CHANGED, Kind.FAILED, Kind.UNKNOWN, Kind.PLANNED, Kind.DEFERRED),
    Kind.DEFERRED: (Kind.DEFERRED, Kind.PLANNED),
    Kind.IN_SYNC: (Kind.IN_SYNC,),
    Kind.LEFT_ALONE: (Kind.LEFT_ALONE,),
    Kind.UNKNOWN: (Kind.UNKNOWN,),
}
"""By what a plan says of a disk, what may become of it. In mode observe no cluster is asked."""


def test_the_nodes_may_have_every_state_and_go_wrong_in_every_way() -> None:
    """Else the property would hold of nothing."""
    few = Some((One(), One(cinder="missing")), UNLIMITED, "refused")
    whole = [
        Whole((few, Some((One(),), UNLIMITED), Some((One(),), trouble="hangs"), Some((One(),)))),
        Whole((Some((One(),), UNLIMITED), Some((One(),), trouble="dark")), enforcing=False, catalogue="stale"),
        Whole((few,), paused=True, broken_rules=True, catalogue="lost"),
        Whole((Some((One(), One())),), spec=30, daemon="killed"),
    ]
    kinds: set[Kind] = set()
    wrong: set[str] = set()
    for each in whole:
        with tempfile.TemporaryDirectory() as directory:
            seen = Seen(each, Path(directory))
        agree_on = judge(seen.figures, SHIPPED)
        kinds |= {outcome.result.kind for outcome in seen.report.outcomes}
        wrong |= {found.figure.name for found in agree_on.wrong}
    assert kinds == set(Kind)
    rest = {each.name for each in MEASURES if each.subject == "probe"}
    assert wrong == set(MEASURE) - rest - {"pass_age", "pass_seconds", "observed_age", "at_limit"}


@given(nodes, st.booleans())
@examples_of(60)
def test_without_room_for_its_state_they_are_as_bad_too(whole: Whole, full: bool) -> None:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        seen = Seen(whole, Path(directory))
        patch.setattr(
            "plimsoll_agent.util.files.no_room", lambda directory: "No space left on device" if full else ""
        )
        checked_alike(seen, {name: value for name, (value, _) in seen.told()["health"].items()})
        assert not full or seen.status.exit_status == 1


@given(nodes, st.booleans())
@examples_of(60)
def test_after_a_pass_that_failed_they_tell_the_same_too(whole: Whole, first: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        seen = Seen(whole, Path(directory))
        now = seen.node.now + timedelta(minutes=5)
        setting = PassSetting(version="1.2.3", boot="b1", ended=now, stale_after=7200)
        before = None if first else seen.last
        seen.node.now = now
        seen.tell(failed(before, seen.mode, "libvirt: no answer", "libvirt", now - timedelta(seconds=2), setting))
        told = seen.told()
        health = told["health"]
        told["pass.json"] |= {name: each for name, each in health.items() if name == "daemon_faults"}
        assert all({name: each for name, each in its.items() if name in health} == health for its in told.values())
        checked_alike(seen, {name: value for name, (value, _) in health.items()})
        assert health["sources_down"] == (1, Level.WARNING)
        assert seen.status.exit_status == 3
