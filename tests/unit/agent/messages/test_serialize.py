"""Plain data for machines: keys that stay, nothing unknown taken for unlimited, and all of it JSON."""

from __future__ import annotations

import json
from datetime import timedelta

from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.messages import serialize
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.impact import Impact
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Decision, Desired, Unmanaged
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile.outcome import (
    Braked,
    Earlier,
    Kind,
    Outcome,
    Result,
    UnreachableGuest,
)
from plimsoll_agent.util.frozen import replace
from tests.unit.outcomes import a_pass
from tests.unit.values import GUEST, NOON, PROJECT, VOLUME, a_disk, a_situation

BEFORE, AFTER = Limits(total_iops_sec=500), Limits(total_iops_sec=250, total_iops_sec_max=400)
RULE = because(Code.RULE, rule="gold")
UNKNOWN = Unknown(because(Code.TIMED_OUT, detail="?"))


def changed() -> Outcome:
    disk = a_disk(actual=BEFORE, defined=BEFORE, monitors=("a:1", "b:1"), size=2**30, bus="virtio")
    change = Change(
        disk=disk, before=BEFORE, after=AFTER, direction=Direction.LOWER, reason=RULE, cause=Code.DESIRED_CHANGED
    )
    return Outcome(
        disk=disk,
        decision=Decision(desired=Desired(AFTER, RULE), trail=()),
        change=change,
        result=Result(Kind.CHANGED, RULE, 0.00612345678),
    )


def test_a_disk_tells_who_it_is() -> None:
    data = serialize.disk_data(replace(changed().disk, volume_type="gold", shareable=True))
    assert data == {
        "guest": "instance-00000001",
        "guest_uuid": GUEST,
        "display_name": "web",
        "project": PROJECT,
        "project_name": "shop",
        "user": None,
        "flavor": "m1.small",
        "disk": "vdb",
        "bus": "virtio",
        "volume": VOLUME,
        "pool": "volumes",
        "namespace": None,
        "image": f"volume-{VOLUME}",
        "size": 2**30,
        "volume_type": "gold",
        "encrypted": False,
        "shareable": True,
        "cluster": None,
        "monitors": ["a:1", "b:1"],
    }


def test_unlimited_unknown_and_unmanaged_are_three_things() -> None:
    assert serialize.limits_data(Limits()) == {}
    assert serialize.limits_data(Desired(Limits(), RULE)) == {}
    assert serialize.limits_data(UNKNOWN) is None
    assert serialize.limits_data(Unmanaged(RULE)) is None
    assert serialize.limits_data(None) is None
    assert serialize.limits_data(Desired(AFTER, RULE)) == {"total_iops_sec": 250, "total_iops_sec_max": 400}


def test_an_outcome_tells_what_was_what_is_and_why() -> None:
    data = serialize.outcome_data(changed())
    after = {"total_iops_sec": 250, "total_iops_sec_max": 400}
    assert data["actual"] == data["defined"] == data["desired"] == after
    assert data["drifted"] is False
    assert data["change"] == {
        "before": {"total_iops_sec": 500},
        "after": {"total_iops_sec": 250, "total_iops_sec_max": 400},
        "direction": "lower",
        "drains": False,
        "reason": {"code": "rule", "rule": "gold"},
        "cause": "desired-changed",
    }
    assert (data["result"], data["reason"]) == ("changed", {"code": "rule", "rule": "gold"})
    assert data["seconds"] == 0.006123
    assert data["guest_uuid"] == GUEST, "who the disk is stands beside it"


def test_a_disk_that_was_not_changed_is_told_as_it_was_seen() -> None:
    planned = replace(changed(), result=Result(Kind.PLANNED, RULE), disk=a_disk(actual=BEFORE, defined=AFTER))
    data = serialize.outcome_data(planned)
    assert data["actual"] == {"total_iops_sec": 500}
    assert data["defined"] == {"total_iops_sec": 250, "total_iops_sec_max": 400}
    assert data["drifted"] is True


def test_who_feels_a_change_is_told_and_that_it_is_unknown() -> None:
    key = changed().disk.key
    felt = Impact(seconds=93600.4, share=0.71234, base="total_iops_sec", present=140.4)
    told = {"known_seconds": 93600, "at_limit": 0.7123, "limit": "total_iops_sec", "present": 140.4}
    unknown = {"known_seconds": 0, "at_limit": None, "limit": None, "present": None}
    impacts = ({key: felt}, {key: None}, {})
    assert [serialize.outcome_data(changed(), each)["impact"] for each in impacts] == [told, unknown, None]


