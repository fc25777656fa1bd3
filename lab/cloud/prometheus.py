"""The cloud's Prometheus, as a region has it: two nodes' node_exporters, the rules, Alertmanager and a webhook."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import ports
from .command import LabError
from .daemon import Daemon
from .layout import CHECKOUT, Layout
from .namespace import Namespace
from .release import program

REGION = "lab"
NODES = dict(zip(("node-1", "node-2"), ports.NODE_EXPORTERS, strict=True))
PORTS = (ports.PROMETHEUS, ports.ALERTMANAGER, ports.WEBHOOK, *ports.NODE_EXPORTERS)
RULES = CHECKOUT / "etc/prometheus"

Sample = tuple[Mapping[str, str], float]
"""A series' labels, and its value."""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Alert:
    """As Prometheus holds it, or as the webhook was told of it. ``state``: pending, firing, resolved."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    state: str

    @property
    def name(self) -> str:
        return self.labels["alertname"]


def hurried(rules: str) -> str:
    """Rules that are evaluated each second, and whose alerts wait for one; windows and thresholds stay."""
    return re.sub(r"^(\s*(?:- )?(?:for|keep_firing_for|interval):).*$", r"\1 1s", rules, flags=re.MULTILINE)


class Prometheus:
    """Scrapes and evaluates each second; each series has the labels ``region`` and ``instance`` (node-1, node-2)."""

    def __init__(self, layout: Layout, namespace: Namespace) -> None:
        self._layout = layout
        self._home = layout.root / "prometheus"
        self._logs = layout.logs
        self._namespace = namespace
        self._told = self._home / "received.jsonl"
        self.prometheus = self._daemon("prometheus", self._prometheus(), f"{self.url}/-/ready")
        self.alertmanager = self._daemon("alertmanager", self._alertmanager(), f"{self.alertmanager_url}/-/ready")
        self.webhook = self._daemon("webhook", self._webhook(), f"http://127.0.0.1:{ports.WEBHOOK}/")
        self.exporters = {
            node: self._daemon(f"exporter-{node}", self._exporter(node), f"http://127.0.0.1:{port}/")
            for node, port in NODES.items()
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{ports.PROMETHEUS}"

    @property
    def alertmanager_url(self) -> str:
        return f"http://127.0.0.1:{ports.ALERTMANAGER}"

    # --- what a test does with it

    def textfiles(self, node: str) -> Path:
        """The directory from which that node's exporter serves ``*.prom``."""
        if node not in NODES:
            raise LabError(f"no node {node}: there are {', '.join(NODES)}")
        return self._home / node

    def clear(self) -> None:
        """Both nodes without a textfile, as before the first pass."""
        for node in NODES:
            for file in self.textfiles(node).iterdir():
                file.unlink()

    def forget(self, seconds: float) -> None:
        """``clear``, also of the past: what looks back over days finds no other test's series."""
        self.clear()
        self.wait_for('{__name__=~"plimsoll_.*"}', lambda found: not found, seconds)
        url = self._api("admin/tsdb/delete_series", {"match[]": '{__name__=~".*plimsoll.*"}'})
        _ask(urllib.request.Request(url, method="POST"))

    @contextmanager
    def scraping(self, address: str, paths: Mapping[str, Mapping[str, str]] | None = None) -> Iterator[None]:
        """Also the metrics that are served there; those of several ``paths`` with the labels of each."""
        each = paths or {"/metrics": {"instance": address}}
        targets = [{"targets": [address], "labels": {"__metrics_path__": path, **its}} for path, its in each.items()]
        more = self._home / f"more-{address.rpartition(':')[2]}.json"
        _replace(more, json.dumps(targets))
        try:
            for labels in each.values():
                matchers = ",".join(f'{name}="{value}"' for name, value in labels.items())
                self.wait_for(f"up{{{matchers}}} == 1", len, 60)
            yield
        finally:
            _replace(more, "[]")

    def use_rules(self, rewrite: Callable[[str], str] = hurried) -> None:
        """Those of etc/prometheus as they stand, each file's text through ``rewrite``."""
        if self._write_rules(rewrite):
            self.reload()

    def reload(self) -> None:
        """Raises LabError when Prometheus refuses the rules, and goes on with those that it had."""
        try:
            _ask(urllib.request.Request(f"{self.url}/-/reload", method="POST"))
        except LabError as error:
            raise LabError(f"{error}: see {self._logs}/prometheus.log") from None

    def query(self, promql: str) -> list[Sample]:
        """What an instant query says now, a scalar as one sample without labels."""
        data = self._get("query", {"query": promql})
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]

    def label_values(self, selector: str, label: str) -> list[str]:
        """As Grafana asks for what a variable may be."""
        values: list[str] = self._get(f"label/{label}/values", {"match[]": selector})
        return values

    def wait_for(self, promql: str, predicate: Callable[[Sequence[Sample]], object], seconds: float) -> list[Sample]:
        """The first answer that satisfies ``predicate``; the one before a series' first scrape is empty."""
        deadline = time.monotonic() + seconds
        while not predicate(samples := self.query(promql)):
            if time.monotonic() > deadline:
                raise LabError(f"{promql}: after {seconds:g} s still {samples}")
            time.sleep(0.2)
        return samples

    def alerts(self, state: str = "firing") -> list[Alert]:
        return [
            Alert(one["labels"], one["annotations"], one["state"])
            for one in self._get("alerts")["alerts"]
            if one["state"] == state
        ]

    def mark(self) -> int:
        """Here and now, for ``received``."""
        return self._told.stat().st_size if self._told.exists() else 0

    def received(self, since: int = 0) -> list[Alert]:
        """What the webhook was told since a ``mark``, in that order."""
        if not self._told.exists():
            return []
        with self._told.open("rb") as file:
            file.seek(since)
            told = [json.loads(line) for line in file.read().splitlines()]
        return [Alert(one["labels"], one["annotations"], one["status"]) for post in told for one in post["alerts"]]

    def wait_to_receive(self, name: str, state: str, since: int, seconds: float, **labels: str) -> Alert:
        """Alertmanager's word on one alert, with these labels among others."""
        deadline = time.monotonic() + seconds
        while True:
            told = self.received(since)
            for alert in told:
                if (alert.name, alert.state) == (name, state) and labels.items() <= alert.labels.items():
                    return alert
            if time.monotonic() > deadline:
                seen = ", ".join(f"{alert.name} {alert.state}" for alert in told) or "nothing"
                raise LabError(f"{name} {state}: not at the webhook after {seconds:g} s, but {seen}")
            time.sleep(0.2)

    # --- making it

    def make(self) -> None:
        for node in NODES:
            self.textfiles(node).mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        (self._home / "prometheus.json").write_text(json.dumps(_configuration(self._home), indent=2))
        (self._home / "alertmanager.json").write_text(json.dumps(_routes(), indent=2))
        self._write_rules(hurried)
        for daemon in self.daemons:
            daemon.start(wait=False)
        for daemon in self.daemons:
            daemon.wait_ready()

    def heal(self) -> None:
        for daemon in self.daemons:
            daemon.heal()

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        return (*self.exporters.values(), self.webhook, self.alertmanager, self.prometheus)

    def _write_rules(self, rewrite: Callable[[str], str]) -> bool:
        """Says whether they are others than before."""
        copies = self._home / "rules"
        copies.mkdir(exist_ok=True)
        before = {file.name: file.read_text() for file in copies.iterdir()}
        texts = {file.name: rewrite(file.read_text()) for file in RULES.glob("*.yaml")}
        for name in before.keys() - texts.keys():
            (copies / name).unlink()
        for name, text in texts.items():
            (copies / name).write_text(text)
        return before != texts

    def _get(self, what: str, arguments: Mapping[str, str] | None = None) -> Any:
        return json.loads(_ask(self._api(what, arguments or {})))["data"]

    def _api(self, what: str, arguments: Mapping[str, str]) -> str:
        return f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(arguments)}"

    def _daemon(self, name: str, argv: list[str], ready: str) -> Daemon:
        return Daemon(self._namespace, name, argv, self._logs / f"{name}.log", lambda: _answers(ready))

    def _of_release(self, *argv: str) -> list[str]:
        return program(argv, self._layout.cache_inside)

    def _prometheus(self) -> list[str]:
        return self._of_release(
            *("/usr/bin/prometheus", f"--config.file={self._home}/prometheus.json", "--log.level=warn"),
            *(f"--storage.tsdb.path={self._home}/data", f"--web.listen-address=127.0.0.1:{ports.PROMETHEUS}"),
            # After a reload it knows no Alertmanager for 5 s: what fires then is to be said again at once.
            *("--web.enable-lifecycle", "--web.enable-admin-api", "--rules.alert.resend-delay=1s"),
        )

    def _alertmanager(self) -> list[str]:
        return self._of_release(
            *("/usr/bin/prometheus-alertmanager", f"--config.file={self._home}/alertmanager.json"),
            *(f"--storage.path={self._home}/alertmanager", "--cluster.listen-address=", "--log.level=warn"),
            f"--web.listen-address=127.0.0.1:{ports.ALERTMANAGER}",
        )

    def _exporter(self, node: str) -> list[str]:
        return self._of_release(
            # As its package starts it: what only root may read is not to come out of it.
            *("/usr/bin/setpriv", "--reuid=prometheus", "--regid=prometheus", "--clear-groups", "--"),
            *("/usr/bin/prometheus-node-exporter", "--collector.disable-defaults", "--log.level=warn"),
            *("--collector.textfile", f"--collector.textfile.directory={self._home}/{node}"),
            f"--web.listen-address=127.0.0.1:{NODES[node]}",
        )

    def _webhook(self) -> list[str]:
        script = Path(__file__).with_name("services") / "webhook.py"
        return [sys.executable, "-I", str(script), str(ports.WEBHOOK), str(self._told)]


