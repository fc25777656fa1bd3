"""The flavor as a source: of local disks, and of a volume that a guest boots from only where a rule says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.adapters.libvirt import domxml
from plimsoll_agent.catalogue.attachments import Attachments
from plimsoll_agent.catalogue.model import Catalogue
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Answer, Desired, NoOpinion, Unmanaged, decide
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.policy.sources.flavor import disk_quota
from plimsoll_agent.rules.model import Match, Rule
from plimsoll_agent.util.frozen import replace
from tests.unit.clouds import a_catalogue, a_server, a_spec, a_type, knowing, met
from tests.unit.values import GUEST, NOON, VOLUME, a_disk, a_guest

QUOTA = {"quota:disk_total_iops_sec": "500", "hw:cpu_policy": "shared"}
LIMITS, OLD = Limits(total_iops_sec=500), Limits(total_iops_sec=9)
ANYWHERE = Match(pool=("*",))
BOOT = Rule(name="boot", match=ANYWHERE, boot_volume_by_flavor=True)
DEFAULTS = Rule(name="all", match=ANYWHERE, limits=OLD)
LOST = Unknown(because(Code.CATALOGUE_UNREADABLE, detail="?"))


def local(specs: dict[str, str] | None = None, **other: object) -> Disk:
    guest = a_guest(extra_specs=specs, **other)
    return a_disk(guest, volume_id=None, image="disk", pool="vms", target="vda", root=True)


def root_volume(specs: dict[str, str] | None = None, *, root: bool = True, by_volume: bool = True) -> Disk:
    return a_disk(a_guest(extra_specs=specs, boots_from_volume=by_volume), target="vda", root=root)


def nova(disk: Disk, missing: bool = False, **specs: str) -> tuple[Catalogue, Attachments]:
    """Nova told the flavor of the disk's guest since that runs."""
    seen = met(disk)
    return a_catalogue(met=seen, servers={GUEST: a_server(seen, GUEST, missing, **specs)}), seen


def answer(
    disk: Disk,
    known: Catalogue | Unknown | None = None,
    seen: Attachments | None = None,
    *rules: Rule,
    asks: bool = True,
) -> Answer:
    *_, step = disk_quota(disk, knowing(known, met(disk) if seen is None else seen, *rules, asks_nova=asks))
    return step.answer


def desired(answer: Answer) -> Limits:
    assert isinstance(answer, Desired)
    assert answer.reason == because(Code.FLAVOR, flavor="m1.small")
    return answer.limits


def silence(answer: Answer) -> Code:
    assert isinstance(answer, NoOpinion)
    return answer.reason.code


# --- disks of the guest's own


@pytest.mark.parametrize("known", [None, LOST, a_catalogue()], ids=["nobody asked", "lost", "nothing of it"])
def test_what_the_definition_tells_counts_without_anybodys_word(known: Catalogue | Unknown | None) -> None:
    assert desired(answer(local(QUOTA), known)) == LIMITS


def test_the_definition_comes_before_nova() -> None:
    """Nova tells the flavor as it is now; the guest has the one that it was started with."""
    disk = local(QUOTA)
    without = local()
    known, seen = nova(without, disk_total_iops_sec="9000")
    assert desired(answer(disk, known, seen)) == LIMITS
    assert silence(answer(local({}), known, seen)) is Code.NO_QUOTA, "an empty definition says that there are none"


def test_nova_tells_the_flavor_where_the_definition_does_not() -> None:
    disk = local()
    assert desired(answer(disk, *nova(disk, disk_total_iops_sec="500"))) == LIMITS
    assert silence(answer(disk, *nova(disk))) is Code.NO_QUOTA


def test_what_nova_returned_for_an_earlier_run_does_not_count() -> None:
    """It may have been resized in between."""
    known, _ = nova(local(), disk_total_iops_sec="500")
    again = local(run="4")
    assert answer(again, known) == Unknown(because(Code.FLAVOR_NOT_FETCHED))


def test_a_flavor_that_nova_was_not_asked_for_is_unknown_and_gets_no_default() -> None:
    disk = local()
    for known, seen in ((a_catalogue(), met(disk)), (nova(disk)[0], Attachments())):
        assert answer(disk, known, seen) == Unknown(because(Code.FLAVOR_NOT_FETCHED))
        decision = decide(disk, knowing(known, seen, DEFAULTS), SOURCES)
        assert decision.desired == Unknown(because(Code.FLAVOR_NOT_FETCHED))


def test_a_guest_that_nova_does_not_show_has_no_flavor_to_be_free_of() -> None:
    disk = local()
    assert answer(disk, *nova(disk, missing=True)) == Unknown(because(Code.SERVER_MISSING))


def test_while_the_catalogue_is_lost_what_nova_would_have_told_is_unknown() -> None:
    assert answer(local(), LOST) == LOST


@pytest.mark.parametrize(("known", "asks"), [(None, True), (a_catalogue(), False), (LOST, False)])
def test_where_nova_is_not_to_be_asked_it_is_not_waited_for(known: Catalogue | Unknown | None, asks: bool) -> None:
    assert silence(answer(local(), known, asks=asks)) is Code.FLAVOR_UNKNOWN
    assert desired(answer(local(QUOTA), known, asks=asks)) == LIMITS


