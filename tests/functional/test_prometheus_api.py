"""``plimsoll region`` against a real Prometheus: it has scraped four nodes, and has the day before in blocks."""

from __future__ import annotations

import io
import json
import logging
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
import yaml

from plimsoll_agent.errors import Rejected
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import pass_metrics, prometheus_text
from plimsoll_agent.monitor.pass_summary import LastDisk, LastPass, Totals
from plimsoll_agent.monitor.thresholds import SHIPPED
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.cli.base import RegionCommand
from plimsoll_monitoring.cli.region import RegionDisks, RegionProbes, RegionStatus
from plimsoll_monitoring.node.health import figures_of_pass, judge
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Postponed, ProbeResult
from plimsoll_probes.output import metrics as probe_metrics
from plimsoll_probes.schedule.targets import ChosenTarget
from plimsoll_probes.store.tally import Tally
from tests.functional.conftest import Ran
from tests.unit.lastpasses import BRONZE, a_last_disk, a_last_pass, a_name
from tests.unit.node import uuid_of
from tests.unit.results import MS, a_finding, a_probe, a_subject

ROOT = Path(__file__).parents[2]
HOSTILE = "gold\x1b[2J\u202e"
DEMO, OTHER = "d" * 32, "0" * 32
VOLUMES = [f"{number:08x}-001a-4ea4-a2eb-d491b58efc11" for number in range(10)]
UNLIMITED = Limits()
JOBS = ("node", "again")
"""Both scrape the same nodes: it happens, and must count nothing twice."""
COUNTERS = ("plimsoll_probe_runs_total", "plimsoll_probe_latency_seconds_bucket")


# --- what the nodes have to tell -------------------------------------------------------------------------


@cache
def now() -> datetime:
    """When the first test of this file runs: it may be collected a quarter of an hour before."""
    return datetime.now(UTC)


def disk(number: int, iops: float, share: float, project: str = DEMO, **other: Any) -> LastDisk:
    named = a_name(number, project=project, volume_id=VOLUMES[number])
    rated = {
        "rates": Rates(read_iops=iops, write_iops=0.0, read_bytes=iops * 4096, write_bytes=0.0, seconds=300.0),
        "shares": {"total_iops_sec": share},
    }
    return a_last_disk(named, **(rated | other))


def node1() -> LastPass:
    """All is well, but for two disks at their limit and one that waits."""
    return a_last_pass(
        disk(1, 499, 0.998),
        disk(2, 120, 0.24),
        disk(3, 490, 0.98, OTHER, volume_type="bronze", actual=BRONZE, desired=BRONZE),
        disk(4, 10, 0.02, kind=Kind.DEFERRED),
        started=now() - timedelta(seconds=62),
        ended=now() - timedelta(seconds=60),
        looked=now() - timedelta(seconds=62),
        last_good=now() - timedelta(seconds=60),
    )


def node2() -> LastPass:
    """An hour behind, on an older version, with a source that was down and disks without a limit."""
    return a_last_pass(
        disk(5, 900, 0.0, actual=UNLIMITED, kind=Kind.FAILED, shares={}),
        disk(6, 20, 0.0, actual=UNLIMITED, desired=None, kind=Kind.LEFT_ALONE, volume_type=HOSTILE, shares={}),
        version="1.2.2",
        started=now() - timedelta(seconds=3602),
        ended=now() - timedelta(seconds=3600),
        looked=now(),
        last_good=None,
        grade=Grade.PARTIAL,
        sources={"libvirt": True, "rules": False, "record": True},
        totals=Totals(passes={Grade.PARTIAL: 1}, outcomes={}, corrected={"gold": 3}),
    )


def run(number: int, project: str, verdict: Verdict, why: Why, latency: int, **other: Any) -> ProbeResult:
    subject = a_subject(
        guest_uuid=uuid_of(number),
        guest_name=f"instance-{number:08}",
        project=project,
        volume_type=other.pop("volume_type", "gold"),
    )
    began = now() - timedelta(seconds=other.pop("ago", 600))
    return a_probe(started=began, subject=subject, finding=a_finding(verdict, why), latency=latency, **other)


