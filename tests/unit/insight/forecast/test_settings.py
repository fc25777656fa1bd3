"""What running OSDs have in force, for a forecast."""

from __future__ import annotations

import json

import pytest

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.forecast import settings
from plimsoll_insight.forecast.ranges import Range, exactly

# As osd.1 of a Pacific with defaults had them.
DEFAULTS = {
    "osd_recovery_max_active": "0", "osd_recovery_max_active_hdd": "3", "osd_recovery_max_active_ssd": "10",
    "osd_recovery_sleep": "0.000000", "osd_recovery_sleep_hdd": "0.100000",
    "osd_recovery_sleep_hybrid": "0.025000", "osd_recovery_sleep_ssd": "0.000000",
    "osd_max_backfills": "1", "osd_heartbeat_grace": "20", "osd_heartbeat_interval": "6", "osd_op_queue": "wpq",
    "osd_memory_target": "4294967296", "osd_target_pg_log_entries_per_osd": "300000",
    "osd_max_pg_log_entries": "10000", "osd_min_pg_log_entries": "250",
}  # fmt: skip


def osd(disk: str = "1", journal: str = "1", **changed: str) -> settings.OsdSettings:
    shown = [{"name": name, "value": value, "source": "default"} for name, value in (DEFAULTS | changed).items()]
    metadata = {"id": 1, "rotational": disk, "journal_rotational": journal}
    return settings.osd(json.dumps(shown), json.dumps(metadata), 1)


@pytest.mark.parametrize(
    ("disk", "journal", "active", "sleep"),
    [("1", "1", 3, 0.1), ("1", "0", 3, 0.025), ("0", "0", 10, 0)],
)
def test_what_is_not_set_depends_on_the_device(disk: str, journal: str, active: float, sleep: float) -> None:
    found = osd(disk, journal)
    assert (found.active, found.sleep) == (active, sleep)
    set_for_all = osd(disk, journal, osd_recovery_max_active="2", osd_recovery_sleep="0.5")
    assert (set_for_all.active, set_for_all.sleep) == (2, 0.5)


@pytest.mark.parametrize(("disk", "journal", "sleep"), [("1", "1", 0.3), ("1", "0", 0.2), ("0", "0", 0.1)])
def test_where_there_is_a_sleep_for_missing_copies_the_other_does_not_count(
    disk: str, journal: str, sleep: float
) -> None:
    name = "osd_recovery_sleep_degraded"
    own = {f"{name}_hdd": "0.3", f"{name}_hybrid": "0.2", f"{name}_ssd": "0.1"}
    assert osd(disk, journal, osd_recovery_sleep="9", **{name: "0.0"}, **own).sleep == sleep
    assert osd(disk, journal, **{name: "0.5"}, **own).sleep == 0.5


def test_osds_that_differ_give_ranges() -> None:
    known = settings.known_by([osd(), osd("0", "0", osd_max_backfills="4")], Range(100, 300))
    assert (known.recovery_active, known.recovery_sleep) == (Range(3, 10), Range(0, 0.1))
    assert (known.max_backfills, known.osd_memory) == (Range(1, 4), exactly(4 << 30))
    assert known.log_entries == Range(1000, 3000)
    # From the grace on; an interval and the ticks of OSDs and monitors may come to it.
    assert known.detect == Range(20, 29)


def test_each_device_class_is_asked() -> None:
    kinds = {osd: "hdd" if osd < 40 else "ssd" for osd in range(50)}
    assert settings.sample(range(50), kinds) == [0, 20, 39, 40, 45, 49]
    assert (settings.sample([7, 3], {}), settings.sample([], kinds)) == ([3, 7], [])


def test_of_a_nautilus_without_a_budget_of_logs_the_rest_is_known() -> None:
    nautilus = osd(osd_recovery_max_active="3", osd_max_pg_log_entries="9000", osd_min_pg_log_entries="3000")
    values = {name: value for name, value in nautilus.values.items() if "target_pg_log" not in name}
    known = settings.known_by([replace(nautilus, values=values)], Range(100, 300))
    assert (known.recovery_active, known.log_entries) == (exactly(3), exactly(9000))


def test_a_setting_that_is_not_there_is_named_and_no_zero() -> None:
    with pytest.raises(settings.UnreadableSettings, match="no number for osd_max_backfills"):
        settings.known_by([osd(osd_max_backfills="")], None)


def test_the_status_tells_later_by_the_periods_of_reports() -> None:
    assert (settings.usual().peering, settings.usual().status_delay) == (Range(1, 10), Range(0, 7))
    assert settings.status_delay({"mgr_stats_period": "2", "mgr_tick_period": "1"}) == Range(0, 3)


def counted(count: int, total: float, down: float = 0.0, writes: int = 1488) -> settings.Counters:
    """Of an OSD that peered so many times, in so many seconds of all, and waited so long for OSDs that were down."""

    def counter(sum_: float) -> dict[str, float]:
        return {"avgcount": count, "sum": sum_, "avgtime": 0.0}

    states = {"peering": total + down, "getinfo": 0.01 * total, "getlog": 0.0, "getmissing": 0.01 * total}
    states |= {"waitupthru": 0.98 * total, "down": down, "incomplete": 0.0}
    told = {
        "osd": {"op_w_latency": {"avgcount": writes, "sum": 15.568 if writes else 0.0, "avgtime": 0.0}},
        "recoverystate_perf": {f"{name}_latency": counter(sum_) for name, sum_ in states.items()},
    }
    return settings.counters(json.dumps(told), 1)


def test_what_osds_counted_is_a_range_of_their_means() -> None:
    # 25 placement groups of an OSD of the lab took 21.59 s. The last of all may take twice as long.
    known = settings.measured_by([counted(25, 21.59), counted(10, 4.0)])
    assert known.peering is not None
    assert known.write_latency == exactly(15.568 / 1488)
    assert (known.peering.low, known.peering.high) == pytest.approx((0.4, 2 * 21.59 / 25))


def test_the_time_that_groups_waited_for_an_osd_that_was_down_is_no_peering() -> None:
    known = settings.measured_by([counted(10, 4.0, down=3600.0)])
    assert known.peering is not None
    assert (known.peering.low, known.peering.high) == pytest.approx((0.4, 0.8))


def test_what_no_osd_counted_is_unknown_and_not_zero() -> None:
    assert settings.measured_by([counted(0, 0.0)]).peering is None
    known = settings.measured_by([counted(0, 0.0), counted(10, 4.0)])
    assert known.peering is not None
    assert (known.peering.low, known.peering.high) == pytest.approx((0.4, 0.8))
    assert settings.measured_by([counted(10, 4.0, writes=0)]).write_latency is None
    assert settings.measured_by([]).write_latency is None


@pytest.mark.parametrize("damaged", ["", "1", "[1]", '[{"name": "a"}]'])
def test_answers_that_are_not_understood_are_one_error(damaged: str) -> None:
    for read in (settings.values, lambda text, _: settings.osd("[]", text, 1), settings.counters):
        with pytest.raises(settings.UnreadableSettings):
            read(damaged, 1)  # type: ignore[operator]
