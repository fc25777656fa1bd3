"""What a replay costs: ``script/bench replay``, on a server that answers as Prometheus does.

Every disk reaches its new limit, so that none is left out: the worst case; with ``--limit 900`` none does. The
server only joins text that it made before, so what a Prometheus takes to find and to write the samples comes on top:
``--prometheus`` asks a real one, with as many disks as promtool fills in some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import parse_qs

from bench.lab import say
from bench.measure import Cost, once
from bench.ways import PLIMSOLL
from tests.simulated_region import prometheus_of

STEP = 60
PER_NODE = 40
LIMIT = 500
QOS = """\
qos_specs: {{gold: {{consumer: front-end, keys: {{total_iops_sec: {limit}}}}}}}
volume_types: {{gold: {{qos_spec: gold}}}}
"""
PATTERNS = 16
_VALUES = {"operations": (120, 330), "bytes": (500_000, 1_300_000), "ratio": (0, 0), "latency": (0.001, 0.0012)}
_LISTS = {label: re.compile(label + r'=~"([^"]*)"') for label in ("uuid", "instance")}


def uuid_of(disk: int) -> str:
    return f"{disk:08x}-0000-4000-8000-000000000000"


def value_of(metric: str, pattern: int, at: int) -> str:
    """Busy by day, so that a disk is at the limit that is tried for a part of it."""
    low, high = _VALUES[metric]
    hour = (at // 3600 + pattern) % 24
    noise = ((at // STEP * 2654435761 + pattern * 40503) % 1000) / 1000
    value = low + (high - low) * noise * (1.0 if 8 <= hour < 18 else 0.4)
    return f"{value / LIMIT if metric == 'ratio' else value:.6g}"


class Answers:
    """What the server says; all nodes are of one region."""

    def __init__(self, disks: int) -> None:
        self.disks = disks
        self._columns: dict[tuple[str, int, int, int], bytes] = {}

    def of(self, form: dict[str, list[str]]) -> bytes:
        query = form["query"][0]
        if "start" in form:
            first, last = int(form["start"][0]), int(form["end"][0])
            return self._matrix(query, first, last)
        return self._vector(query, float(form.get("time", ["0"])[0]))

    def _matrix(self, query: str, first: int, last: int) -> bytes:
        if "observed" in query:
            rows = [
                self._row({"region": "r1", "instance": f"n{node}"}, "1", 0, first, last) for node in self._nodes()
            ]
        else:
            metric = next(
                name for name in ("operations", "latency", "bytes", "ratio") if f"average_{name}" in query or
                f"average_limit_{name}" in query
            )  # fmt: skip
            rows = [
                self._row(self._of_disk(disk), metric, disk % PATTERNS, first, last) for disk in self._chosen(query)
            ]
        return b'{"status":"success","data":{"resultType":"matrix","result":[' + b",".join(rows) + b"]}}"

    def _row(self, labels: dict[str, str], metric: str, pattern: int, first: int, last: int) -> bytes:
        key = metric, pattern, first, last
        if key not in self._columns:
            values = (
                f'[{at},"{value_of(metric, pattern, at) if metric in _VALUES else metric}"]'
                for at in range(first, last + 1, STEP)
            )
            self._columns[key] = ",".join(values).encode()
        return b'{"metric":' + json.dumps(labels).encode() + b',"values":[' + self._columns[key] + b"]}"

    def _vector(self, query: str, at: float) -> bytes:
        result = [{"metric": labels, "value": [at, value]} for labels, value in self._instant(query)]
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()

    def _instant(self, query: str) -> Iterator[tuple[dict[str, str], str]]:
        if "unless" in query:
            return
        if "sum by (region, instance)" in query:
            yield from (({"region": "r1", "instance": f"n{node}"}, str(PER_NODE)) for node in self._nodes())
        elif "pass_interval" in query or "pass_last" in query:
            yield {}, "60"
        else:
            kinds = {
                "plimsoll_disk_info": "1", "plimsoll_disk_unlimited": "0", "limit_actual_operations": str(LIMIT),
                "max_over_time(plimsoll_disk_average_operations": "330",
                "max_over_time(plimsoll_disk_average_bytes": "1300000",
                "limit_ratio": "0.7", "count_over_time": "10080",
            }  # fmt: skip
            value = next((value for kind, value in kinds.items() if kind in query), None)
            for disk in self._chosen(query) if value else ():
                labels = self._of_disk(disk)
                if "info" in query:
                    labels |= {"volume": uuid_of(disk), "project": f"{disk // 20:032x}", "volume_type": "gold",
                               "pool": "volumes"}  # fmt: skip
                if "limit_actual" in query:
                    labels["parameter"] = "total_iops_sec"
                for side in ("read", "write") if "direction" in query and "count" not in query else ("read",):
                    yield {**labels, "direction": side}, value

    def _of_disk(self, disk: int) -> dict[str, str]:
        return {"region": "r1", "instance": f"n{disk // PER_NODE}", "domain": f"instance-{disk:08}",
                "target_device": "vda", "uuid": uuid_of(disk)}  # fmt: skip

    def _nodes(self) -> range:
        return range(self.disks // PER_NODE)

    def _chosen(self, query: str) -> list[int]:
        if found := _LISTS["uuid"].search(query):
            return [int(uuid.partition("\\")[0].partition("-")[0], 16) for uuid in found[1].split("|")]
        nodes = _LISTS["instance"].search(query)
        assert nodes, query
        return [
            disk
            for node in nodes[1].split("|")
            for disk in range(int(node[1:]) * PER_NODE, (int(node[1:]) + 1) * PER_NODE)
        ]


def serve(disks: int, pipe: Connection) -> None:
    answers = Answers(disks)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            if form["query"] == ["time()"]:
                now = time.time()
                body = json.dumps(
                    {"status": "success", "data": {"resultType": "scalar", "result": [now, str(now)]}}
                ).encode()
            else:
                body = answers.of(form)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pipe.send(server.server_address[1])
    server.serve_forever()


@contextmanager
def served(disks: int) -> Iterator[str]:
    context = get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(disks, theirs), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


@contextmanager
def filled(disks: int, days: float, home: Path) -> Iterator[str]:
    """A real Prometheus."""
    now = int(time.time())
    answers = Answers(disks)
    lines: dict[str, list[str]] = {}

    def put(metric: str, labels: dict[str, str], values: Sequence[tuple[int, str]]) -> None:
        named = ",".join(f'{name}="{value}"' for name, value in {"job": "node", **labels}.items())
        lines.setdefault(metric, []).extend(f"{metric}{{{named}}} {value} {at}" for at, value in values)

    times = range(now - int(days * 86400), now + 1, STEP)
    for node in range(disks // PER_NODE):
        where = {"region": "r1", "instance": f"n{node}"}
        put("plimsoll_disks", {**where, "state": "in-sync", "volume_type": "gold"}, [(now, str(PER_NODE))])
        for name in ("observed", "last"):
            put(f"plimsoll_pass_{name}_timestamp_seconds", where, [(at, str(at)) for at in times])
        put("plimsoll_pass_interval_seconds", where, [(at, "60") for at in times])
    for disk in range(disks):
        labels, pattern = answers._of_disk(disk), disk % PATTERNS
        named = {"volume": uuid_of(disk), "project": f"{disk // 20:032x}", "volume_type": "gold", "pool": "volumes"}
        put("plimsoll_disk_info", labels | named, [(now, "1")])
        put("plimsoll_disk_unlimited", labels, [(now, "0")])
        total = labels | {"parameter": "total_iops_sec"}
        put("plimsoll_disk_limit_actual_operations_per_second", total, [(now, str(LIMIT))])
        put("plimsoll_disk_average_limit_ratio", total, [(at, value_of("ratio", pattern, at)) for at in times])
        put("plimsoll_disk_average_latency_seconds", labels, [(at, value_of("latency", pattern, at)) for at in times])
        for unit in ("operations", "bytes"):
            for side in ("read", "write"):
                values = [(at, value_of(unit, pattern, at)) for at in times]
                put(f"plimsoll_disk_average_{unit}_per_second", labels | {"direction": side}, values)
    with prometheus_of(lines, home) as there:
        lines.clear()
        yield there.url


def measure(url: str, home: Path, days: float, limit: int) -> Cost:
    (home / "rules.yaml").write_text("{}\n")
    (home / "qos.yaml").write_text(QOS.format(limit=limit))
    words = [
        PLIMSOLL, "simulate", "--from-prometheus", url, "--since", f"{int(days * 1440)}m", "--step", str(STEP),
        "--rules", str(home / "rules.yaml"), "--qos", str(home / "qos.yaml"), "-f", "json",
    ]  # fmt: skip
    return once(words, os.environ, (0, 2))


def main(words: Sequence[str]) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="script/bench replay", description=__doc__, formatter_class=layout)
    parser.add_argument("--disks", type=int, default=2000, metavar="N", help="default: %(default)s")
    parser.add_argument("--days", type=float, default=7, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--limit",
        type=int,
        default=300,
        metavar="IOPS",
        help="that is tried; disks do up to 660; default: %(default)s",
    )
    parser.add_argument("--prometheus", action="store_true", help="ask a real one; 80 disks need some minutes")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        home = Path(name)
        there = filled(arguments.disks, arguments.days, home) if arguments.prometheus else served(arguments.disks)
        with there as url:
            cost = measure(url, home, arguments.days, arguments.limit)
    samples = arguments.disks * int(arguments.days * 86400 / STEP)
    say(f"{arguments.disks} disks, {arguments.days:g} days, {samples:.3g} values of each metric: {cost.wall:.1f} s,"
        f" {cost.cpu:.1f} s of the processor, {cost.memory / 1024:.0f} MiB")  # fmt: skip
    return 0
