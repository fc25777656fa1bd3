"""Which guests are probed and by which rule, and which objective a disk has."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.rules.model import JOBS, Match, Objective, Probing, Rule, Rules
from plimsoll_probes.model.job import JobName
from plimsoll_probes.schedule.targets import TargetChoice, choose, objective_for
from tests.unit.values import GUEST, NOON, PROJECT, VOLUME, a_disk, a_guest

HOURLY, DAILY = Probing(timedelta(hours=1)), Probing(timedelta(days=1))
FSID = "c4f0e2a8-3a6b-4f62-9b1c-0d7f2f9e6a11"
FAST, SLOW = Objective(((0.99, 0.01),)), Objective(((0.99, 0.5),), slowest=2.0)
OTHER = a_guest(uuid="6ae0acc4-f470-46e7-a341-a0b935479429", name="instance-00000002", project="0" * 32)


def asked(rules: Rules, *disks: Disk) -> TargetChoice:
    return choose(rules, disks, NOON, node="n1", default_directory="/var/tmp")


def told(rules: Rules, *disks: Disk) -> list[tuple[str, str, str | None]]:
    return [(target.guest.name, target.directory, target.rule) for target in asked(rules, *disks).targets]


def a_rule(name: str, probe: Probing | None = HOURLY, **other: object) -> Rule:
    match = other.pop("match", Match(project=(PROJECT,)))
    return Rule(name=name, match=match, probe=probe, **other)  # type: ignore[arg-type]


def test_without_a_rule_that_says_so_no_guest_is_probed() -> None:
    everything_else = Rule(name="r", match=Match(project=(PROJECT,)), objective=FAST)
    assert asked(Rules(rules=(everything_else,)), a_disk()) == TargetChoice((), ())


def test_only_guests_with_a_disk_that_fits_are_probed_and_each_once() -> None:
    rules = Rules(rules=(a_rule("canaries"),))
    disks = [a_disk(), a_disk(target="vdc", image="x", volume_id=None), a_disk(OTHER)]
    assert told(rules, *disks) == [("instance-00000001", "/var/tmp", "canaries")]


def test_one_disk_that_fits_is_enough_whichever_it_is() -> None:
    rules = Rules(rules=(a_rule("one volume", match=Match(volume=(VOLUME,))),))
    own = a_disk(target="vda", volume_id=None, pool="vms")
    assert (
        told(rules, own, a_disk()) == told(rules, a_disk(), own) == [("instance-00000001", "/var/tmp", "one volume")]
    )
    assert told(rules, own) == []


def test_the_first_rule_chooses_alone_even_where_it_means_another_disk() -> None:
    first = a_rule("first", DAILY, match=Match(guest=(GUEST,), pool=("vms",)))
    second = a_rule("second", match=Match(guest=(GUEST,), pool=("volumes",)))
    disks = a_disk(), a_disk(target="vda", volume_id=None, pool="vms")
    (only,) = asked(Rules(rules=(first, second)), *disks).targets
    assert (only.rule, only.probing) == ("first", DAILY)
    assert told(Rules(rules=(second, first)), *disks) == [("instance-00000001", "/var/tmp", "second")]


def test_rules_without_probe_and_rules_that_ended_leave_it_to_the_next() -> None:
    exempt = Rule(name="exempt", match=Match(project=(PROJECT,)), manage=False)
    ended, ending = a_rule("ended", until=NOON), a_rule("ending", until=NOON + timedelta(seconds=1))
    (only,) = asked(Rules(rules=(exempt, ended, ending)), a_disk()).targets
    assert (only.rule, only.until) == ("ending", ending.until)


def test_guests_whose_limits_are_nobodys_business_may_be_probed() -> None:
    assert told(Rules(rules=(a_rule("canaries", manage=False),)), a_disk())


def test_each_directory_is_a_target_of_its_own() -> None:
    probing = Probing(timedelta(hours=6), ("read",), ("/srv/a", "/srv/b"))
    targets = asked(Rules(rules=(a_rule("canaries", probing),)), a_disk()).targets
    assert [target.directory for target in targets] == ["/srv/a", "/srv/b"]
    assert len({target.key for target in targets}) == 2
    assert {target.jobs for target in targets} == {(JobName.READ,)}


def test_every_job_that_a_rule_may_name_is_one_that_there_is() -> None:
    assert tuple(JobName) == JOBS


def test_a_rule_of_which_it_is_unknown_whether_it_fits_chooses_nothing_and_is_told() -> None:
    unknown = a_rule("by cluster", match=Match(project=(PROJECT,), cluster=(FSID,)))
    answer = asked(Rules(rules=(unknown,)), a_disk(), a_disk(OTHER))
    assert answer.targets == ()
    assert [(doubt.guest.name, doubt.rule) for doubt in answer.doubts] == [("instance-00000001", "by cluster")]
    assert told(Rules(rules=(unknown, a_rule("next"))), a_disk()) == [("instance-00000001", "/var/tmp", "next")]


def test_a_disk_in_a_known_cluster_settles_what_another_leaves_open() -> None:
    rules = Rules(rules=(a_rule("by cluster", match=Match(project=(PROJECT,), cluster=(FSID,))),))
    answer = asked(rules, a_disk(), a_disk(target="vda", image="x", cluster=FSID))
    assert [target.rule for target in answer.targets] == ["by cluster"]
    assert answer.doubts == ()


# --- objectives


def objective_rule(objective: Objective, **match: tuple[str, ...]) -> Rule:
    return Rule(name=str(match), match=Match(**match), objective=objective)


@pytest.mark.parametrize(("volume_type", "objective"), [("gold", FAST), ("silver", None), (None, None)])
def test_a_disk_has_the_objective_of_its_volume_type(volume_type: str | None, objective: Objective | None) -> None:
    assert objective_for(Rules(objectives={"gold": FAST}), a_disk(volume_type=volume_type), NOON) == objective


def test_the_first_rule_that_has_one_comes_before_the_volume_type() -> None:
    disk = a_disk(volume_type="gold")
    silent, first = a_rule("probes"), objective_rule(SLOW, pool=("volumes",))
    rules = Rules(rules=(silent, first, objective_rule(FAST, pool=("vol*",))), objectives={"gold": FAST})
    assert objective_for(rules, disk, NOON) == SLOW
    assert objective_for(rules, a_disk(volume_type="gold", pool="vms"), NOON) == FAST


def test_a_rule_that_ended_promises_nothing_any_more() -> None:
    ended = Rule(name="r", match=Match(pool=("volumes",)), objective=SLOW, until=NOON)
    assert objective_for(Rules(rules=(ended,), objectives={"gold": FAST}), a_disk(volume_type="gold"), NOON) == FAST


def test_a_disk_is_not_judged_by_what_was_perhaps_never_promised() -> None:
    rules = Rules(rules=(objective_rule(SLOW, cluster=(FSID,)),), objectives={"gold": FAST})
    assert objective_for(rules, a_disk(volume_type="gold"), NOON) is None
    assert objective_for(rules, a_disk(volume_type="gold", cluster=FSID), NOON) == SLOW