def _configuration(home: Path) -> dict[str, Any]:
    """prometheus.yml; JSON is YAML."""
    targets = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"region": REGION, "instance": node}}
        for node, port in NODES.items()
    ]
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [f"{home}/rules/*.yaml"],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{ports.ALERTMANAGER}"]}]}],
        },
        "scrape_configs": [
            {"job_name": "node", "static_configs": targets},
            {"job_name": "more", "file_sd_configs": [{"files": [f"{home}/more-*.json"]}]},
        ],
    }


def _routes() -> dict[str, Any]:
    """alertmanager.yml: every alert by itself, at once."""
    hook = {"url": f"http://127.0.0.1:{ports.WEBHOOK}/", "send_resolved": True}
    at_once = {"group_by": ["..."], "group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"}
    return {
        "route": {"receiver": "webhook"} | at_once,
        "receivers": [{"name": "webhook", "webhook_configs": [hook]}],
    }


def _replace(file: Path, text: str) -> None:
    """At once: Prometheus reads it as soon as it is changed."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def _answers(url: str) -> bool:
    try:
        with _OPENER.open(url, timeout=5):
            return True
    except OSError:
        return False


def _ask(request: urllib.request.Request | str) -> bytes:
    try:
        with _OPENER.open(request, timeout=10) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        raise LabError(f"Prometheus: {error.read().decode(errors='replace').strip()}") from None
    except OSError as error:
        raise LabError(f"Prometheus does not answer: {error}") from None