def probes(*results: ProbeResult, late: int | None = None, put_off: int | None = None) -> bytes:
    chosen = [
        ChosenTarget(
            guest_uuid=result.subject.guest_uuid,
            guest_name=result.subject.guest_name,
            directory=result.subject.directory,
            rule="canaries",
            jobs=(JobName.READ,),
            every=timedelta(hours=6),
            since=now() - timedelta(days=3),
            seen=now(),
        )
        for result in results
    ]
    if late is not None:
        name = f"instance-{late:08}"
        every, since = timedelta(hours=1), now() - timedelta(hours=5)
        chosen.append(
            ChosenTarget(
                guest_uuid=uuid_of(late),
                guest_name=name,
                directory="/var/tmp",
                rule="canaries",
                jobs=(JobName.READ,),
                every=every,
                since=since,
                seen=now(),
            )
        )
    postponed = []
    if put_off is not None:
        of = {"guest_uuid": uuid_of(put_off), "guest_name": f"instance-{put_off:08}", "directory": "/var/tmp"}
        postponed.append(Postponed(at=now(), node="n", why=Why.UNHEALTHY, facts={}, **of))
    families = probe_metrics.families(
        results,
        postponed,
        chosen,
        [Tally.of(result) for result in results],
        {},
        detail="disk",
        now=now(),
        by_timetable=True,
    )
    return exposition(families)


def exposition(families: Any) -> bytes:
    return prometheus_text.text(families).encode()


@cache
def kept_and_short() -> tuple[ProbeResult, ProbeResult]:
    kept = run(1, DEMO, Verdict.KEPT, Why.WITHIN, 3 * MS)
    short = run(2, OTHER, Verdict.SHORT, Why.CLUSTER_SHORT, 400 * MS, iops=10)  # every 26th request of both
    return kept, short


def pages() -> dict[str, bytes]:
    """What each node's textfiles say, by the path that stands for it."""
    first = node1()
    third = replace(first, disks=first.disks[:2], enforcing=False)
    return {
        "/r1/n1": exposition(pass_metrics.families(first, detail="disk"))
        + probes(*kept_and_short(), late=7, put_off=7),
        "/r1/n2": exposition(pass_metrics.families(node2(), detail="disk")),
        "/r2/n1": exposition(pass_metrics.families(third, detail="aggregate")),
    }


def before() -> str:
    """Six hours of yesterday's counters, and a node that has told nothing for two hours."""
    lines = []
    start = now().timestamp() - 6 * 3600
    moments = [start + 60 * minute for minute in range(355)]
    born = [line for line in probes(*kept_and_short()).decode().splitlines() if line.startswith(COUNTERS)]
    born += ['plimsoll_external_changes_reverted_total{volume_type="gold"} 0']
    for line in born:
        for job in JOBS:
            where = f',job="{job}",region="r1",instance="n1:9100"}}'
            series = line.rpartition(" ")[0].removesuffix("}") + where
            lines += [f"{series} 0 {moment}" for moment in moments]
    gone = 'plimsoll_pass_last_timestamp_seconds{job="node",region="r1",instance="n9:9100"}'
    lines += [f"{gone} {moment} {moment}" for moment in moments if moment < now().timestamp() - 7200]
    drift = 'plimsoll_external_changes_reverted_total{volume_type="gold",job="node",region="r1",instance="n2:9100"}'
    lines += [f"{drift} 0 {moment}" for moment in moments]
    return "\n".join([*lines, "# EOF\n"])


ALERT = {
    "alert": "PlimsollLatencyBudgetBurning",
    "expr": "vector(8)",
    "for": "1s",
    "labels": {"severity": "critical", "region": "r1", "volume_type": "gold"},
}


