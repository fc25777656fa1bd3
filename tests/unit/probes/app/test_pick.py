"""Which guests of a node are to be probed, and what is said of those that could not be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import Unreachable
from plimsoll_agent.rules import loader
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.app.pick import Pick, pick
from tests.fakes import PROJECT, FakeGuest, FakeHypervisor, hangs, raising
from tests.unit.node import guest, uuid_of
from tests.unit.values import NOON

FSID = "4b5c8c0a-ff60-454b-a1b4-9747aa737d19"


def rule(match: str) -> str:
    return f"rules: [{{name: canaries, match: {{{match}}}, probe: {{every: 1h}}}}]"


BY_PROJECT = rule(f"project: [{PROJECT}]")


def found(hypervisor: FakeHypervisor, rules: str = BY_PROJECT, settings: Settings | None = None) -> Pick:
    here = settings or replace(config.load([], []), ceph=replace(config.load([], []).ceph, conf_files=()))
    return pick(hypervisor, here, loader.parse(rules, "rules.yaml"), NOON)


def names(picked_: Pick) -> list[str]:
    return [target.guest.name for target in picked_.chosen.targets]


def test_only_guests_that_a_rule_means_are_picked_and_all_are_known() -> None:
    stranger = replace(guest(2), project="0" * 32)
    told = found(FakeHypervisor(guest(1), stranger))
    assert names(told) == ["instance-00000001"]
    assert [one.name for one in told.guests] == ["instance-00000001", "instance-00000002"]
    assert list(told.complaints) == []


def test_a_guest_is_known_once_however_many_disks_it_has() -> None:
    assert len(found(FakeHypervisor(guest(1))).guests) == 1


def test_a_guest_whose_qemu_hangs_is_picked_all_the_same() -> None:
    hypervisor = FakeHypervisor(replace(guest(1), trouble=hangs()))
    assert names(found(hypervisor)) == ["instance-00000001"]
    assert set(hypervisor.calls) == {"guests", "look"}


def test_a_definition_that_cannot_be_read_costs_its_guest_only_and_is_said() -> None:
    told = found(FakeHypervisor(replace(guest(1), xml="<no xml"), guest(2)))
    assert names(told) == ["instance-00000002"]
    (line,) = told.complaints
    assert line.startswith("instance-00000001")


def test_a_guest_that_went_away_between_two_calls_costs_itself_only() -> None:
    hypervisor = FakeHypervisor(guest(1), guest(2))

    def leave() -> None:
        del hypervisor.by_uuid[uuid_of(1)]

    hypervisor.before["look"] = leave
    told = found(hypervisor)
    assert (names(told), len(told.unreachable)) == (["instance-00000002"], 1)


def test_an_unforeseen_error_in_a_guest_costs_it_only_and_is_called_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(FakeHypervisor):
        def _guest(self, uuid: str) -> FakeGuest:
            if uuid == uuid_of(1):
                raise RecursionError("nobody foresaw")
            return super()._guest(uuid)

    told = found(Odd(guest(1), guest(2)))
    assert names(told) == ["instance-00000002"]
    assert "this is a bug in plimsoll" in caplog.text


def test_without_a_list_of_guests_none_is_said_to_be_missing() -> None:
    hypervisor = FakeHypervisor(guest(1))
    hypervisor.before["guests"] = raising(Unreachable("libvirt is gone"))
    with pytest.raises(Unreachable):
        found(hypervisor)


def test_the_cluster_of_a_disk_is_known_by_its_monitors(tmp_path: Path) -> None:
    """Else no rule that names a cluster would ever choose a guest."""
    conf = tmp_path / "ceph.conf"
    conf.write_text(f"[global]\nfsid = {FSID}\nmon_host = 127.0.0.1\n")
    known = config.load([], [])
    settings = replace(known, ceph=replace(known.ceph, conf_files=(conf,)))
    by_cluster = rule(f"project: [{PROJECT}], cluster: [{FSID}]")
    assert names(found(FakeHypervisor(guest(1)), by_cluster, settings)) == ["instance-00000001"]


def test_a_rule_that_may_mean_a_guest_is_said_in_one_printable_line() -> None:
    odd = replace(guest(1), name="a\x9b2J\nb")
    told = found(FakeHypervisor(odd), rule(f"project: [{PROJECT}], cluster: [{FSID}]"))
    assert names(told) == []
    (line,) = told.complaints
    assert line.startswith("a?2J")
    assert 'rule "canaries"' in line
    assert line.isprintable()
