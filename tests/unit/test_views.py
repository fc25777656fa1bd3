"""Plain data for machines: keys that stay, nothing unknown taken for unlimited, and all of it JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from plimsoll_agent import views
from plimsoll_agent.catalogue import Catalogue
from plimsoll_agent.changes import Change
from plimsoll_agent.decide import Decision, Unmanaged, Wants
from plimsoll_agent.direction import Direction
from plimsoll_agent.hypervisor import GuestRef
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Braked, Kind, Outcome, Overlooked, PassReport, Result, Scope
from plimsoll_agent.reason import Code, Unknown, because
from tests.unit.values import GUEST, NOON, PROJECT, VOLUME, a_disk, a_situation

BEFORE, AFTER = Limits(total_iops_sec=500), Limits(total_iops_sec=250, total_iops_sec_max=400)
RULE = because(Code.RULE, rule="gold")
UNKNOWN = Unknown(because(Code.UNANSWERED, detail="?"))


def changed() -> Outcome:
    disk = a_disk(in_force=AFTER, defined=BEFORE, monitors=("a:1", "b:1"), size=2**30, bus="virtio")
    change = Change(disk, BEFORE, AFTER, Direction.TIGHTEN, RULE, Code.WANTED_CHANGED)
    return Outcome(disk, Decision(Wants(AFTER, RULE), ()), change, Result(Kind.CHANGED, RULE, 0.00612345678))


def test_a_disk_tells_who_it_is() -> None:
    data = views.disk_data(replace(changed().disk, volume_type="gold", shareable=True))
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
    assert views.limits_data(Limits()) == {}
    assert views.limits_data(Wants(Limits(), RULE)) == {}
    assert views.limits_data(UNKNOWN) is None
    assert views.limits_data(Unmanaged(RULE)) is None
    assert views.limits_data(None) is None
    assert views.limits_data(Wants(AFTER, RULE)) == {"total_iops_sec": 250, "total_iops_sec_max": 400}


def test_an_outcome_tells_what_was_what_is_and_why() -> None:
    data = views.outcome_data(changed())
    assert data["in_force"] == data["wanted"] == {"total_iops_sec": 250, "total_iops_sec_max": 400}
    assert data["defined"] == {"total_iops_sec": 500}
    assert data["drifted"] is True
    assert data["change"] == {
        "before": {"total_iops_sec": 500},
        "after": {"total_iops_sec": 250, "total_iops_sec_max": 400},
        "direction": "tighten",
        "reason": {"code": "rule", "rule": "gold"},
        "cause": "wanted-changed",
    }
    assert (data["result"], data["reason"]) == ("changed", {"code": "rule", "rule": "gold"})
    assert data["seconds"] == 0.006123
    assert data["guest_uuid"] == GUEST, "who the disk is stands beside it"


def test_an_outcome_without_a_change_has_none() -> None:
    left = replace(changed(), change=None, decision=Decision(Unmanaged(RULE), ()))
    data = views.outcome_data(left)
    assert data["change"] is None
    assert data["wanted"] is None


def test_a_report_is_json_with_all_that_was_seen_and_not_seen() -> None:
    hidden = Overlooked(GuestRef("u-2", "b\x1b🚢"), because(Code.VANISHED, detail="the guest is gone"))
    note = because(Code.NO_RECORD, detail="no space")
    passed = PassReport(Scope(), a_situation(), 1.25, (changed(),), (hidden,), (note,))
    data = json.loads(json.dumps(views.report_data(passed)))
    assert data["version"] == 1
    assert data["started"] == "2026-11-20T12:00:00+00:00"
    assert data["seconds"] == 1.25
    assert [outcome["volume"] for outcome in data["outcomes"]] == [VOLUME]
    assert data["overlooked"] == [
        {"guest": "b\x1b🚢", "guest_uuid": "u-2", "reason": {"code": "vanished", "detail": "the guest is gone"}}
    ]
    assert data["notes"] == [{"code": "no-record", "detail": "no space"}]
    assert data["braked"] is None
    assert data["catalogue"] is None, "nobody is to be asked"


def test_a_report_says_what_was_braked_and_by_which_rules() -> None:
    stop = Braked("4f21c8", "0a1b2c", frozenset({"a/1", "b/2"}), of=9, released=0, loosened=0, cut=2)
    wait = Result(Kind.WAITS, because(Code.BRAKED, edition="4f21c8", disks=2, of=9))
    passed = PassReport(Scope(), a_situation(), 1.25, (replace(changed(), result=wait),), (), (), stop)
    data = json.loads(json.dumps(views.report_data(passed)))
    numbers = {"disks": 2, "of": 9, "released": 0, "loosened": 0, "cut": 2}
    assert data["braked"] == {
        "edition": "4f21c8",
        "catalogue": "0a1b2c",
        "many": True,
        "alone": {},
        "edits": [],
        **numbers,
    }
    (outcome,) = data["outcomes"]
    assert (outcome["result"], outcome["reason"]["code"]) == ("waits", "braked")
    assert outcome["change"]["after"] == {"total_iops_sec": 250, "total_iops_sec_max": 400}, "what it waits for"


def test_a_report_says_which_word_of_cinder_it_stands_on() -> None:
    known = Catalogue(7, NOON - timedelta(minutes=3), "north")
    passed = PassReport(Scope(), replace(a_situation(), catalogue=known), 1.25, (changed(),), ())
    data = json.loads(json.dumps(views.report_data(passed)))
    assert data["catalogue"] == {
        "source": "north",
        "issued": "2026-11-20T11:57:00+00:00",
        "generation": 7,
        "edition": known.edition,
    }
    lost = replace(passed, situation=replace(passed.situation, catalogue=UNKNOWN))
    assert views.report_data(lost)["catalogue"] is None, "what nobody knows is not shown as something"


def test_a_held_disk_says_so_for_programs_too() -> None:
    held = because(Code.HOLD, why="import", by="ann", until="2026-11-20T13:00:00+00:00")
    wanted = Decision(Wants(AFTER, held), (), aside=Wants(BEFORE, RULE))
    data = json.loads(
        json.dumps(views.outcome_data(replace(changed(), decision=wanted, result=Result(Kind.RIGHT, held))))
    )
    assert data["wanted"] == {"total_iops_sec": 250, "total_iops_sec_max": 400}
    assert data["reason"] == {"code": "hold", "why": "import", "by": "ann", "until": "2026-11-20T13:00:00+00:00"}
