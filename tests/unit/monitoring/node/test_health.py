"""How a node is: its figures, and how they are judged."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.monitor.next_command import CATALOGUE_UNIT, ENFORCE_UNIT, PROBE_UNIT, NodeSetup
from plimsoll_agent.monitor.pass_summary import TO_PROBE, LastCatalogue, LastPass
from plimsoll_agent.monitor.thresholds import MEASURE, MEASURES, SHIPPED, Level, Thresholds, checked_range
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind, UnreachableGuest
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.node import health
from plimsoll_monitoring.node.figures import figures_of_probes
from plimsoll_monitoring.node.health import Figure, figures_of_daemon, figures_of_pass, judge
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Circumstances, Health, Postponed, ProbeResult
from plimsoll_probes.schedule.targets import ChosenTarget
from tests import golden
from tests.unit.daemonstatus import FULL
from tests.unit.lastpasses import UNTOUCHED, a_last_disk, a_last_pass, a_name, a_varied_pass
from tests.unit.node import uuid_of
from tests.unit.results import HOSTILE, LIMIT, a_probe, a_subject
from tests.unit.values import GUEST, NOON

NEVER = Thresholds("", "")


def level(name: str, value: float | None, thresholds: Thresholds | None = None) -> Level:
    (finding,) = judge([Figure(name=name, value=value)], {name: thresholds or SHIPPED[name]}).findings
    return finding.level


def figure(last: LastPass | None, name: str, now: datetime = NOON) -> Figure:
    (found,) = (each for each in figures_of_pass(last, now) if each.name == name)
    return found


def sentence(each: Figure) -> str:
    (finding,) = judge([each], SHIPPED).findings
    return health.words(finding)


# --- judging


@pytest.mark.parametrize(
    ("text", "well", "not_well"),
    [
        ("10", [0, 10], [-0.1, 10.1]),
        ("0", [0], [0.5, 1]),  # nagiosplugin takes the number 0 for the empty range, which all is in
        ("5:", [5, 1000], [4.9]),
        ("~:10", [-1000, 10], [10.5]),
        ("5:10", [5, 10], [4, 11]),
        ("@5:10", [4, 11], [5, 10]),
    ],
)
def test_a_range_means_what_it_means_to_nagios(text: str, well: list[float], not_well: list[float]) -> None:
    for value in well:
        assert level("braked", value, Thresholds("", text)) is Level.OK, value
    for value in not_well:
        assert level("braked", value, Thresholds(text, "")) is Level.WARNING, value
        assert level("braked", value, Thresholds("", text)) is Level.CRITICAL, value


@pytest.mark.parametrize("text", ["x", "1e5", "10:5", ":", "@", "1:2:3", "0x1", "1;2"])
def test_what_is_no_range_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a range"):
        checked_range(text)


def test_critical_has_the_last_word_where_both_ranges_are_left() -> None:
    assert level("failed", 5, Thresholds("1", "4")) is Level.CRITICAL
    assert level("failed", 3, Thresholds("1", "4")) is Level.WARNING


def test_what_is_not_watched_may_stay_unknown() -> None:
    assert level("pass_age", None) is Level.UNKNOWN
    assert level("pass_age", None, NEVER) is Level.OK


def test_unknown_is_worse_than_a_warning_and_better_than_critical() -> None:
    some = [Figure(name="paused", value=1), Figure(name="pass_age", value=None)]
    assert judge(some, SHIPPED).level is Level.UNKNOWN
    judgement = judge([*some, Figure(name="catalogue_age", value=86401)], SHIPPED)
    assert judgement.level is Level.CRITICAL
    assert [finding.figure.name for finding in judgement.findings] == ["catalogue_age", "pass_age", "paused"]


def test_nothing_measured_is_not_ok() -> None:
    assert judge([], SHIPPED).level is Level.UNKNOWN


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_the_shipped_ranges_are_ranges_and_no_warning_is_beyond_its_critical(measure: Any) -> None:
    for text in (measure.warning, measure.critical):
        assert checked_range(text) == text
    if measure.warning and measure.critical:
        assert level(measure.name, float(measure.warning)) is Level.OK
        assert level(measure.name, float(measure.warning) + 1) is Level.WARNING
        assert level(measure.name, float(measure.critical) + 1) is Level.CRITICAL


# --- the figures of a pass


def test_all_is_well_after_a_good_pass() -> None:
    last = a_last_pass(a_last_disk(), catalogue=LastCatalogue(NOON, "openstack", 7200), interval=300.0)
    now = NOON + timedelta(minutes=5)
    daemon = replace(FULL, written=now, reloaded=True)
    judgement = judge([*figures_of_pass(last, now), *figures_of_daemon(daemon, now)], SHIPPED)
    assert judgement.level is Level.OK
    assert {finding.figure.name for finding in judgement.findings} == {
        measure.name for measure in MEASURES if measure.subject != "probe"
    }


FIGURES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("pass_age", {"ended": NOON - timedelta(seconds=901)}),
    ("pass_age", {"ended": NOON - timedelta(seconds=14401)}),
    ("good_pass_age", {"last_good": NOON - timedelta(hours=2)}),
    ("good_pass_age", {"last_good": None, "trouble": "no\nmore"}),
    ("pass_seconds", {"phases": {"observe": 9.0, "apply": 240.0}}),
    ("sources_down", {"sources": {"libvirt": False, "rules": True}}),
    *(
        ("sources_down", {"sources": {source: False}, "notes": (because(code, **facts),)})
        for source, code, facts in (
            ("writes", Code.TRIAL_FAILED, {"versions": "libvirt 9", "detail": "a vda"}),
            ("refresh", Code.REFRESH_FAILED, {"refreshes": 2, "detail": "Keystone: connection refused"}),
            ("congestion", Code.CONGESTION_UNKNOWN, {"detail": "/x: expired"}),
            ("disks", Code.NO_DISK_FOUND, {"detail": "a vda"}),
        )
    ),
    ("catalogue_age", {"catalogue": LastCatalogue(None, "openstack", 7200)}),
    ("catalogue_age", {"catalogue": LastCatalogue(NOON - timedelta(hours=3), "region-file", 9)}),
    ("paused", {"paused": because(Code.PAUSED, file="/x", why="move")}),
    ("braked", {"braked": "a1b2", "braked_disks": 12}),
    ("observed_age", {"looked": NOON - timedelta(hours=1)}),
    ("observed_age", {"looked": None}),
    ("unreachable_guests", {"unreachable": (UnreachableGuest(GuestRef(uuid_of(4), HOSTILE), UNTOUCHED),)}),
)
OF_DISKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("unlimited", {"actual": Limits()}),
    ("behind", {"kind": Kind.PLANNED}),
    ("behind", {"kind": Kind.DEFERRED}),
    ("failed", {"kind": Kind.FAILED, "reason": UNTOUCHED}),
    ("unknown", {"kind": Kind.UNKNOWN, "reason": UNTOUCHED}),
    ("at_limit", {"shares": {"total_iops_sec": 0.97}}),
)


def test_a_figure_tells_what_is_the_matter_on_which_disks_and_what_to_do() -> None:
    cases = {}
    for number, (name, other) in enumerate((*FIGURES, *OF_DISKS)):
        disks = [a_last_disk(a_name(each), **other) for each in (7, 8, 9)] if number >= len(FIGURES) else []
        of_pass = {"interval": 300.0} if disks else other
        one = figure(a_last_pass(*disks, a_last_disk(a_name(1)), **of_pass), name)
        lines = (f"{one.value} {level(name, one.value).name}", sentence(one), *one.each, f"Next: {one.do}")
        cases[f"{name}, {', '.join(other)} ({number})"] = "\n".join(lines)
    golden.check("figures.txt", __file__, cases)


def test_a_figure_of_disks_that_are_well_is_zero() -> None:
    last = a_last_pass(a_last_disk(), interval=300.0)
    assert {figure(last, name).value for name, _ in OF_DISKS} == {0}


def test_a_disk_with_unknown_actual_limits_is_not_called_unlimited() -> None:
    last = a_last_pass(a_last_disk(actual=None), a_last_disk(actual=Limits(), desired=Limits()))
    assert figure(last, "unlimited").value == 0


def test_who_is_at_limit_is_unknown_without_two_readings() -> None:
    assert figure(a_last_pass(a_last_disk(), interval=None), "at_limit").value is None


def test_without_a_pass_all_is_unknown_and_that_is_not_ok() -> None:
    judgement = judge(figures_of_pass(None, NOON), SHIPPED)
    assert judgement.level is Level.UNKNOWN
    assert {(MEASURE[each.figure.name].subject, each.level) for each in judgement.findings} == {
        ("agent", Level.UNKNOWN),
        ("limits", Level.UNKNOWN),
    }
    assert all(each.figure.do for each in judgement.findings)


def test_a_clock_that_was_set_back_does_not_make_an_old_pass_a_new_one() -> None:
    last = a_last_pass(a_last_disk())
    before = NOON - timedelta(days=1)
    for name in ("pass_age", "observed_age"):
        assert figure(last, name, before).value is None
        assert level(name, None) is Level.UNKNOWN
    assert "2026-11-20 12:00 UTC is in the future" in sentence(figure(last, "pass_age", before))


def test_an_old_pass_or_catalogue_names_the_timer_that_was_disabled() -> None:
    setup = NodeSetup(timers=frozenset(), disabled=frozenset((ENFORCE_UNIT, CATALOGUE_UNIT)))
    last = replace(a_last_pass(), catalogue=LastCatalogue(NOON, "keystone", 60))
    told = {each.name: sentence(each) for each in figures_of_pass(last, NOON + timedelta(hours=9), setup)}
    assert told["pass_age"].endswith(": plimsoll-enforce.timer is not enabled")
    assert told["catalogue_age"].endswith(": source keystone, plimsoll-catalogue.timer is not enabled")


def test_clocks_that_differ_by_a_moment_make_no_fuss() -> None:
    assert figure(a_last_pass(), "pass_age", NOON - timedelta(seconds=30)).value == 0


def test_a_failed_pass_is_not_said_to_have_been_quick() -> None:
    last = a_last_pass(grade=Grade.FAILED, phases={})
    assert "pass_seconds" not in {each.name for each in figures_of_pass(last, NOON)}


def test_in_observe_mode_no_operator_is_told_to_enforce_what_would_do_nothing() -> None:
    disk = a_last_disk(kind=Kind.PLANNED)
    found = figure(a_last_pass(disk, enforcing=False), "behind")
    assert (found.do, "mode is observe" in sentence(found)) == ("plimsoll plan", True)


def test_a_long_name_does_not_hide_how_many_more_there_are() -> None:
    disks = [a_last_disk(a_name(number, guest_name="x" * 300), kind=Kind.FAILED) for number in (1, 2)]
    about = figure(a_last_pass(*disks), "failed").about
    assert len(about) < 80
    assert about.endswith("… and 1 more")


def test_nothing_of_a_guest_is_told_as_it_chose_it() -> None:
    hostile = a_last_disk(a_name(2, guest_name=HOSTILE, target=HOSTILE), kind=Kind.FAILED, actual=Limits())
    for each in figures_of_pass(a_varied_pass(disks=(hostile,), interval=1.0, trouble=HOSTILE), NOON):
        assert all(text.isprintable() for text in (each.about, each.do, *each.each)), each.name


# --- the figures of probes

EVERY = timedelta(hours=6)


def a_target(number: int = 1, **other: Any) -> ChosenTarget:
    values: dict[str, Any] = {
        "guest_uuid": uuid_of(number),
        "guest_name": f"instance-{number:08}",
        "directory": "/var/tmp",
        "rule": "canaries",
        "jobs": (JobName.READ, JobName.WRITE),
        "every": EVERY,
        "since": NOON - timedelta(days=30),
        "seen": NOON,
    }
    return ChosenTarget(**values | other)


def a_run(number: int = 1, ago: timedelta = timedelta(hours=1), **other: Any) -> ProbeResult:
    subject = a_subject(guest_uuid=uuid_of(number), guest_name=f"instance-{number:08}")
    return a_probe(**{"subject": subject, "started": NOON - ago} | other)


SHORT = Finding(Verdict.SHORT, Why.CLUSTER_SHORT, {"parameter": "total_iops_sec", "allowed": 7500.0, "done": 2850.0})


def probes(
    *latest: ProbeResult, chosen: tuple[ChosenTarget, ...] = (), postponed: tuple[Postponed, ...] = (), **other: Any
) -> dict[str, Figure]:
    # As ``History.last_begun`` tells it.
    past = [each for each in latest if each.started <= NOON]
    begun = {(each.subject.guest_uuid, each.subject.directory): each.started for each in past}
    return {each.name: each for each in figures_of_probes(latest, begun, postponed, chosen, NOON, **other)}


def test_what_is_probed_in_time_and_keeps_its_promise_is_well() -> None:
    found = probes(a_run(), chosen=(a_target(),), last=a_last_pass(guests_to_probe=1))
    assert {name: each.value for name, each in found.items()} == {
        "probe_off": 0,
        "probe_late": 0,
        "probe_broken": 0,
        "probe_failed": 0,
    }
    assert judge(found.values(), SHIPPED).level is Level.OK


OFF = NodeSetup(timers=frozenset(), disabled=frozenset([PROBE_UNIT]))
"""The timer is there, and not enabled."""
ELSEWHERE = NodeSetup(timers=frozenset())
"""There is no timer, as in a container."""


def to_probe(ago: timedelta) -> LastPass:
    """By the rules of the last pass two guests are, since so long."""
    return a_last_pass(guests_to_probe=2, wrong_since={TO_PROBE: NOON - ago})


def test_guests_that_a_rule_chooses_and_no_timer_probes_are_a_warning_at_once() -> None:
    off = probes(last=to_probe(timedelta(0)), setup=OFF)["probe_off"]
    assert sentence(off) == (
        "2 guests not probed since 12:00 UTC: a rule chooses them, and plimsoll-probe.timer is not enabled"
    )
    assert off.do == "systemctl status plimsoll-probe.timer plimsoll-probe.service"
    assert (level("probe_off", off.value), level("probe_off", 0)) == (Level.WARNING, Level.OK)
    assert probes(last=a_last_pass(), setup=OFF)["probe_off"].value == 0, "no rule chooses a guest"
    paused = replace(to_probe(timedelta(hours=9)), paused=because(Code.PAUSED))
    assert probes(last=paused, setup=OFF)["probe_off"].value == 0, "nothing is probed in a pause"
    assert probes(last=replace(a_last_pass(), looked=None), setup=OFF)["probe_off"].value is None


def test_what_runs_probes_in_the_timers_place_is_seen_by_its_rounds() -> None:
    hours = timedelta(hours=1)
    seen = (a_target(seen=NOON - hours),)
    assert probes(last=to_probe(9 * hours), setup=OFF, chosen=seen)["probe_off"].value == 0, "cron does"
    assert probes(last=to_probe(hours), setup=ELSEWHERE)["probe_off"].value == 0, "its first round is to come"
    never = probes(last=to_probe(3 * hours), setup=ELSEWHERE)["probe_off"]
    assert sentence(never) == (
        "2 guests not probed since 09:00 UTC: a rule chooses them, and plimsoll probe run --due does not run"
    )
    ended = probes(last=to_probe(9 * hours), setup=ELSEWHERE, chosen=(a_target(seen=NOON - 3 * hours),))["probe_off"]
    assert "not probed since 09:00 UTC" in sentence(ended)


def test_a_probe_is_late_once_it_was_due_twice() -> None:
    assert probes(a_run(ago=2 * EVERY), chosen=(a_target(),))["probe_late"].value == 0
    late = probes(a_run(ago=2 * EVERY + timedelta(seconds=1)), chosen=(a_target(),))["probe_late"]
    assert late.value == 1
    assert sentence(late) == "1 probe overdue since 11:59 UTC: instance-00000001 /var/tmp"
    assert late.each == ("instance-00000001 /var/tmp  last begun 12 h 1 s ago, due every 6 h",)


def test_a_pause_and_a_node_that_was_off_make_no_probe_late() -> None:
    run, chosen = a_run(ago=9 * EVERY), (a_target(),)
    assert probes(run, chosen=chosen, last=a_last_pass())["probe_late"].value == 1
    paused = replace(a_last_pass(), paused=because(Code.PAUSED, file="/etc/plimsoll/paused", why="racks"))
    assert probes(run, chosen=chosen, last=paused)["probe_late"].value == 0
    assert probes(run, chosen=chosen, boot=NOON - EVERY)["probe_late"].value == 0
    late = probes(run, chosen=chosen, boot=NOON - 3 * EVERY)["probe_late"]
    assert sentence(late) == "1 probe overdue since 06:00 UTC: instance-00000001 /var/tmp"


def test_one_that_was_never_run_is_late_by_when_it_was_chosen() -> None:
    since = NOON - 2 * EVERY
    assert probes(chosen=(a_target(since=since),))["probe_late"].value == 0
    late = probes(chosen=(a_target(since=since - timedelta(hours=1)),))["probe_late"]
    assert late.value == 1
    assert "never begun, chosen 13 h ago" in late.each[0]


def test_why_a_late_probe_was_put_off_is_told_unless_it_was_run_since() -> None:
    def put_off(ago: timedelta) -> Postponed:
        facts = {"detail": "OSD_DOWN"}
        return Postponed(
            at=NOON - ago,
            node="n",
            guest_uuid=uuid_of(1),
            guest_name="instance-00000001",
            directory="/var/tmp",
            why=Why.UNHEALTHY,
            facts=facts,
        )

    late = probes(a_run(ago=3 * EVERY), chosen=(a_target(),), postponed=(put_off(EVERY),))["probe_late"]
    assert "postponed: Ceph is unhealthy (OSD_DOWN)" in late.about
    assert "postponed: Ceph is unhealthy (OSD_DOWN)" in late.each[0]
    late = probes(a_run(ago=3 * EVERY), chosen=(a_target(),), postponed=(put_off(4 * EVERY),))["probe_late"]
    assert "postponed" not in late.about + late.each[0]


@pytest.mark.parametrize("verdict", Verdict)
def test_a_promise_is_broken_by_short_over_limit_and_slow_alone(verdict: Verdict) -> None:
    found = probes(a_run(finding=replace(SHORT, verdict=verdict)), chosen=(a_target(),))
    assert found["probe_broken"].value == int(verdict.value in ("short", "over-limit", "slow"))
    assert found["probe_failed"].value == int(verdict.value == "failed")


def test_a_broken_promise_says_of_which_guest_how_much_since_when_and_what_to_look_at() -> None:
    broken = probes(
        a_run(1, finding=SHORT, id=412), streak=lambda result: (NOON - timedelta(hours=3), NOON - timedelta(hours=4))
    )["probe_broken"]
    assert level("probe_broken", 1) is Level.WARNING
    assert sentence(broken) == (
        "probe short: instance-00000001 (canary) read: 38 % of limit 250 IOPS; Ceph: not asked;"
        " since 2026-11-20 09:00 UTC (kept until 08:00)"
    )
    assert broken.do == "plimsoll probe show 412"


def test_probes_are_one_problem_for_each_cause_the_worst_verdict_first() -> None:
    slow = Finding(
        Verdict.SLOW,
        Why.OBJECTIVE_MISSED,
        {"direction": "write", "quantile": 0.99, "objective": 0.05, "measured": 0.31},
    )
    unwell = Circumstances(promised=LIMIT, before=LIMIT, health_after=Health(("OSD_DOWN", "SLOW_OPS")))
    well = Circumstances(promised=LIMIT, before=LIMIT, health_before=Health(()), health_after=Health(()))
    starts = {1: NOON - timedelta(hours=3), 2: NOON - timedelta(minutes=181), 3: NOON - timedelta(minutes=1)}
    shorter = replace(SHORT, facts={**SHORT.facts, "done": 2437.5})
    broken = probes(
        *(a_run(3, finding=slow, job=job, id=50) for job in (JobName.READ, JobName.WRITE, JobName.MIXED)),
        a_run(1, finding=SHORT, circumstances=unwell),
        a_run(2, finding=shorter, circumstances=unwell),
        a_run(2, finding=shorter, circumstances=well, job=JobName.WRITE),
        streak=lambda result: (starts[int(result.subject.guest_name[-1])], None),
    )["probe_broken"]
    assert [(each.text, each.do) for each in broken.problems] == [
        (
            "probe short: 2 guests, 3 probes: 32–38 % of their limits; Ceph: OSD_DOWN, SLOW_OPS in 2 of 3"
            " probes; since 2026-11-20 08:59 UTC: instance-00000001 (canary), instance-00000002 (canary)",
            "plimsoll probe list",
        ),
        (
            "probe slow: instance-00000003 (canary) read, write, mixed: p99 of writes is 310 ms, objective"
            " 50 ms; Ceph: not asked; since 2026-11-20 11:59 UTC",
            "plimsoll probe show 50",
        ),
    ]
    assert [len(each.names) for each in broken.problems] == [3, 3]
    assert broken.each == tuple(each.text for each in broken.problems)


def test_many_guests_of_one_cause_are_counted_and_what_is_not_looked_up_may_be_earlier() -> None:
    times = [{"direction": "write", "quantile": 0.9, "objective": 0.05, "measured": 0.1 * n} for n in range(1, 25)]
    slow = [Finding(Verdict.SLOW, Why.OBJECTIVE_MISSED, each) for each in times]
    (problem,) = probes(
        *(a_run(number, finding=each) for number, each in enumerate(slow)), streak=lambda result: (NOON, None)
    )["probe_broken"].problems
    assert problem.text.startswith("probe slow: 24 guests, 24 probes: 2–48 times their objectives; Ceph")
    assert "; since 2026-11-20 12:00 UTC or earlier: instance-00000000 (canary), " in problem.text
    assert problem.text.endswith(" and 21 more")
    assert problem.since is None
    assert len(problem.names) == 24


def test_an_invalid_fact_of_the_history_leaves_the_first_reason() -> None:
    findings = [replace(SHORT, facts={**SHORT.facts, "done": done}) for done in (2850, "x")]
    (problem,) = probes(*(a_run(number, finding=each) for number, each in enumerate(findings)))[
        "probe_broken"
    ].problems
    assert "probe short: 2 guests, 2 probes: 38 % of limit 250 IOPS; and 1 more like it; Ceph" in problem.text


def test_the_results_of_a_guest_that_is_no_longer_chosen_are_forgotten_after_a_week() -> None:
    week = timedelta(days=7)
    assert probes(a_run(ago=week - timedelta(seconds=1), finding=SHORT))["probe_broken"].value == 1
    assert probes(a_run(ago=week, finding=SHORT))["probe_broken"].value == 0
    assert probes(a_run(ago=week, finding=SHORT), chosen=(a_target(),))["probe_broken"].value == 1
    mixed = a_run(ago=week, finding=SHORT, job=JobName.MIXED)
    assert probes(mixed, chosen=(a_target(),))["probe_broken"].value == 0, "no rule asks for that job"


def test_what_a_probe_failed_for_is_told_before_what_it_did_not_reach() -> None:
    skipped = Finding(Verdict.FAILED, Why.NOT_REACHED, {"after": "no-fio"})
    failed = probes(
        a_run(job=JobName.READ, finding=skipped),
        a_run(job=JobName.WRITE, finding=Finding(Verdict.FAILED, Why.NO_FIO)),
    )["probe_failed"]
    assert failed.value == 2
    assert "write and 1 more: failed: fio is missing: install fio in the guest" in failed.about
    assert sentence(failed) == (
        "probe failed: instance-00000001 (canary) write, read: fio is missing: install fio in the guest"
    )


def test_nothing_of_a_probed_guest_is_told_as_it_chose_it() -> None:
    subject = a_subject(guest_uuid=GUEST, guest_name=HOSTILE, display_name=HOSTILE, directory=HOSTILE)
    failed = Finding(Verdict.FAILED, Why.FIO_FAILED, {"detail": HOSTILE})
    target = a_target(guest_uuid=GUEST, guest_name=HOSTILE, directory=HOSTILE)
    for each in probes(a_probe(subject=subject, finding=failed, started=NOON - 9 * EVERY), chosen=(target,)).values():
        assert all(text.isprintable() for text in (each.about, each.do, *each.each)), each.name
