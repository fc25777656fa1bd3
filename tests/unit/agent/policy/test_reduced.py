"""What congestion leaves of a disk's limits, and for whom it is nothing to them; with the words for it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll_agent.congestion.following import Followed, Following, ended, follow
from plimsoll_agent.congestion.published import Factors
from plimsoll_agent.messages import congestion
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Decision, Desired, NoOpinion, Situation, Unmanaged
from plimsoll_agent.policy.reduced import Reduced, reduced
from plimsoll_agent.rules.model import Match, Rule, Rules, UnderCongestion
from tests.unit.agent.congestion.values import a_factor, a_factor_file
from tests.unit.node import FSID
from tests.unit.values import NOON, a_disk

GOLD = Limits(total_iops_sec=3000, total_bytes_sec=100 * 2**20)
SPEC = Desired(GOLD, because(Code.QOS_SPEC, spec="gold"))
FLOOR = Limits(total_iops_sec=50)


def a_rule(name: str = "all", pool: str = "*", **other: object) -> Rule:
    return Rule(
        **{"name": name, "match": Match(pool=(pool,)), "congestion": UnderCongestion(FLOOR)} | other  # type: ignore[arg-type]
    )


def answer(
    desired: Desired | Unmanaged | Unknown = SPEC,
    *rules: Rule,
    factors: Factors | None = Factors({FSID: a_factor_file()}),  # noqa: B008
    pool: str = "volumes",
    following: Following = Following(),  # noqa: B008
) -> Reduced | NoOpinion | Unknown | None:
    situation = Situation(
        now=NOON, rules=Rules(rules=rules or (a_rule(),)), congestion=lambda: factors, following=following
    )
    return reduced(a_disk(cluster=FSID, pool=pool), Decision(desired=desired, trail=()), situation)


def code(*args: object, **other: object) -> Code:
    its = answer(*args, **other)  # type: ignore[arg-type]
    assert isinstance(its, NoOpinion | Unknown)
    return its.reason.code


def test_the_limits_with_a_floor_are_reduced_and_the_sentence_has_the_arithmetic() -> None:
    its = answer()
    assert isinstance(its, Reduced)
    assert its.limits == Limits(total_iops_sec=2190, total_bytes_sec=100 * 2**20)
    assert congestion.words(its) == (
        "0.73 × 3000 IOPS 100 MiB/s = 2190 IOPS 100 MiB/s"
        f" (ssd of cluster {FSID[:8]}: 9.1 ms, target 6 ms, 12:00 UTC), observed"
    )
    data = congestion.data(its)
    assert data is not None
    assert (data["answer"], data["limits"], data["rule"]) == (
        "limits",
        {"total_iops_sec": 2190, "total_bytes_sec": 104857600},
        "all",
    )


def test_the_first_rule_with_a_floor_counts() -> None:
    its = answer(SPEC, a_rule("first", congestion=None), a_rule("second"), a_rule("third"))
    assert isinstance(its, Reduced)
    assert its.rule == "second"


def test_a_factor_that_is_followed_and_no_longer_published_names_its_cluster() -> None:
    its = Followed(x=0.5, device_class="ssd", published=0.5, until=NOON, generation=1)
    answered = answer(factors=Factors(), following=Following({(FSID, "volumes"): its}))
    assert isinstance(answered, Reduced)
    assert (answered.factor.cluster, answered.factor.x) == (FSID, 0.5)


@pytest.mark.parametrize("by", ["mode", "end"])
def test_a_factor_that_is_only_there_for_its_moves_is_not_enforced(by: str) -> None:
    pool = FSID, "volumes"
    until = NOON + timedelta(seconds=60)
    before = {pool: Followed(x=0.5, device_class="ssd", published=0.5, until=until, generation=1)}
    factors = Factors({FSID: a_factor_file()})
    after = ended(before, NOON) if by == "end" else follow(before, factors, NOON, lambda _: False)
    assert after[pool].moves
    for pools, enforced in ((before, True), (after, False)):
        its = answer(factors=factors, following=Following(pools))
        assert isinstance(its, Reduced)
        assert (its.factor.x, its.enforced) == ((0.5, True) if enforced else (0.73, False))


def test_the_first_rule_that_matches_gives_share_and_floor_whole() -> None:
    ended = a_rule("ended", until=NOON - timedelta(days=1))
    first = a_rule("first", congestion=UnderCongestion(FLOOR, 2.0))
    its = answer(SPEC, a_rule("other pool", "vms"), ended, first, a_rule("second"), pool="volumes")
    assert isinstance(its, Reduced)
    assert (its.rule, its.limits) == ("first", GOLD)


def test_at_factor_one_the_limits_are_the_desired_ones() -> None:
    its = answer(factors=Factors({FSID: a_factor_file(a_factor(1))}))
    assert isinstance(its, Reduced)
    assert its.limits is GOLD
    words = congestion.words(its)
    assert words is not None
    assert words.startswith("not reduced, x is 1 (ssd of")


@pytest.mark.parametrize(
    ("desired", "why"),
    [
        (Desired(Limits(), because(Code.QOS_SPEC, spec="free")), Code.QOS_SPEC),
        (Desired(GOLD, because(Code.HOLD, by="me")), Code.HOLD),
        (Desired(GOLD, because(Code.COMMAND_LINE)), Code.COMMAND_LINE),
        (Unmanaged(because(Code.NO_LIMIT)), Code.NO_LIMIT),
        (Unknown(because(Code.NO_CATALOGUE)), Code.NO_CATALOGUE),
    ],
)
def test_unlimited_held_command_line_unmanaged_and_unknown_disks_are_never_reduced(
    desired: Desired | Unmanaged | Unknown, why: Code
) -> None:
    assert code(desired) is why


def test_without_a_rule_that_has_a_floor_a_disk_is_never_reduced() -> None:
    assert code(SPEC, a_rule(pool="vms")) is Code.NO_CONGESTION_FLOOR
    assert code(SPEC, a_rule(congestion=None)) is Code.NO_CONGESTION_FLOOR


def test_a_factor_that_is_missing_is_unknown_with_the_fault_of_the_files() -> None:
    its = answer(factors=Factors(fault="f: expired"))
    assert isinstance(its, Unknown)
    assert its.reason == because(Code.CONGESTION_UNKNOWN, detail="f: expired")
    assert code(pool="new") is Code.CONGESTION_UNKNOWN
    assert answer(factors=None) is None
    assert congestion.words(None) is congestion.data(None) is None
