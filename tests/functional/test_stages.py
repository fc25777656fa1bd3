"""Stages of an approval: judged by a real Prometheus, published by the machine that signs, seen by two nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.model import Lists, VolumeType
from plimsoll_agent.catalogue.orders import Of, RegionApproval
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.catalogue.stages import StageCheck, Stages, position
from plimsoll_agent.errors import Unreachable
from plimsoll_agent.monitor import metrics
from plimsoll_agent.reconcile.health_gate import BLOCKING_CHECKS, BlockingCheck
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.region.stages import findings
from tests.functional import cloudserver
from tests.functional.conftest import Ran
from tests.functional.test_region import RegionalNode, cloud, digest_in, edit, node, published, volume
from tests.simulated_region import Served, prometheus_of

__all__ = ["cloud", "node"]
BEFORE = 1000
"""Seconds that Prometheus has before the stage began."""
JUDGED = tuple(one for one in StageCheck if one not in {StageCheck.APPROVED, StageCheck.RUNNING})
Values = Callable[[int], float | None]
"""A value by the seconds since the stage began (before it: negative); None is a gap."""
Region = dict[str, Values]
"""Its series, by name and labels but for the region."""


def always(value: float) -> Values:
    return lambda _: value


def since(value: float, before: float = 0, at: int = 0) -> Values:
    return lambda second: value if second >= at else before


def of_node(name: str, place: float, *, has: bool, start: float) -> Region:
    own = f'instance="{name}"'
    runs = f'{metrics.PROBE_RUNS_TOTAL}{{{own},volume_type="gold",probe="write"'
    disks = f'{metrics.DISKS}{{{own},volume_type="gold"'
    return {
        **({f'{metrics.STAGE_IN_EFFECT}{{{own},approval="APPROVAL"': since(1)} if has else {}),
        f"{metrics.STAGE_POSITION}{{{own}": always(place),
        f"{metrics.PASS_OBSERVED_TIMESTAMP_SECONDS}{{{own}": lambda second: start + second,
        f"{metrics.PASS_LAST_TIMESTAMP_SECONDS}{{{own}": lambda second: start + second,
        f'{metrics.DISK_INFO}{{{own},uuid="g-{name}",target_device="vda",project="p",volume_type="gold"': always(1),
        f"{metrics.PASS_ENFORCING}{{{own}": always(1),
        f"{metrics.PASS_PAUSED}{{{own}": always(0),
        f'{disks},state="in-sync"': always(10),
        f'{disks},state="failed"': always(0),
        f'{disks},state="left-alone"': always(90),
        f'{metrics.DISKS_AT_LIMIT}{{{own},volume_type="gold"': always(31),
        f'{metrics.DISKS_LEFT_ALONE_AT_LIMIT}{{{own},volume_type="gold"': always(30),
        f'{runs},verdict="kept"': lambda second: 5 + max(0, second // 30),
        f'{runs},verdict="short"': always(2),
        f'{metrics.EXTERNAL_CHANGES_REVERTED_TOTAL}{{{own},volume_type="gold"': always(7),
        f'{metrics.HEALTH_GATE_SHUT}{{{own},cluster="c"': always(0),
    }


def region(start: float) -> Region:
    """Two nodes of the stage, where all is well, and one of a later stage, where nothing is."""
    bad = of_node("late", 60, has=False, start=start)
    bad |= {series: since(9) for series in bad if metrics.DISKS_AT_LIMIT in series or "failed" in series}
    ceph = {
        f'{name}{{cluster="c"{labels}': always(value)
        for name, labels, value in (
            ("ceph_health_status", "", 1),
            ("ceph_health_detail", ',name="SLOW_OPS"', 0),
            ("ceph_health_detail", ',name="OSD_DOWN"', 0),
            ("ceph_health_detail", ',name="POOL_NEAR_FULL"', 1),
        )
    }
    return of_node("n1", 0.2, has=True, start=start) | of_node("n2", 0.7, has=True, start=start) | bad | ceph


def but(part: str, values: Values | None) -> Callable[[Region], Region]:
    """Those with this in their name and labels have other values, or are missing."""

    def changed(region: Region) -> Region:
        names = [series for series in region if part in series]
        assert names, part
        rest = {series: of for series, of in region.items() if series not in names}
        return rest if values is None else rest | dict.fromkeys(names, values)

    return changed


NAN = float("nan")
N1 = 'instance="n1"'
SHORT = f'{metrics.PROBE_RUNS_TOTAL}{{{N1},volume_type="gold",probe="write",verdict="short"'
FAILED = f'{metrics.DISKS}{{{N1},volume_type="gold",state="failed"'
AT_LIMIT = f"{metrics.DISKS_AT_LIMIT}{{{N1}"
LEFT_ALONE_AT_LIMIT = f"{metrics.DISKS_LEFT_ALONE_AT_LIMIT}{{{N1}"
REVERTS = f"{metrics.EXTERNAL_CHANGES_REVERTED_TOTAL}{{{N1}"
OSDS: Region = {
    f'ceph_osd_{what}{{cluster="c",ceph_daemon="osd.{number}"': always(1)
    for what in ("up", "in")
    for number in range(200)
}


def osds(*down: int, out: Iterable[int] = ()) -> Region:
    states = (("up", (*down, *out)), ("in", out))
    return OSDS | {
        f'ceph_osd_{what}{{cluster="c",ceph_daemon="osd.{number}"': always(0)
        for what, those in states
        for number in those
    }


NO, UNKNOWN = False, None
CASES: Mapping[str, tuple[Callable[[Region], Region], Mapping[StageCheck, bool | None]]] = {
    "all-is-well": (lambda region: region, {}),
    "a-disk-more-at-its-limit": (but(AT_LIMIT, since(32, 31)), {}),
    "disks-at-their-limits": (but(AT_LIMIT, since(35, 31)), {StageCheck.AT_LIMIT: NO}),
    "at-their-limits-before-too": (but(AT_LIMIT, always(35)), {}),
    "no-averages-of-disks-that-are-left-alone": (but(LEFT_ALONE_AT_LIMIT, None), {StageCheck.AT_LIMIT: UNKNOWN}),
    "no-averages": (but(AT_LIMIT, None), {StageCheck.AT_LIMIT: UNKNOWN}),
    "averages-that-are-no-numbers": (but(AT_LIMIT, always(NAN)), {StageCheck.AT_LIMIT: UNKNOWN}),
    "no-averages-before": (but(AT_LIMIT, lambda second: 31 if second >= 0 else None), {StageCheck.AT_LIMIT: UNKNOWN}),
    "hardly-any-averages-now": (
        but(LEFT_ALONE_AT_LIMIT, lambda second: 30 if second < 0 or second > 500 else None),
        {StageCheck.AT_LIMIT: UNKNOWN},
    ),
    "a-node-that-was-upgraded-a-moment-before": (
        but(LEFT_ALONE_AT_LIMIT, lambda second: 30 if second > -120 else None),
        {StageCheck.AT_LIMIT: UNKNOWN},
    ),
    "all-disks-left-alone-before": (but('state="in-sync"', since(10, at=1)), {StageCheck.AT_LIMIT: NO}),
    "a-broken-promise": (but(SHORT, since(3, 2, at=60)), {StageCheck.VERDICTS: NO}),
    "the-first-broken-promise-ever": (
        but(SHORT, lambda second: 1 if second > 120 else None),
        {StageCheck.VERDICTS: NO},
    ),
    "no-probe-ended": (but('verdict="kept"', always(5)), {StageCheck.VERDICTS: UNKNOWN}),
    "no-probe-ended-and-none-scraped-as-the-stage-began": (
        but('verdict="kept"', lambda second: None if -400 < second < 60 else 5),
        {StageCheck.VERDICTS: UNKNOWN},
    ),
    "no-probes": (but(metrics.PROBE_RUNS_TOTAL, None), {StageCheck.VERDICTS: UNKNOWN}),
    "probes-that-are-no-numbers": (but(SHORT, always(NAN)), {StageCheck.VERDICTS: UNKNOWN}),
    "a-revert": (but(REVERTS, since(8, 7, at=60)), {StageCheck.REVERTS: NO}),
    "no-count-of-reverts": (but(REVERTS, None), {StageCheck.REVERTS: UNKNOWN}),
    "a-write-that-failed-and-was-mended": (
        but(FAILED, lambda second: 1 if 60 <= second < 120 else 0),
        {StageCheck.WRITES: NO},
    ),
    "no-count-of-failures": (but(FAILED, None), {StageCheck.WRITES: UNKNOWN}),
    "slow-requests": (but('name="SLOW_OPS"', since(1, at=120)), {StageCheck.HEALTH: NO}),
    "one-osd-of-200-down": (
        lambda region: but('name="OSD_DOWN"', always(1))(region) | osds(7),
        {},
    ),
    "one-osd-down-and-nine-dead-ones-out": (
        lambda region: but('name="OSD_DOWN"', always(1))(region) | osds(7, out=range(8, 17)),
        {},
    ),
    "three-osds-of-200-down": (
        lambda region: but('name="OSD_DOWN"', always(1))(region) | osds(7, 8, 9),
        {StageCheck.HEALTH: NO},
    ),
    "osds-down-and-not-counted": (
        but('name="OSD_DOWN"', always(1)),
        {StageCheck.HEALTH: NO},
    ),
    "no-ceph": (but("ceph_health_status", None), {StageCheck.HEALTH: UNKNOWN}),
    "another-ceph-alone": (
        lambda region: but("ceph_health_status", None)(region) | {'ceph_health_status{cluster="d"': always(0)},
        {StageCheck.HEALTH: UNKNOWN},
    ),
    "a-gate-is-shut": (but(f"{metrics.HEALTH_GATE_SHUT}{{{N1}", since(1)), {StageCheck.HEALTH: NO}),
    "a-node-without-it": (but(f"{metrics.STAGE_IN_EFFECT}{{{N1}", None), {StageCheck.ARRIVED: NO}),
    "a-node-that-is-down": (but(N1, lambda second: 1 if second < -600 else None), {}),
    "a-node-without-passes": (but(f"{metrics.PASS_OBSERVED_TIMESTAMP_SECONDS}{{{N1}", always(5)),
                              {StageCheck.ARRIVED: NO}),
    "a-node-that-observes": (but(f"{metrics.PASS_ENFORCING}{{{N1}", always(0)), {StageCheck.ARRIVED: NO}),
    "a-node-that-is-paused": (but(f"{metrics.PASS_PAUSED}{{{N1}", always(1)), {StageCheck.ARRIVED: NO}),
    "no-node-has-it": (but(metrics.STAGE_IN_EFFECT, None), dict.fromkeys(JUDGED, UNKNOWN)),
    "no-touched-disk": (
        but('volume_type="gold"', None),
        dict.fromkeys((StageCheck.AT_LIMIT, StageCheck.VERDICTS, StageCheck.REVERTS, StageCheck.WRITES), UNKNOWN),
    ),
}  # fmt: skip


def lines_of(
    regions: Mapping[str, Region], start: int, end: int, jobs: Iterable[str], step: int
) -> dict[str, list[str]]:
    """As OpenMetrics has them."""
    lines: dict[str, list[str]] = {}
    for name, series in regions.items():
        for key, values in series.items():
            metric, _, labels = key.partition("{")
            for job in jobs if metric.startswith("plimsoll") else ("ceph", "ceph-again"):
                own = f'{labels.replace("APPROVAL", digest(name)[:16])},region="{name}",job="{job}"'
                lines.setdefault(metric, []).extend(
                    f"{metric}{{{own}}} {value!r} {start + second}"
                    for second in range(-BEFORE, end - start + 1, step)
                    if (value := values(second)) is not None
                )
    return lines


def digest(name: str) -> str:
    return Lists({}, {name: VolumeType(id=name, name=name, qos_spec=None)}).digest


BEGAN = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp())
NOW = BEGAN + 600


@pytest.fixture(scope="module")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A region for each case; two jobs scrape each node."""
    regions = {name: change(region(BEGAN)) for name, (change, _) in CASES.items()}
    with prometheus_of(lines_of(regions, BEGAN, NOW, ("a", "b"), 15), tmp_path_factory.mktemp("stages")) as there:
        yield there


