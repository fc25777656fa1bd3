"""Whether the next stage of an approval may begin, by the metrics of the nodes that have the present one. Pure.

What is missing, is not a number, or comes from a part of the region only is unknown. An average of limits that were
reached is compared with the same length of time before the approval was made, on the same nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from plimsoll_agent.catalogue.orders import RegionApproval
from plimsoll_agent.catalogue.stages import ConditionFinding, StageCheck, Stages
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.metrics import Metric
from plimsoll_agent.monitor.site_labels import BETWEEN
from plimsoll_agent.reconcile.health_gate import BlockingCheck, ClusterHealth
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import plural
from plimsoll_monitoring.promql import (
    CONCLUSIVE,
    any_of,
    any_verdict,
    braces,
    each,
    equal,
    increase,
    sum_over_time,
)
from plimsoll_monitoring.region.answers import Answers, Ask, NodeKey, Series, key_of, label, may_be_of
from plimsoll_probes.model.finding import BROKEN

_DAY = 86400
_LATE = 15 * 60
"""Seconds without a pass after which the metrics of a node are not of now: three of its timer's."""
_DIGITS = 16
_NAMED = 3
_NO_DISK = "no touched disk was on the nodes of the stage"


@frozen(kw_only=True)
class StageCase:
    """What is judged, and as of when (seconds since 1970, by the clock of Prometheus)."""

    approval: RegionApproval
    stages: Stages
    now: float
    checks: Sequence[BlockingCheck]

    @property
    def entered(self) -> float:
        return self.now if self.stages.entered is None else self.stages.entered.timestamp()

    @property
    def window(self) -> int:
        """Seconds of the present stage; at most its last day."""
        return max(60, min(_DAY, int(self.now - self.entered)))


def findings(
    approval: RegionApproval,
    checks: Sequence[BlockingCheck],
    now: Callable[[], float],
    ask: Ask,
    warnings: Callable[[], Sequence[str]],
) -> tuple[ConditionFinding, ...]:
    """What is found of each condition; all are unknown where Prometheus fails or answers a part."""
    if approval.stages is None:
        return ()
    conditions = [one for one in StageCheck if one not in (StageCheck.APPROVED, StageCheck.RUNNING)]
    try:
        case = StageCase(approval=approval, stages=approval.stages, now=now(), checks=checks)
        answers = {name: ask(question) for name, question in questions(case).items()}
    except PlimsollError as error:
        return tuple(ConditionFinding(one, None, str(error)) for one in conditions)
    if warnings():
        return tuple(ConditionFinding(one, None, warnings()[0]) for one in conditions)
    return judged(case, answers)


