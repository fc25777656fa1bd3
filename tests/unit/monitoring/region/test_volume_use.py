"""Names of servers beside what their volumes did; what volumes did is tested by a real Prometheus."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.errors import DeadlineExceeded
from plimsoll_agent.model.impact import Impact
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.qos.cinder import AttachedVolume
from plimsoll_agent.qos.effects import Cut, VolumeImpact
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.cli.qos import QosPlan
from plimsoll_monitoring.region import volume_use
from plimsoll_monitoring.region.answers import Series
from tests.fakes import raising
from tests.unit.person import Person

IMPACT = Impact(seconds=3600.0, share=0.5, base="total_iops_sec", present=10.0)


def test_a_server_of_which_nodes_tell_two_names_has_one_and_no_query_that_prometheus_refuses() -> None:
    def ask(promql: str) -> Sequence[Series]:
        assert "group_left" not in promql
        if promql.startswith("group by (uuid, volume)"):
            return [Series({"uuid": "u1", "volume": "v1"}, 1), Series({"uuid": "u2", "volume": "v2"}, 1)]
        return [Series({"uuid": "u1", "server": name}, 1) for name in ("web-1", "")]

    assert volume_use.guests_of(ask, ["v1", "v2"]) == {"v1": "web-1"}


def test_what_volumes_did_is_told_though_the_names_of_their_servers_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(volume_use, "impacts", lambda *_: {"v1": IMPACT})
    monkeypatch.setattr(volume_use, "guests_of", raising(DeadlineExceeded("no answer")))
    cut = Cut(AttachedVolume(id="v1", type="gold", gib=1), Limits(), Limits(total_iops_sec=25))
    seen: list[VolumeImpact] = []

    class Plan(QosPlan):
        def take_action(self, parsed_args: object) -> int:
            settings = config.load([], [])
            settings = replace(settings, prometheus=replace(settings.prometheus, url="http://127.0.0.1:9"))
            seen.extend(self.impacts(parsed_args, settings, [cut]))  # type: ignore[arg-type]
            return 0

    person = Person()
    person.types(Plan, "qos.yaml")
    assert [each.impact for each in seen] == [IMPACT]
    assert "no answer; servers of volumes are unknown" in person.err
