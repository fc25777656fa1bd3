"""Cinder as a source: each answer, and that what nobody knows is never taken for "no limit"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.adapters.libvirt import domxml
from plimsoll_agent.catalogue.attachments import Attachments
from plimsoll_agent.catalogue.model import Catalogue, VolumeType
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.messages.sentences import step_lines
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Answer, Decision, Desired, NoOpinion, decide
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.policy.sources.cinder import per_gib, qos_spec
from plimsoll_agent.rules.model import Match, Rule
from plimsoll_agent.util.frozen import replace
from tests.unit.clouds import a_catalogue, a_spec, a_type, knowing, met
from tests.unit.values import NOON, VOLUME, a_disk, a_guest

GIB = 2**30
DISK = a_disk()
HERE = met(DISK)
FIXED = a_spec("gold-iops", total_iops_sec="3000")
PER_GB = a_spec("gold-iops", total_iops_sec_per_gb="30", total_iops_sec_per_gb_min="500")
HOLD = Limits(total_iops_sec=7)
DEFAULTS = Rule(name="all", match=Match(pool=("*",)), limits=HOLD)


def cloud(spec: QosSpec | None = FIXED, *, seen: Attachments = HERE, **other: Any) -> Catalogue:
    """The volume has the type gold, and that this spec."""
    gold = a_type("gold", spec)
    specs = () if spec is None else (spec,)
    given: dict[str, Any] = {"types": [gold], "volumes": {VOLUME: gold}, "met": seen} | other
    return a_catalogue(*specs, **given)


def answer(known: Catalogue | Unknown | None, disk: Disk = DISK, seen: Attachments = HERE) -> Answer:
    (step,) = qos_spec(disk, knowing(known, seen))
    assert step.asked == "Cinder"
    return step.answer


def desired(known: Catalogue, disk: Disk = DISK) -> Limits:
    said = answer(known, disk)
    assert isinstance(said, Desired)
    return said.limits


@pytest.mark.parametrize("applied", [None, Limits(total_iops_sec=3000)])
def test_attach_time_limits_that_a_catalogue_overrules_stand_in_the_trail(applied: Limits | None) -> None:
    """With a catalogue the default may cut such a volume: who asks why must see what was not kept."""
    had = Limits(total_iops_sec=3000)
    disk = a_disk(defined=had, actual=had)
    situation = knowing(cloud(None, seen=met(disk)), met(disk), DEFAULTS)
    if applied is not None:
        mine = Remembered(desired=HOLD, since=NOON, seen=NOON, applied=applied, attachment=disk.attachment)
        situation = replace(situation, memory={disk.key: mine})
    decision = decide(disk, situation, SOURCES)
    assert isinstance(decision.desired, Desired)
    overruled = because(Code.ATTACH_TIME_OVERRULED, limits={"total_iops_sec": 3000})
    found = [step.answer.reason for step in decision.trail if step.asked == "attached with"]
    assert found == ([overruled] if applied is None else [])


def silent(known: Catalogue | None, disk: Disk = DISK) -> Code:
    said = answer(known, disk)
    assert isinstance(said, NoOpinion)
    return said.reason.code


def unknown(known: Catalogue | Unknown, disk: Disk = DISK, seen: Attachments = HERE) -> Code:
    """The code; and that no rule is asked after it."""
    said = answer(known, disk, seen)
    assert isinstance(said, Unknown)
    decision = decide(disk, knowing(known, seen, DEFAULTS), SOURCES)
    assert decision.desired == said, "unknown ends the question"
    return said.reason.code


def decided(known: Catalogue, *rules: Rule, disk: Disk = DISK) -> Decision:
    return decide(disk, knowing(known, HERE, *rules), SOURCES)


# --- whom nobody asks


def test_while_no_service_is_to_be_asked_cinder_has_no_opinion() -> None:
    assert silent(None) is Code.NO_CATALOGUE_SOURCE


def test_a_disk_of_the_guests_own_is_none_of_cinders() -> None:
    """Whatever the catalogue's state is: an outage of Cinder must cost no local disk."""
    own = a_disk(volume_id=None, image="disk")
    assert silent(cloud(), own) is Code.NO_VOLUME
    gone = answer(Unknown(because(Code.CATALOGUE_UNREADABLE, detail="?")), own)
    assert gone == NoOpinion(because(Code.NO_VOLUME))