def approval(name: str) -> RegionApproval:
    at = datetime.fromtimestamp(BEGAN, UTC)
    stages = Stages(percent=(1.0, 10.0, 100.0), wait=timedelta(minutes=5), types=("gold",), reached=0, entered=at)
    return RegionApproval(
        of=Of.SPECS, digest=digest(name), since=at, until=at + timedelta(days=7), by="ann", why="sale", stages=stages
    )


@pytest.mark.parametrize("case", CASES)
def test_a_condition_holds_only_where_prometheus_proves_it(judging: Served, case: str) -> None:
    prometheus = Prometheus(judging.url, token_file=None, ca_file=None, deadline=60)
    prometheus.as_of(NOW)
    result = findings(approval(case), BLOCKING_CHECKS, prometheus.now, prometheus.query, lambda: prometheus.warnings)
    told = {one.condition: one.holds for one in result}
    expected = dict.fromkeys(JUDGED, True) | dict(CASES[case][1])
    if case == "no-node-has-it":
        expected[StageCheck.HEALTH] = told[StageCheck.HEALTH]  # Ceph's is not by node
    assert told == expected, [one.detail for one in result]


def test_osds_that_are_down_are_counted_once_and_those_that_are_out_not(judging: Served) -> None:
    prometheus = Prometheus(judging.url, token_file=None, ca_file=None, deadline=60)
    prometheus.as_of(NOW)
    for case, words in (
        ("one-osd-down-and-nine-dead-ones-out", "OSD_DOWN (1 of 200 OSDs)"),
        ("three-osds-of-200-down", "OSD_DOWN (3 of 200 OSDs)"),
    ):
        checks = [BlockingCheck.read("OSD_DOWN > 0.1%")]
        *_, health = findings(approval(case), checks, prometheus.now, prometheus.query, lambda: prometheus.warnings)
        assert (health.condition, health.detail) == (StageCheck.HEALTH, f"Ceph reports {words}")