def test_an_outcome_without_a_change_has_none() -> None:
    left = replace(changed(), change=None, decision=Decision(desired=Unmanaged(RULE), trail=()))
    data = serialize.outcome_data(left)
    assert data["change"] is None
    assert data["desired"] is None


def test_a_report_is_json_with_all_that_was_seen_and_not_seen() -> None:
    hidden = UnreachableGuest(GuestRef("u-2", "b\x1b🚢"), because(Code.NOT_FOUND, detail="the guest is gone"))
    note = because(Code.NO_RECORD, detail="no space")
    hung = replace(changed(), change=None, result=Result(Kind.UNKNOWN, because(Code.TIMED_OUT, detail="no answer")))
    passed = a_pass(changed(), hung, seconds=1.25, unreachable=(hidden,), notes=(note,))
    data = json.loads(json.dumps(serialize.report_data(passed)))
    assert data["complaint"] is None
    assert serialize.report_data(replace(passed, complaint="rules.yaml:3: no"))["complaint"] == "rules.yaml:3: no"
    assert data["version"] == 2
    assert data["started"] == "2026-11-20T12:00:00+00:00"
    assert data["seconds"] == 1.25
    assert [outcome["volume"] for outcome in data["outcomes"]] == [VOLUME] * 2
    gone, silent = data["unreachable"]
    reason = {"code": "not-found", "detail": "the guest is gone"}
    assert gone == {"guest": "b\x1b🚢", "guest_uuid": "u-2", "reason": reason, "listed": False}
    assert (silent["guest_uuid"], silent["listed"]) == (hung.disk.guest.uuid, True)
    assert data["notes"] == [{"code": "no-record", "detail": "no space"}]
    assert data["braked"] is None
    assert data["catalogue"] is None, "nobody is to be asked"


def test_a_report_says_what_was_braked_and_by_which_rules() -> None:
    stop = Braked(
        revision="4f21c8",
        catalogue="0a1b2c",
        keys=frozenset({"a/1", "b/2"}),
        of=9,
        removed=0,
        raised=0,
        lowered=2,
        earlier=(Earlier(NOON, 2, "gold"),),
    )
    wait = Result(Kind.DEFERRED, because(Code.BRAKED, revision="4f21c8", disks=2, of=9))
    passed = a_pass(replace(changed(), result=wait), seconds=1.25, braked=stop)
    data = json.loads(json.dumps(serialize.report_data(passed)))
    others = dict.fromkeys(("low", "added", "managed", "unmanaged"), 0)
    numbers = {"disks": 2, "of": 9, "removed": 0, "raised": 0, "lowered": 2, **others}
    assert data["braked"] == {
        "revision": "4f21c8",
        "catalogue": "0a1b2c",
        "many": True,
        "alone": {},
        "edits": [],
        "earlier": [{"at": NOON.isoformat(), "disks": 2, "source": "gold"}],
        **numbers,
    }
    (outcome,) = data["outcomes"]
    assert (outcome["result"], outcome["reason"]["code"]) == ("deferred", "braked")
    assert outcome["change"]["after"] == {"total_iops_sec": 250, "total_iops_sec_max": 400}, "what it waits for"


def test_a_report_says_which_word_of_cinder_it_stands_on() -> None:
    known = Catalogue(7, NOON - timedelta(minutes=3), "north")
    passed = a_pass(changed(), situation=replace(a_situation(), catalogue=known), seconds=1.25)
    data = json.loads(json.dumps(serialize.report_data(passed)))
    assert data["catalogue"] == {
        "source": "north",
        "issued": "2026-11-20T11:57:00+00:00",
        "generation": 7,
        "revision": known.revision,
    }
    lost = replace(passed, situation=replace(passed.situation, catalogue=UNKNOWN))
    assert serialize.report_data(lost)["catalogue"] is None, "what nobody knows is not shown as something"


def test_a_held_disk_says_so_for_programs_too() -> None:
    held = because(Code.HOLD, why="import", by="ann", until="2026-11-20T13:00:00+00:00")
    desired = Decision(desired=Desired(AFTER, held), trail=(), aside=Desired(BEFORE, RULE))
    data = json.loads(
        json.dumps(serialize.outcome_data(replace(changed(), decision=desired, result=Result(Kind.IN_SYNC, held))))
    )
    assert data["desired"] == {"total_iops_sec": 250, "total_iops_sec_max": 400}
    assert data["reason"] == {"code": "hold", "why": "import", "by": "ann", "until": "2026-11-20T13:00:00+00:00"}