# --- what nobody knows


@pytest.mark.parametrize("code", [Code.NO_CATALOGUE, Code.CATALOGUE_UNREADABLE, Code.CATALOGUE_EXPIRED])
def test_without_a_catalogue_nothing_is_known(code: Code) -> None:
    assert unknown(Unknown(because(code, detail="?"))) is code


@pytest.mark.parametrize(
    ("known", "seen"),
    [
        (cloud(volumes={}), HERE),
        (cloud(seen=met(replace(DISK, node="9"))), HERE),
        (cloud(seen=met(replace(DISK, guest=a_guest(run="4")))), HERE),
        (cloud(seen=Attachments()), HERE),
        (cloud(), Attachments()),
    ],
    ids=["no entry", "another attachment", "another run", "asked for none", "never met"],
)
def test_a_type_of_another_attachment_does_not_count(known: Catalogue, seen: Attachments) -> None:
    """Detached, given another type and attached again, a volume must not get the old type's limits."""
    assert unknown(known, seen=seen) is Code.VOLUME_NOT_FETCHED


def test_a_volume_that_was_not_asked_for_is_said_since_when() -> None:
    said = answer(cloud(volumes={}))
    assert said == Unknown(because(Code.VOLUME_NOT_FETCHED, since=NOON.isoformat()))


def test_a_volume_that_cinder_does_not_show_is_unknown_whatever_its_entry_says() -> None:
    known = cloud()
    gone = {VOLUME: replace(known.volumes[VOLUME], missing=True)}
    assert unknown(replace(known, volumes=gone)) is Code.VOLUME_MISSING
    untyped = {VOLUME: replace(known.volumes[VOLUME], missing=True, type=None)}
    assert unknown(replace(known, volumes=untyped)) is Code.VOLUME_MISSING


def test_a_type_that_is_not_listed_is_unknown() -> None:
    said = answer(cloud(types=[]))
    assert said == Unknown(because(Code.TYPE_NOT_LISTED, id="id-of-gold"))
    assert unknown(cloud(types=[])) is Code.TYPE_NOT_LISTED


def test_a_spec_that_policy_hides_is_not_taken_for_none() -> None:
    hidden = VolumeType(id="id-of-gold", name="gold", qos_spec=None, hidden=True)
    assert unknown(cloud(None, types=[hidden])) is Code.SPEC_HIDDEN


def test_a_spec_that_is_not_listed_is_unknown() -> None:
    said = answer(cloud(specs={}))
    assert said == Unknown(because(Code.SPEC_NOT_LISTED, type="gold", id="id-of-gold-iops"))
    assert unknown(cloud(specs={})) is Code.SPEC_NOT_LISTED


def test_a_spec_that_would_be_refused_is_unknown() -> None:
    odd = a_spec("gold-iops", total_iops_sec="30", read_iops_sec="30")
    assert unknown(cloud(odd)) is Code.QOS_SPEC_UNREADABLE


def test_limits_per_gib_of_a_disk_whose_size_is_unknown_are_unknown() -> None:
    assert unknown(cloud(PER_GB)) is Code.SIZE_UNKNOWN
    assert desired(cloud(FIXED)) == Limits(total_iops_sec=3000), "others do not hang on it"


def test_nothing_per_gib_of_no_size_is_not_unlimited() -> None:
    assert unknown(cloud(a_spec("odd", total_iops_sec_per_gb="30")), a_disk(size=0)) is Code.QOS_SPEC_UNREADABLE


# --- what Cinder says has no limit


@pytest.mark.parametrize(
    ("known", "code"),
    [
        (cloud(volumes={VOLUME: None}), Code.NO_VOLUME_TYPE),
        (cloud(None), Code.NO_QOS_SPEC),
        (cloud(a_spec("gold-iops", "back-end", total_iops_sec="3000")), Code.SPEC_FOR_BACK_END),
        (cloud(a_spec("gold-iops", "a consumer of another time", total_iops_sec="3000")), Code.SPEC_FOR_BACK_END),
        (cloud(a_spec("gold-iops")), Code.SPEC_WITHOUT_LIMITS),
        (cloud(a_spec("gold-iops", total_iop_sec="3000")), Code.SPEC_WITHOUT_LIMITS),
        (cloud(a_spec("gold-iops", total_iops_sec_max_length="30")), Code.SPEC_WITHOUT_LIMITS),
        (cloud(a_spec("gold-iops", total_iops_sec=None)), Code.SPEC_WITHOUT_LIMITS),
    ],
    ids=["no type", "no spec", "back-end", "other consumer", "no key", "misspelt", "not Nova's", "null"],
)
def test_where_cinder_limits_nothing_the_next_source_is_asked(known: Catalogue, code: Code) -> None:
    assert silent(known) is code
    after = decided(known, DEFAULTS).desired
    assert isinstance(after, Desired)
    assert after.limits == HOLD
    assert decided(known).desired.reason.code is Code.NO_LIMIT, "silence releases nothing"