def questions(case: StageCase) -> dict[str, str]:
    """PromQL by name; the nodes are those that have the present stage and enforce."""
    approval = braces(equal("approval", case.approval.digest[:_DIGITS]))
    here = f"(max by (region, instance) ({metrics.STAGE_IN_EFFECT}{approval}))"
    types = any_of("volume_type", case.stages.types) if case.stages.types else ""
    over, back = f"[{case.window}s]", max(0, int(case.now - case.approval.began.timestamp()))
    failures = equal("state", Kind.FAILED.value)
    but_alone = f'state!="{Kind.LEFT_ALONE.value}"'

    def of_stage(vector: str) -> str:
        return f"({vector}) and on (region, instance) {here}"

    def by_node(function: str, metric: Metric, offset: str = "", matcher: str = "") -> str:
        return sum_over_time(function, metric, f"{braces(types, matcher)}{over}{offset}", "region, instance")

    def at_limit(offset: str = "") -> str:
        every, alone = (
            by_node("avg", metric, offset) for metric in (metrics.DISKS_AT_LIMIT, metrics.DISKS_LEFT_ALONE_AT_LIMIT)
        )
        return of_stage(f"{every} - {alone}")

    def samples(offset: str = "") -> str:
        # Of the newer metric: a node that was upgraded in that time has the other one from all of it.
        return of_stage(by_node("count", metrics.DISKS_LEFT_ALONE_AT_LIMIT, offset))

    def counted(metric: Metric, matchers: str, by: str, *, proves: bool = False) -> str:
        """What a counter counted; of a series that is new, all of it.

        Where it ``proves`` something, a series that was only not scraped when the stage began is not new.
        """
        there, start = each(metric, matchers, *metric.labels), f"offset {case.window}s"
        earlier = f"count_over_time({metric}{matchers}[{_DAY}s] {start})" if proves else f"{metric}{matchers} {start}"
        new = of_stage(f"{there} unless {each(earlier, '', *metric.labels)}")
        more = of_stage(increase(metric, matchers, f"{case.window}s"))
        return f"sum by ({by}) (({more}) + ({new}) or ({more}) or ({new}))"

    gate = f"max by (region, instance, cluster) ({metrics.HEALTH_GATE_SHUT})"
    return {
        "nodes": here,
        "members": f"{each(metrics.STAGE_POSITION, '')} < {case.stages.share:g}"
        f" and on (region) count by (region) ({here})",
        "observed": of_stage(each(metrics.PASS_OBSERVED_TIMESTAMP_SECONDS, "")),
        "enforcing": of_stage(each(metrics.PASS_ENFORCING, "")),
        "paused": of_stage(each(metrics.PASS_PAUSED, "")),
        "disks": of_stage(by_node("avg", metrics.DISKS, matcher=but_alone)),
        "at_limit": at_limit(),
        "disks_before": of_stage(by_node("avg", metrics.DISKS, f" offset {back}s", but_alone)),
        "at_limit_before": at_limit(f" offset {back}s"),
        "samples": samples(),
        "samples_before": samples(f" offset {back}s"),
        "probed": counted(metrics.PROBE_RUNS_TOTAL, braces(CONCLUSIVE, types), "verdict", proves=True),
        "broken": counted(metrics.PROBE_RUNS_TOTAL, braces(any_verdict(*BROKEN), types), "region, instance"),
        "reverts": counted(metrics.EXTERNAL_CHANGES_REVERTED_TOTAL, braces(types), "region, instance"),
        "failed": of_stage(by_node("max", metrics.DISKS, matcher=failures)),
        "gates": of_stage(gate),
        "ceph": "max by (region, cluster) (ceph_health_status)",
        "checks": "max by (region, cluster, name) (ceph_health_detail) == 1",
        "osds": _number_of_osds("ceph_osd_up"),
        # OSD_DOWN is of those that are in: one that is out may be dead for months.
        "osds_down": _number_of_osds("ceph_osd_up == 0 and ceph_osd_in == 1"),
    }


def _number_of_osds(series: str) -> str:
    """Each once, of which a pair of Prometheuses may have several series."""
    return f"count by (region, cluster) (group by (region, cluster, ceph_daemon) ({series}))"


def judged(case: StageCase, answers: Answers) -> tuple[ConditionFinding, ...]:
    return tuple(judge(case, answers) for judge in _JUDGES)


def _arrived(case: StageCase, answers: Answers) -> ConditionFinding:
    """Nodes of the stage that have no metrics at all are down, and not waited for; one that has some is."""
    nodes, members = _nodes(answers["nodes"]), _nodes(answers["members"])
    looks = {key_of(one): one.known for one in answers["observed"]}
    enforcing = {key_of(one) for one in answers["enforcing"] if one.known == 1}
    pauses = {key_of(one) for one in answers["paused"] if one.known != 0}
    if not nodes:
        return ConditionFinding(StageCheck.ARRIVED, None, "no node has it yet, as far as Prometheus has metrics")
    late = {key for key in nodes if (at := looks.get(key)) is None or not _fresh(at, case)}
    for keys, words in (
        (members - nodes, "without it yet"),
        (late, "without a pass in the last 15 minutes, or since the stage began"),
        (nodes - enforcing, "in mode observe, or in an unknown mode"),
        (nodes & pauses, "paused"),
    ):
        if keys:
            return ConditionFinding(StageCheck.ARRIVED, False, f"{plural(len(keys), 'node')} {words}: {_names(keys)}")
    return ConditionFinding(StageCheck.ARRIVED, True, f"{plural(len(nodes), 'node')} have it")