def test_an_answer_that_is_no_answer_or_half_of_one_proves_nothing(judging: Served) -> None:
    prometheus = Prometheus(judging.url, token_file=None, ca_file=None, deadline=60)
    prometheus.as_of(NOW)

    def gone(_: str) -> list[object]:
        raise Unreachable("connection refused")

    half = findings(
        approval("all-is-well"), BLOCKING_CHECKS, prometheus.now, prometheus.query, lambda: ("a store is missing",)
    )
    none = findings(approval("all-is-well"), BLOCKING_CHECKS, prometheus.now, gone, tuple)  # type: ignore[arg-type]
    for result, words in ((half, "a store is missing"), (none, "connection refused")):
        assert {one.condition: (one.holds, one.detail) for one in result} == dict.fromkeys(JUDGED, (None, words))


# --- from the edit to the last stage


NAMES = [f"compute-{number}" for number in range(1000)]
EARLY = next(name for name in NAMES if position(name) < 1)
SECOND = next(name for name in NAMES if 1 < position(name) < 10)
LAST = next(name for name in NAMES if position(name) > 10)
AFTER = Lists(
    {"s-gold": QosSpec(id="s-gold", name="gold-iops", consumer="front-end", keys={"total_iops_sec": "5"})},
    {"t-gold": VolumeType(id="t-gold", name="gold", qos_spec="s-gold")},
)


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Where all is well, since five minutes and for ten more."""
    start = int(time.time()) - 300
    lines = lines_of({"r": region(start)}, start, start + 900, ("node",), 1)
    lines = {name: [line.replace(digest("r")[:16], AFTER.digest[:16]) for line in of] for name, of in lines.items()}
    with prometheus_of(lines, tmp_path_factory.mktemp("living")) as there:
        yield there


def limit_on(node: RegionalNode, host: str) -> tuple[str | None, bool]:
    """The spec's limit on the node with that name, and whether its brake lets it through."""
    node.settings |= {"host": host, "directory": node.home / host}
    node.directory = node.home / host
    node.sees(1)
    ran = node.refresh("--now")
    assert ran.status == 0, ran.err
    known = catalogue.load(node.directory)
    assert known is not None
    return known.specs["s-gold"].keys["total_iops_sec"], approve_on(node, host, known.digest)