def test_limits_that_a_volume_was_attached_with_do_not_outlive_the_word_of_cinder() -> None:
    """They are Nova's, from a spec that was taken off the type since."""
    old = a_disk(defined=Limits(total_iops_sec=3000), actual=Limits(total_iops_sec=3000))
    desired = decided(cloud(None), DEFAULTS, disk=old).desired
    assert isinstance(desired, Desired)
    assert desired.limits == HOLD


def test_an_explicit_0_says_unlimited_aloud_and_no_default_comes_after_it() -> None:
    """A type that is to be free of limits says so; another that is misspelt must not be."""
    free = decided(cloud(a_spec("free", total_iops_sec="0")), DEFAULTS).desired
    assert isinstance(free, Desired)
    assert (free.limits, free.reason.code) == (Limits(), Code.QOS_SPEC)


# --- limits


@pytest.mark.parametrize("consumer", ["front-end", "both"])
def test_a_spec_for_qemu_is_applied_and_says_where_it_comes_from(consumer: str) -> None:
    spec = a_spec("gold-iops", consumer, total_iops_sec="3000", total_bytes_sec="104857600")
    assert answer(cloud(spec)) == Desired(
        Limits(total_iops_sec=3000, total_bytes_sec=104857600),
        because(Code.QOS_SPEC, type="gold", spec="gold-iops", consumer=consumer),
    )


@pytest.mark.parametrize(
    ("size", "gib", "rate"),
    [
        (100 * GIB, 100, 3000),
        (100 * GIB - 2 * 2**20, 100, 3000),  # LUKS1
        (100 * GIB - 16 * 2**20, 100, 3000),  # LUKS2
        (100 * GIB + 1, 101, 3030),
        (1, 1, 500),
    ],
    ids=["whole", "behind a LUKS header", "behind a LUKS2 header", "a byte more", "less than 1 GiB"],
)
def test_limits_per_gib_count_the_gib_that_cinder_counts(size: int, gib: int, rate: int) -> None:
    said = answer(cloud(PER_GB), a_disk(size=size, encrypted=size % GIB > 1))
    assert isinstance(said, Desired)
    assert said.limits == Limits(total_iops_sec=rate)
    row = {"parameter": "total_iops_sec", "per_gb": 30, "gib": gib, "minimum": 500, "maximum": None, "result": rate}
    assert said.reason.facts["gib"] == gib
    assert said.reason.facts["arithmetic"] == [row], "plain values: they go into the record"


def test_each_attachment_of_a_multi_attached_volume_is_limited_alone() -> None:
    one = a_disk(shareable=True)
    two = replace(one, guest=a_guest(uuid="2ebc1454-0d31-4367-8c90-06e18daa66f9", run="8"))
    both = met(one, two)
    known = cloud(seen=both)
    assert [answer(known, disk, both) for disk in (one, two)] == [answer(cloud())] * 2
    only_one = cloud(seen=met(one))
    assert isinstance(answer(only_one, one, both), Desired)
    assert isinstance(answer(only_one, two, both), Unknown), "nobody asked since that one was met"


def test_a_volume_is_the_one_of_its_serial_whatever_its_image_is_called() -> None:
    """After a migration between back-ends the image keeps the id of the volume that was made for it."""
    other = "00000000-0000-4000-8000-000000000000"
    moved = a_disk(image=f"volume-{other}")
    seen, slow = met(moved), a_spec("slow", total_iops_sec="1")
    types = [a_type("gold", FIXED), a_type("bronze", slow)]
    known = a_catalogue(FIXED, slow, types=types, volumes={VOLUME: types[0], other: types[1]}, met=seen)
    said = answer(known, moved, seen)
    assert isinstance(said, Desired)
    assert said.reason.facts["type"] == "gold"