def test_a_guest_that_nova_did_not_make_has_no_flavor() -> None:
    strangers = local(display_name=None, project=None, project_name=None, flavor=None)
    assert silence(answer(strangers, a_catalogue())) is Code.NOT_BY_NOVA


def test_a_quota_that_libvirt_would_refuse_is_unknown() -> None:
    said = answer(local({"quota:disk_total_iops_sec": "many"}))
    assert isinstance(said, Unknown)
    assert said.reason.code is Code.QUOTA_UNREADABLE


def test_limits_that_a_disk_was_attached_with_give_way_to_the_flavor_and_outlive_its_silence() -> None:
    attached = replace(local(QUOTA), defined=OLD, actual=OLD)
    assert desired(decide(attached, knowing(None, Attachments()), SOURCES).desired) == LIMITS
    silent = replace(local({}), defined=OLD, actual=OLD)
    said = decide(silent, knowing(None, Attachments(), DEFAULTS), SOURCES).desired
    assert isinstance(said, Unmanaged)
    assert said.reason.code is Code.FOREIGN_LIMIT


def test_of_a_definition_that_nova_wrote_the_limits_are_novas() -> None:
    text = (Path(__file__).parents[3] / "data" / "24-scsi-flavor-quota-root.live.xml").read_text(encoding="utf-8")
    _, (own, *volumes) = domxml.parse(text)
    said = answer(own)
    assert isinstance(said, Desired)
    assert said.limits == own.defined == Limits(read_iops_sec=222, write_bytes_sec=5242880)
    assert {silence(answer(disk)) for disk in volumes} == {Code.NOT_FOR_VOLUMES}, "as Nova does it"


# --- volumes


@pytest.mark.parametrize(
    "disk",
    [root_volume(QUOTA, root=False), root_volume(QUOTA, by_volume=False), root_volume(QUOTA)],
    ids=["data volume", "boots from an image", "no rule"],
)
def test_a_volume_gets_nothing_of_the_flavor(disk: Disk) -> None:
    elsewhere = replace(BOOT, match=Match(pool=("elsewhere",)))
    ended = replace(BOOT, until=NOON)
    rules = (BOOT,) if not (disk.root and disk.guest.boots_from_volume) else (DEFAULTS, elsewhere, ended)
    assert silence(answer(disk, a_catalogue(), None, *rules)) is Code.NOT_FOR_VOLUMES


def test_a_volume_that_the_guest_boots_from_gets_the_flavors_limits_where_a_rule_says_so() -> None:
    disk = root_volume(QUOTA)
    assert desired(answer(disk, a_catalogue(), None, DEFAULTS, BOOT)) == LIMITS
    untold = root_volume()
    assert desired(answer(untold, *nova(untold, disk_total_iops_sec="500"), BOOT)) == LIMITS


def test_a_rule_for_one_cluster_leaves_a_boot_volume_of_an_unknown_cluster_alone() -> None:
    rule = replace(BOOT, match=Match(cluster=("bcebd1ee-e0de-43ae-9dbe-a7fd9e23a0d7",)))
    said = answer(replace(root_volume(QUOTA), monitors=("10.0.0.1:6789",)), a_catalogue(), None, rule)
    assert said == Unknown(because(Code.CLUSTER_UNKNOWN, monitors="10.0.0.1:6789"))


GOLD = a_spec("gold", total_iops_sec="3000")


@pytest.mark.parametrize(
    ("spec", "limits"),
    [(GOLD, Limits(total_iops_sec=3000)), (a_spec("free", total_iops_sec="0"), Limits()), (None, LIMITS)],
    ids=["spec", "unlimited by spec", "no spec"],
)
def test_a_boot_volume_asks_cinder_first(spec: QosSpec | None, limits: Limits) -> None:
    disk = root_volume(QUOTA)
    of = a_type("any", spec)
    known = a_catalogue(*([spec] if spec else []), types=[of], volumes={VOLUME: of}, met=met(disk))
    said = decide(disk, knowing(known, met(disk), BOOT, DEFAULTS), SOURCES).desired
    assert isinstance(said, Desired)
    assert said.limits == limits


def test_while_cinder_has_not_told_a_boot_volume_gets_nothing_of_the_flavor() -> None:
    disk = root_volume(QUOTA)
    said = decide(disk, knowing(a_catalogue(), met(disk), BOOT), SOURCES).desired
    assert isinstance(said, Unknown)
    assert said.reason.code is Code.VOLUME_NOT_FETCHED


def test_while_cinder_is_not_asked_attach_time_limits_of_a_boot_volume_are_left_alone() -> None:
    """They may be its QoS spec's, which comes before the flavor."""
    disk = replace(root_volume(QUOTA), defined=OLD, actual=OLD)
    said = decide(disk, knowing(None, Attachments(), BOOT), SOURCES).desired
    assert isinstance(said, Unmanaged)
    assert said.reason.code is Code.FOREIGN_LIMIT