def approve_on(node: RegionalNode, host: str, digest: str) -> bool:
    orders = node.region().orders.on_node(position(host))
    return orders.approve(Of.SPECS, digest, datetime.now(UTC))


def staged(node: RegionalNode, *words: str) -> str:
    node.make()
    edit(node, total_iops_sec="5")
    digest = digest_in(node.make())
    ran = node.orders("approve", digest, "--stages", "1%,10%,100%", "--wait", "1s", "--reason", "sale", *words)
    assert (ran.status, ran.err) == (0, "")
    return digest


def test_an_edit_reaches_the_nodes_stage_by_stage_and_a_publisher_that_fails_advances_nothing(
    node: RegionalNode, living: Served
) -> None:
    here = {"OS_PROMETHEUS__URL": living.url}
    digest = staged(node)
    assert published(node) == {"total_iops_sec": "500"}
    assert node.make(**here).status == 0
    reached = [("5", True), ("500", False), ("500", False)]
    assert [limit_on(node, name) for name in (EARLY, SECOND, LAST)] == reached
    time.sleep(1.1)
    before = node.file.read_bytes()
    node.cloud.faults = {"/volume": [lambda handler: handler.say_json(500, {}), ...]}
    assert node.make(**here).status == 1
    node.cloud.faults = {}
    assert node.file.read_bytes() == before
    assert node.make(**here).status == 0
    reached[1] = ("5", True)
    assert [limit_on(node, name) for name in (EARLY, SECOND, LAST)] == reached
    listed = json.loads(node.orders("approvals", "-f", "json").out)
    assert [one["stage"]["reached"] for one in listed] == [2]
    assert f"specs {digest} 2 of 3 (10 %)" in " ".join(node.orders("approvals").out.split())