def test_the_limits_are_those_that_nova_wrote_for_the_same_specs() -> None:
    """Two volumes of one guest, 1 and 4 GiB, as a real Cinder and Nova attached them."""
    text = (Path(__file__).parents[3] / "data" / "attached" / "02-pergb-attached-4g.live.xml").read_text(
        encoding="utf-8"
    )
    _, (_, gold, sized) = domxml.parse(text)
    sized = replace(sized, size=4 * GIB)
    fixed = a_spec(
        "gold",
        total_bytes_sec="20971520",
        read_iops_sec="500",
        write_iops_sec="400",
        read_iops_sec_max="1000",
        write_iops_sec_max="800",
    )
    per_gb = a_spec(
        "pergb-rbd",
        "both",
        total_iops_sec_per_gb="30",
        total_iops_sec_per_gb_min="100",
        total_bytes_sec_per_gb="1048576",
    )
    types = [a_type("gold", fixed), a_type("pergb", per_gb)]
    volumes = {str(disk.volume_id): of for disk, of in zip((gold, sized), types, strict=True)}
    known = a_catalogue(fixed, per_gb, types=types, volumes=volumes, met=met(gold, sized))
    said = [answer(known, disk, met(gold, sized)) for disk in (gold, sized)]
    assert [isinstance(one, Desired) and one.limits for one in said] == [gold.defined, sized.defined]


# --- whose sizes are asked


@pytest.mark.parametrize(
    ("known", "asks"),
    [
        (cloud(PER_GB), True),
        (cloud(FIXED), False),
        (cloud(None), False),
        (cloud(PER_GB, volumes={}), False),
        (cloud(PER_GB, types=[]), False),
        (cloud(PER_GB, specs={}), False),
        (Unknown(because(Code.NO_CATALOGUE, detail="?")), False),
        (None, False),
    ],
)
def test_a_size_is_asked_only_where_limits_depend_on_it(known: Catalogue | Unknown | None, asks: bool) -> None:
    assert per_gib(DISK, known) is asks
    assert not per_gib(a_disk(volume_id=None), known)


# --- among the other sources

CEILING = Rule(name="night", match=Match(pool=("*",)), ceiling=Limits(total_iops_sec=2000))


def test_the_spec_comes_after_an_override_and_before_plain_rules() -> None:
    override = Rule(name="now", match=Match(pool=("*",)), limits=HOLD, override=True)
    by_rule, by_spec = decided(cloud(), override).desired, decided(cloud(), DEFAULTS).desired
    assert isinstance(by_rule, Desired)
    assert isinstance(by_spec, Desired)
    assert (by_rule.limits, by_spec.limits) == (HOLD, Limits(total_iops_sec=3000))
    assert decided(cloud(volumes={}), override).desired == by_rule, "who overrides does not ask Cinder"


def test_a_spec_that_a_rule_caps_is_still_said_to_be_the_specs_and_reckoned_once() -> None:
    """The chain is read from above: type, spec, arithmetic, limits, and then what the rule made of them."""
    sized = a_disk(size=100 * GIB)
    situation = knowing(cloud(PER_GB), HERE, CEILING)
    decision = decide(sized, situation, SOURCES)
    assert isinstance(decision.desired, Desired)
    assert decision.desired.limits == Limits(total_iops_sec=2000)
    assert decision.desired.reason.facts["ceiling"] == "night"
    lines = [line for step in decision.trail for line in step_lines(step, situation)]
    assert [asked for asked, _ in lines] == ["Cinder", "", "", 'ceiling of rule "night"']
    assert lines[-1][1] == "2000 IOPS"


def test_the_spec_of_a_volume_that_the_guest_boots_from_comes_before_its_flavor() -> None:
    root = a_disk(a_guest(boots_from_volume=True, extra_specs={"quota:disk_total_iops_sec": "9"}), root=True)
    rule = Rule(name="boot", match=Match(pool=("*",)), boot_volume_by_flavor=True)
    said = decide(root, knowing(cloud(seen=met(root)), met(root), rule), SOURCES).desired
    assert isinstance(said, Desired)
    assert said.limits == Limits(total_iops_sec=3000)