def _fresh(at: float, case: StageCase) -> bool:
    return at > max(case.entered, case.now - _LATE)


def _at_limit(case: StageCase, answers: Answers) -> ConditionFinding:
    now, before = (_share(answers[f"at_limit{of}"], answers[f"disks{of}"]) for of in ("", "_before"))
    now = _absence(answers["disks"]) or now
    if isinstance(now, str) or isinstance(before, str):
        return ConditionFinding(
            StageCheck.AT_LIMIT, None, now if isinstance(now, str) else f"before the approval: {before}"
        )
    few = _few(answers)
    if few:
        return ConditionFinding(
            StageCheck.AT_LIMIT, None, f"gaps in the averages of disks now or before: {_names(few)}"
        )
    words = f"touched disks were at their limits {now:.1f} % of the time, {before:.1f} % before"
    good = now <= before + case.stages.at_limit
    return ConditionFinding(
        StageCheck.AT_LIMIT, good, words + ("" if good else f" (allowed: {case.stages.at_limit:g} more)")
    )


def _share(at_limit: Sequence[Series], disks: Sequence[Series]) -> float | str:
    """The share of the time at limits, in per cent, 0 where all disks are left alone; or why it is unknown."""
    number, there = _by_node(disks), _by_node(at_limit)
    if not number:
        return _NO_DISK
    disks_of = {key: value for key, value in number.items() if value != 0}
    missing = {key for key, value in disks_of.items() if value is None or there.get(key) is None}
    if missing:
        return f"{plural(len(missing), 'node')} without averages of disks: {_names(missing)}"
    whole = sum(value or 0 for value in disks_of.values())
    return 100 * sum(there[key] or 0 for key in disks_of) / whole if whole else 0.0


def _absence(disks: Sequence[Series]) -> str | None:
    """Why no touched disk can be judged, if none can."""
    if not disks:
        return _NO_DISK
    # Without a disk of the type a node has no such series.
    alone = all(one.known == 0 for one in disks)
    return "all touched disks on the nodes of the stage are left alone" if alone else None


def _few(answers: Answers) -> set[NodeKey]:
    """Nodes with less than half as many values in one of the two times as in the other."""
    now, before = _by_node(answers["samples"]), _by_node(answers["samples_before"])
    pairs = {key: (now.get(key) or 0, before.get(key) or 0) for key in now.keys() | before.keys()}
    return {key for key, pair in pairs.items() if 2 * min(pair) < max(pair)}


def _verdicts(_: StageCase, answers: Answers) -> ConditionFinding:
    runs, breaches = [one.known for one in answers["probed"]], [one.known for one in answers["broken"]]
    if None in runs or None in breaches:
        return ConditionFinding(StageCheck.VERDICTS, None, "the number of probes is not a number")
    if sum(one or 0 for one in breaches) > 0:
        keys = {key_of(one) for one in answers["broken"] if one.known}
        return ConditionFinding(StageCheck.VERDICTS, False, f"probes broke their promise on {_names(keys)}")
    if sum(one or 0 for one in runs) <= 0:
        return ConditionFinding(
            StageCheck.VERDICTS, None, "no probe with a verdict ended on its nodes since the stage began"
        )
    return ConditionFinding(StageCheck.VERDICTS, True, "probes kept their promises")


def _reverts(_: StageCase, answers: Answers) -> ConditionFinding:
    return _none_of(StageCheck.REVERTS, answers, "reverts", "external changes were reverted on")


def _writes(_: StageCase, answers: Answers) -> ConditionFinding:
    return _none_of(StageCheck.WRITES, answers, "failed", "limits could not be set on")