@pytest.mark.parametrize("minutes", [0, 2])
def test_what_was_withdrawn_is_as_before_on_all_nodes(node: RegionalNode, living: Served, minutes: int) -> None:
    """In the first stage, and in the last one."""
    here = {"OS_PROMETHEUS__URL": living.url}
    node.make()
    original = node.region()
    digest = staged(node)
    for _ in range(1 + minutes):
        assert node.make(**here).status == 0
        time.sleep(1.1)
    assert limit_on(node, EARLY) == ("5", True)
    assert limit_on(node, LAST) == (("5", True) if minutes else ("500", False))
    ran = node.orders("withdraw", digest, "--reason", "too slow")
    assert "nodes that had it restore the limits of before" in ran.out
    for attempt in range(2):
        assert node.make(**here).status == 4, "Cinder still has the specs that were withdrawn"
        region = node.region()
        assert (region.specs, region.types, region.other) == (original.specs, original.types, None)
        assert [limit_on(node, name) for name in (EARLY, LAST)] == [("500", True)] * 2, attempt
    edit(node, total_iops_sec="500")
    assert node.make(**here).status == 0


def test_nodes_of_a_stage_return_to_a_spec_that_was_corrected_before_the_withdrawal(node: RegionalNode) -> None:
    digest = staged(node)
    node.make()
    assert limit_on(node, EARLY) == ("5", True)
    edit(node, total_iops_sec="450")
    node.make()
    assert (published(node), limit_on(node, EARLY)) == ({"total_iops_sec": "450"}, ("5", True))
    node.orders("withdraw", digest)
    for _ in range(2):
        assert node.make().status == 0
        assert limit_on(node, EARLY) == ("450", True)


def test_while_cinder_is_down_a_withdrawal_counts_and_no_stage_begins(node: RegionalNode) -> None:
    digest = staged(node)
    down = {"/volume": [cloudserver.status(500), ...]}
    node.cloud.faults = down
    assert node.make().status == 1
    assert limit_on(node, EARLY) == ("500", False), "no node has it before Cinder is read"
    node.cloud.faults = {}
    node.make()
    staged_orders = node.region().orders.staged
    assert limit_on(node, EARLY) == ("5", True)
    node.cloud.faults = down
    node.orders("pause", "--reason", "x")
    time.sleep(1.1)
    assert node.make().status == 1
    assert node.region().orders.pause is not None
    assert (node.region().orders.staged, limit_on(node, EARLY)) == (staged_orders, ("5", True))
    node.orders("withdraw", digest)
    for _ in range(2):
        assert node.make().status == 1
        assert [limit_on(node, name) for name in (EARLY, LAST)] == [("500", True)] * 2
        assert (node.region().orders.staged, node.region().other) == ((), None)
    node.cloud.faults = {}
    assert node.make().status == 4, "Cinder still has what was withdrawn"
    assert [limit_on(node, name) for name in (EARLY, LAST)] == [("500", True)] * 2


def test_what_was_withdrawn_stays_so_where_the_brake_alone_would_let_it_through_now(node: RegionalNode) -> None:
    """Fewer volumes are attached than when it was approved."""
    node.cloud.volumes = [volume(number) for number in range(1, 101)]
    node.make()
    edit(node, total_iops_sec="200")
    digest = digest_in(node.make())
    node.orders("approve", digest, "--stages", "1%,100%", "--reason", "sale")
    node.make()
    node.cloud.volumes = node.cloud.volumes[:10]
    node.orders("withdraw", digest)
    for _ in range(2):
        assert node.make().status == 4
        assert published(node) == {"total_iops_sec": "500"}