# --- the real thing --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes() -> Iterator[str]:
    """The address of a server that has the pages of all nodes."""
    told = pages()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # as http.server calls it
            content = told.get(self.path, b"")
            self.send_response(200 if content else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def prometheus(nodes: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address, once it has scraped all nodes and evaluated the rules."""
    if shutil.which("prometheus") is None:
        pytest.skip("there is no prometheus on this machine")
    directory = tmp_path_factory.mktemp("prometheus")
    (directory / "before.txt").write_text(before())
    blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", directory / "before.txt", directory / "data"]
    subprocess.run(blocks, check=True, capture_output=True, timeout=60)
    rules = yaml.safe_load((ROOT / "etc/prometheus/plimsoll-rules.yaml").read_text())
    for group in rules["groups"]:
        group["interval"] = "1s"
    rules["groups"].append({"name": "alerts", "interval": "1s", "rules": [ALERT]})
    (directory / "rules.yaml").write_text(yaml.safe_dump(rules))
    targets = [
        {
            "targets": [nodes],
            "labels": {"__metrics_path__": path, "region": path[1:3], "instance": f"{path[4:]}:9100"},
        }
        for path in pages()
    ]
    jobs = [{"job_name": name, "static_configs": targets} for name in JOBS]
    config = {
        "global": {"scrape_interval": "1s"},
        "rule_files": [str(directory / "rules.yaml")],
        "scrape_configs": jobs,
    }
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={directory}/prometheus.yaml",
                f"--storage.tsdb.path={directory}/data",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            url = f"http://{address}"
            _wait_until(lambda: _count(url, "volume_type:plimsoll_probe_latency_seconds:p99_1d") > 0, directory)
            _wait_until(lambda: _count(url, "plimsoll_build_info") == 2 * len(targets), directory)
            _wait_until(lambda: _count(url, 'ALERTS{alertstate="firing"}') > 0, directory)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=30)


def _count(url: str, series: str) -> float:
    try:
        answer = requests.get(f"{url}/api/v1/query", {"query": f"count({series})"}, timeout=5).json()
        return float(answer["data"]["result"][0]["value"][1])
    except (requests.RequestException, ValueError, LookupError):
        return 0


def _wait_until(done: Callable[[], bool], directory: Path) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, (directory / "log").read_text()[-2000:]
        time.sleep(0.2)


@pytest.fixture
def region(prometheus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs a command about the region in a terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")

    def asked(command: type[RegionCommand], *words: str) -> Ran:
        return ran(command, tmp_path, "--prometheus", prometheus, *words)

    return asked


def ran(command: type[RegionCommand], directory: Path, *words: str, settings: str = "") -> Ran:
    file = directory / "plimsoll.conf"
    file.write_text(f"[prometheus]\n{settings}\n")
    options = SimpleNamespace(config_file=[file], config_dir=[])
    app = SimpleNamespace(settings_options=[], stdout=io.StringIO(), stderr=io.StringIO(), options=options)
    handler = logging.StreamHandler(app.stderr)
    logging.getLogger("plimsoll_agent").addHandler(handler)
    try:
        made: Any = command(app, None)  # type: ignore[arg-type]  # all of the application that a command uses
        status = made.run(made.get_parser("plimsoll").parse_args(words))
    finally:
        logging.getLogger("plimsoll_agent").removeHandler(handler)
    return Ran(status, app.stdout.getvalue(), app.stderr.getvalue())


def as_json(done: Ran) -> Any:
    assert done.status in (0, 3), done.err
    return json.loads(done.out)


# --- status ----------------------------------------------------------------------------------------------


def test_the_region_judges_a_node_as_the_node_judges_itself(region: Callable[..., Ran]) -> None:
    told = as_json(region(RegionStatus, "--region", "r1", "-f", "json"))
    seen = {node["node"]: {n: w["level"] for n, w in node["wrong"].items()} for node in told["nodes"]}
    for name, last in (("n1:9100", node1()), ("n2:9100", node2())):
        own = judge(figures_of_pass(last, datetime.now(UTC)), SHIPPED)
        of_pass = {name: level for name, level in seen[name].items() if not name.startswith("probe_")}
        assert of_pass == {finding.measure.name: finding.level.name.lower() for finding in own.wrong}, name
    assert {name for name in seen["n1:9100"] if name.startswith("probe_")} == {"probe_broken", "probe_late"}


def test_nodes_scraped_by_two_jobs_are_counted_once(region: Callable[..., Ran]) -> None:
    told = as_json(region(RegionStatus, "-f", "json"))
    passes = (node1(), node2(), replace(node1(), disks=node1().disks[:2]))
    assert {state: number for state, number in told["disks"].items() if number} == dict(
        Counter(disk.kind.value for last in passes for disk in last.disks)
    )
    assert told["at_limit"] == sum(disk.at_limit for last in passes for disk in last.disks)
    assert told["unlimited"] == sum(disk.astray for last in passes for disk in last.disks)
    assert told["external_changes_reverted"] == 3
    assert told["runs"]["kept"] == told["runs"]["short"] == 1


def test_a_node_that_went_away_is_silent_and_not_forgotten(region: Callable[..., Ran]) -> None:
    done = region(RegionStatus, "--region", "r1", "-f", "json")
    (unreachable,) = [node for node in as_json(done)["nodes"] if node["unreachable_since"]]
    since = datetime.fromisoformat(unreachable["unreachable_since"])
    assert done.status == 3
    assert unreachable["node"] == "n9:9100"
    silence = (now() - since).total_seconds()
    assert 7200 <= silence <= 7200 + 16 * 60  # looked for every 15 minutes
    assert (
        silence % 60 == pytest.approx(0, abs=2) or silence % 60 > 58
    )  # when it told something, not when it was seen


def test_an_alert_that_fires_is_told_with_since_when(region: Callable[..., Ran]) -> None:
    words = " ".join(region(RegionStatus, "--region", "r1").out.split())
    assert words.startswith(
        "CRITICAL latency budget of volume type gold burns too fast (alert PlimsollLatencyBudgetBurning since "
    )
    assert "next: plimsoll region probes --prometheus " in words
    assert "Latency" not in region(RegionStatus, "--region", "r1", "--node", "n1").out, "it is about no node"


def test_a_node_where_all_is_well_ends_with_0(region: Callable[..., Ran]) -> None:
    done = region(RegionStatus, "--region", "r2")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("OK    1 node, ")
    assert "1 node without metrics of single disks" in done.out


def test_a_region_without_series_is_trouble_and_not_an_empty_one(region: Callable[..., Ran]) -> None:
    for command in (RegionStatus, RegionDisks, RegionProbes):
        done = region(command, "--region", "nowhere")
        assert (done.status, done.out) == (1, "")
        assert "no metrics of plimsoll of region nowhere" in done.err
        assert "[metrics] textfile_dir" in done.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("--node", "n1"), [("r1", "n1:9100"), ("r2", "n1:9100")]),
        (("--node", "n1:9100", "--region", "r2"), [("r2", "n1:9100")]),
        (("--node", "n2", "--node", "n9"), [("r1", "n2:9100"), ("r1", "n9:9100")]),
    ],
)
def test_a_node_is_meant_by_its_name_with_or_without_the_port(
    region: Callable[..., Ran], words: Sequence[str], meant: list[tuple[str, str]]
) -> None:
    told = as_json(region(RegionStatus, *words, "-f", "json"))
    assert [(node["region"], node["node"]) for node in told["nodes"]] == meant


def test_a_part_of_a_nodes_name_means_no_node(region: Callable[..., Ran]) -> None:
    assert region(RegionStatus, "--node", "n").status == 1
    assert region(RegionStatus, "--node", "n.").status == 1


# --- percentiles -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("--node", "n1")], ids=["recorded", "asked-for"])
def test_percentiles_are_those_of_the_merged_histograms_within_one_bucket(
    region: Callable[..., Ran], words: Sequence[str]
) -> None:
    told = as_json(region(RegionStatus, "--region", "r1", *words, "-f", "json"))
    (gold,) = [one for one in told["types"] if one["volume_type"] == "gold"]
    merged = Histogram.merged(result.measured.latency for result in kept_and_short() if result.measured)
    for name, fraction in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
        assert bucket(gold[name] * 10**9) == bucket(merged.quantile(fraction).upper or 0), name


def bucket(nanoseconds: float) -> int:
    """Which of the exported ones."""
    return sum(edge < nanoseconds for edge in probe_metrics.LE)


# --- disks -----------------------------------------------------------------------------------------------


def listed(done: Ran) -> list[str]:
    """The numbers of the guests, as the list has them."""
    return [row["guest_uuid"][7] for row in as_json(done)]


def test_disks_come_the_worst_first_and_those_that_are_right_do_not(region: Callable[..., Ran]) -> None:
    done = region(RegionDisks, "-f", "json")
    assert listed(done) == ["5", "4", "1", "3"]  # unlimited, waits, and two at their limit by the share they use
    worst = as_json(done)[0]
    assert worst["states"] == ["unlimited", "failed"]
    assert (worst["volume"], worst["project"], worst["node"]) == (VOLUMES[5], DEMO, "n2:9100")
    assert worst["operations_per_second"] == 900


def test_a_disk_that_shall_have_no_limit_is_not_called_unlimited(region: Callable[..., Ran]) -> None:
    assert listed(region(RegionDisks, "--state", "unlimited", "-f", "json")) == ["5"]
    assert listed(region(RegionDisks, "--state", "left-alone", "-f", "json")) == ["6"]


@pytest.mark.parametrize(
    ("words", "guests"),
    [
        (("--project", OTHER), ["3"]),
        (("--type", "bronze"), ["3"]),
        (("--type", "bronze", "--type", "gold", "--state", "at-limit"), ["1", "3"]),
        (("--node", "n2"), ["5"]),
        (("--top", "1"), ["5"]),
        (("--top", "1", "--state", "at-limit"), ["1"]),
        (("--top", "1", "--state", "in-sync", "--type", "gold"), ["1"]),
        (("--state", "in-sync"), ["1", "3", "2"]),
        (("--top", "0"), ["5", "4", "1", "3"]),
        (("--sort", "iops"), ["5", "1", "3", "4"]),
        (("--sort", "type"), ["3", "5", "4", "1"]),
        (("--type", "gold.*"), []),
        (("--type", "gold?[2J?", "--state", "left-alone"), ["6"]),
        (("--project", f'x"}} or plimsoll_disk_info{{project="{DEMO}'), []),
        (("--project", "\\"), []),
    ],
)
def test_filters_choose_by_plain_text_and_nothing_else(
    region: Callable[..., Ran], words: Sequence[str], guests: list[str]
) -> None:
    assert listed(region(RegionDisks, *words, "-f", "json")) == guests


def test_the_number_of_disks_is_of_all_and_not_of_the_listed_ones(region: Callable[..., Ran]) -> None:
    done = region(RegionDisks, "--top", "1")
    assert done.out.splitlines()[-1] == "1 unlimited, 1 failed, 1 deferred, 2 at limit; the worst 1 are listed"


def test_nodes_that_keep_sums_only_are_named_and_never_taken_for_well(region: Callable[..., Ran]) -> None:
    assert "1 node without metrics of single disks" in region(RegionDisks, "-f", "json").err
    alone = region(RegionDisks, "--region", "r2")
    assert (alone.status, alone.out) == (1, "")
    assert "[metrics] detail = aggregate" in alone.err


def test_what_a_node_that_is_behind_said_is_shown_with_its_age(region: Callable[..., Ran]) -> None:
    first, *others = region(RegionDisks, "--region", "r1").out.splitlines()[1:]
    assert "unlimited, failed (1 h" in first
    assert not any(" ago" in line for line in others)


# --- probes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "rows"),  # name, runs, the part that kept the promise, guests, those that broke it, those that are late
    [
        (("--by", "type"), [("gold", 2, 0.5, 2, 1, 0), (None, 0, None, 1, 0, 1)]),
        (("--by", "project"), [(OTHER, 1, 0.0, 1, 1, 0), (DEMO, 1, 1.0, 1, 0, 0), (None, 0, None, 1, 0, 1)]),
        (("--by", "node"), [("n1:9100", 2, 0.5, 3, 1, 1)]),
        (
            ("--by", "guest"),
            [(uuid_of(2), 1, 0.0, 1, 1, 0), (uuid_of(1), 1, 1.0, 1, 0, 0), (uuid_of(7), 0, None, 1, 0, 1)],
        ),
        (("--by", "type", "--project", DEMO), [("gold", 1, 1.0, 1, 0, 0)]),
        (("--by", "guest", "--type", "bronze"), []),
        (("--by", "type", "--since", "5m"), [("gold", 0, None, 2, 1, 0), (None, 0, None, 1, 0, 1)]),
    ],
)
def test_promises_are_added_up_by_what_is_asked_for(
    region: Callable[..., Ran], words: Sequence[str], rows: list[tuple[object, ...]]
) -> None:
    key = {"type": "volume_type", "project": "project", "node": "node", "guest": "guest_uuid"}[words[1]]
    assert [
        (row[key], sum(row["runs"].values()), row["kept"], row["guests"], row["broken"], row["late"])
        for row in as_json(region(RegionProbes, *words, "-f", "json"))
    ] == rows


def test_guests_cannot_be_told_apart_in_a_region_of_sums(region: Callable[..., Ran]) -> None:
    assert "No probe results." in region(RegionProbes, "--region", "r2", "--by", "guest").out


# --- what is shown ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [RegionStatus, RegionDisks, RegionProbes])
@pytest.mark.parametrize("kind", ["table", "csv", "json", "yaml"])
def test_no_label_reaches_the_terminal_as_it_is(
    region: Callable[..., Ran], command: type[RegionCommand], kind: str
) -> None:
    done = region(command, "-f", kind)
    assert done.out
    assert [line for line in done.out.split("\n") if not line.isprintable()] == []


def test_ids_are_whole_in_a_pipe(region: Callable[..., Ran]) -> None:
    assert VOLUMES[5] in region(RegionDisks).out


def test_prometheus_itself_says_what_it_does_not_understand(prometheus: str) -> None:
    asked = Prometheus(prometheus, token_file=None, ca_file=None, deadline=10)
    with pytest.raises(Rejected, match=r"request refused \(400\): .*parse error"):
        asked.query("sum by (")