def _none_of(condition: StageCheck, answers: Answers, name: str, words: str) -> ConditionFinding:
    """Every node with a touched disk must say that there was none."""
    numbers = _by_node(answers[name])
    nodes = {key for key, value in _by_node(answers["disks"]).items() if value != 0}
    if keys := {key for key, value in numbers.items() if value}:
        return ConditionFinding(condition, False, f"{words} {_names(keys)}")
    if absence := _absence(answers["disks"]):
        return ConditionFinding(condition, None, absence)
    if missing := {key for key in nodes if numbers.get(key) is None}:
        return ConditionFinding(
            condition, None, f"{plural(len(missing), 'node')} without a figure: {_names(missing)}"
        )
    return ConditionFinding(condition, True, "none")


def _health(case: StageCase, answers: Answers) -> ConditionFinding:
    nodes = _nodes(answers["nodes"])
    if gates := {key_of(one) for one in answers["gates"] if one.known != 0}:
        return ConditionFinding(StageCheck.HEALTH, False, f"the health gate is shut on {_names(gates)}")
    regions = {region for region, _ in nodes}
    fsids = {label(one, "cluster") for one in answers["gates"]} - {""}

    def of_stage(name: str) -> list[Series]:
        return [one for one in answers[name] if may_be_of(label(one, "region"), regions, fsids)]

    clusters = {_cluster(one, fsids): one.known for one in of_stage("ceph")}
    if absence := _absence_of_ceph(clusters, fsids):
        return ConditionFinding(StageCheck.HEALTH, None, absence)
    names_of: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in of_stage("checks"):
        names_of[_cluster(one, fsids)].append(label(one, "name"))
    osds, down = ({_cluster(one, fsids): one.known for one in answers[name]} for name in ("osds", "osds_down"))
    for cluster, names in names_of.items():
        count = down.get(cluster)
        health = ClusterHealth(
            fsid=cluster[1],
            raised=tuple(names),
            counts={} if count is None else {"OSD_DOWN": round(count)},
            osds=None if (all_of := osds.get(cluster)) is None else round(all_of),
        )
        if blocking := {why for check in case.checks for name in names if (why := check.blocks(name, health))}:
            return ConditionFinding(StageCheck.HEALTH, False, f"Ceph reports {', '.join(sorted(blocking))}")
    if any(status and cluster not in names_of for cluster, status in clusters.items()):
        # The mgr of an old release has no such metric.
        return ConditionFinding(
            StageCheck.HEALTH, None, "Ceph is not HEALTH_OK, and no ceph_health_detail has its checks"
        )
    return ConditionFinding(StageCheck.HEALTH, True, "Ceph reports no check that blocks")


def _absence_of_ceph(clusters: Mapping[tuple[str, str], float | None], fsids: Collection[str]) -> str | None:
    """Why nothing is known of a cluster of the stage's disks."""
    if not clusters or None in clusters.values():
        return "no ceph_health_status of the region; let Prometheus scrape Ceph's mgr"
    present = [fsid for _, fsid in clusters]
    missing = sorted({*fsids} - {*present})
    # Without the label it is of any cluster, but of one only.
    if len(missing) <= present.count(""):
        return None
    return f"no ceph_health_status with the label cluster of {', '.join(missing)}, where the stage has disks"


_JUDGES = (_arrived, _at_limit, _verdicts, _reverts, _writes, _health)


def _cluster(series: Series, fsids: Collection[str]) -> tuple[str, str]:
    """Its region and its fsid, which is in the region where the site names regions by a label ``cluster``."""
    region = label(series, "region")
    within = next((part for part in region.split(BETWEEN) if part in fsids), "")
    return region, label(series, "cluster") or within


def _nodes(answer: Iterable[Series]) -> set[NodeKey]:
    return set(map(key_of, answer))


def _by_node(answer: Iterable[Series]) -> Mapping[NodeKey, float | None]:
    return {key_of(one): one.known for one in answer}


def _names(keys: Iterable[NodeKey]) -> str:
    names = sorted(instance for _, instance in keys)
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