def test_an_approval_again_must_name_the_types_that_lose_their_limits_as_the_first_had_to(node: RegionalNode) -> None:
    """Else the brake of the region would stop it in its last stage only."""
    node.make()
    edit(node)
    digest = digest_in(node.make())
    words = ("approve", digest, "--stages", "1%,100%", "--reason", "sale")
    assert node.orders(*words, "--remove", "gold").status == 0
    node.make()
    ran = node.orders(*words, "--without", "verdicts")
    assert ran.status == 64
    assert "to allow that, add --remove" in ran.err


def test_a_plan_shows_whom_each_stage_adds(node: RegionalNode, living: Served) -> None:
    ran = node.command("region", "plan", "--prometheus", living.url, "-f", "json")
    assert ran.status == 0, ran.err
    rows = [(row["stage"], row["nodes"], row["project"], row["guests"], row["disks"]) for row in json.loads(ran.out)]
    assert rows == [(1, 2, "p", 2, 2), (3, 1, "p", 1, 1)]
    people = node.command("region", "plan", "--prometheus", living.url, "--stages", "1%,100%").out
    assert "stage 1 (1 %): 2 nodes, 2 guests, 2 disks\nstage 2 (100 %): 1 nodes, 1 guests, 1 disks\n" in people
    other = node.command("region", "plan", "--prometheus", living.url, "--type", "silver").out
    assert "Disks of type silver." in other


def test_without_prometheus_the_first_stage_stays_and_says_why(node: RegionalNode, tmp_path: Path) -> None:
    """It is gone, or not in the settings."""
    digest = staged(node)
    assert node.make().status == 0
    time.sleep(1.1)
    for url, words in (
        (None, "[prometheus] url: not set"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9: connection refused"),
    ):
        environment = {"OS_METRICS__TEXTFILE_DIR": str(tmp_path)} | ({"OS_PROMETHEUS__URL": url} if url else {})
        ran = node.make(**environment)
        assert ran.status == 3
        assert f"does not begin: arrived, at-limit, verdicts, reverts, writes, health: unknown: {words}" in ran.err
        assert limit_on(node, SECOND) == ("500", False)
    told = (tmp_path / "plimsoll-region.prom").read_text()
    label = f'approval="{digest}",condition="at-limit",known="false"'
    assert f"plimsoll_region_stage_stopped{{{label}}} 1.0" in told
    assert "The next stage does not begin: arrived, at-limit" in node.orders("approvals").out


def test_one_change_at_a_time_is_in_stages_and_one_for_all_nodes_at_once_ends_them(node: RegionalNode) -> None:
    digest = staged(node)
    stages = ("--stages", "10%,100%", "--reason", "x")
    ran = node.orders("approve", "--rules", "ab" * 32, *stages)
    assert (ran.status, len(ran.err.splitlines())) == (64, 1)
    assert f"plimsoll region withdraw {digest}" in ran.err
    assert node.orders("approve", digest, *stages).status == 0
    assert node.orders("approve", digest, "--reason", "at once").status == 0
    node.make()
    assert limit_on(node, LAST) == ("5", True)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--stages", "10%,1%,100%"), "write shares of nodes that grow, the last of them 100%"),
        (("--stages", "1%,10%"), "the last of them 100%"),
        (("--stages", "0%,100%"), "write shares of nodes that grow"),
        (("--stages", "1e1,100"), "write shares of nodes that grow"),
        (("--stages", "nan,100"), "write shares of nodes that grow"),
        (("--stages", ""), "write shares of nodes that grow"),
        (("--stages", "1%,100%", "--wait", "-5m"), "--wait"),
        (("--stages", "1%,100%", "--at-limit", "nan"), "--at-limit: from 0 to 100"),
        (("--stages", "1%,10%,100%", "--wait", "4d"), "--for: the approval would end before its last stage"),
        (("--wait", "5m"), "--wait needs --stages"),
        (("--without", "health"), "--without needs --stages"),
        (("--stages", "1%,100%", "--disks", "5"), "--stages is for one change"),
    ],
)
def test_stages_that_cannot_be_are_refused_in_one_line(
    node: RegionalNode, words: tuple[str, ...], complaint: str
) -> None:
    ran: Ran = node.orders("approve", "--rules", "ab" * 32, "--reason", "x", *words)
    assert ran.status == 64, ran.out
    assert complaint in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not node.file.with_name("region.json.orders").exists()
