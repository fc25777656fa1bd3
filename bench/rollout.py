"""``script/bench rollout``: what a rollout costs, on six hosts over ssh, and what that makes of a region of 750.

Three runs, each with one host alone first, and then with the others in one batch: on fresh hosts, once more with
nothing to change, and of another version. What a batch of one takes is the wire and the node; what each further host
takes of the controller's processors is the controller. "On paper" is a task that does nothing, on as many hosts as
the region has, and on few: what a host costs more where there are many.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

from bench.lab import in_lab, say
from lab import collection, packages
from lab.cloud import Cloud, ports
from lab.cloud.fleethost import COMPILE_ONCE
from lab.cloud.layout import CHECKOUT
from lab.wheelhouses import VERSION

HOSTS = ("r1-c1", "r1-c2", "r1-c3", "r2-c1", "r2-c2", "r2-c3")
PAPER = 10
"""Tasks that do nothing."""


@dataclass(frozen=True)
class Batch:
    """A batch as it was measured, in seconds. ``own`` is of Ansible's main process, ``others`` of what it started."""

    hosts: int
    tasks: float
    """That ran, for each host."""
    skipped: float
    wall: float
    own: float
    others: float
    slowest: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Costs:
    """What the batches of a run come to: processor seconds of the controller for each host, how long one takes."""

    tasks: float
    """Those that were skipped, too: it costs the controller as much to hand them out."""
    alone: float
    """Seconds of wall for a batch of one host."""
    main: float
    forks: float

    def among_many(self, few: tuple[float, float], many: tuple[float, float]) -> Costs:
        """The same, where a task on one of many hosts costs more than on one of few (main process, forks)."""
        own, others = (self.tasks * (much - little) for much, little in zip(many, few, strict=True))
        return replace(self, main=self.main + own, forks=self.forks + others)


def main(words: Sequence[str]) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="script/bench rollout", description=__doc__, formatter_class=layout)
    parser.add_argument("--forks", type=int, default=8, metavar="N", help="default: %(default)s")
    parser.add_argument("--region", type=int, default=750, metavar="N", help="its nodes; default: %(default)s")
    arguments = parser.parse_args(words)
    return in_lab(lambda cloud: _measure(cloud, arguments.forks, arguments.region), ("fleet",))


def _measure(cloud: Cloud, forks: int, region: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        key = packages.repository(home / "repository", [*packages.debs(), *packages.debs("0.1.1")])
        cloud.fleet.reset(HOSTS)
        for host in HOSTS:
            cloud.fleet.run(host, f"rm {COMPILE_ONCE}")
        controller = Controller(home, forks)
        with packages.served(home / "repository", f"{ports.FLEET_NETWORK}.1") as url:
            source = {"plimsoll_repository": url, "plimsoll_repository_key": key}
            cloud.fleet.write_inventory(home / "hosts.yml", list(HOSTS), source)
            runs = {
                "fresh": controller.rollout(VERSION),
                "nothing to change": controller.rollout(VERSION),
                "another version": controller.rollout("0.1.1"),
            }
        for run, batches in runs.items():
            _show(run, batches, forks)
        few, many = controller.on_paper(len(HOSTS)), controller.on_paper(region)
        say("a task that does nothing, on paper: ms of the main process and of forks, for each host")
        for hosts, (own, others) in ((len(HOSTS), few), (region, many)):
            say(f"  {hosts:6} hosts{1000 * own:8.1f}{1000 * others:8.1f}")
        say()
        _extrapolate(_costs(runs["another version"]).among_many(few, many), region)


class Controller:
    """Ansible on this machine, with the checkout's collection."""

    def __init__(self, home: Path, forks: int) -> None:
        self._home, self._forks = home, forks
        collection.link(home)

    def rollout(self, version: str) -> list[Batch]:
        """One host, and then the others in one batch."""
        told = {
            "plimsoll_version": version,
            "plimsoll_rollout_regions": ["plimsoll"],
            "plimsoll_rollout_fraction": 100,
        }
        said = self._play(CHECKOUT / "ansible/playbooks/rollout.yml", "hosts.yml", json.dumps(told))
        return list(_batches(said, "Roll out"))

    def on_paper(self, hosts: int) -> tuple[float, float]:
        """Seconds of the main process, and of its children, for a task that does nothing, on one of so many hosts."""
        task = [{"name": f"Nothing {number}", "ansible.builtin.debug": {"msg": ""}} for number in range(PAPER)]
        play = [{"name": "Paper", "hosts": "all", "gather_facts": False, "tasks": task}]
        (self._home / "paper.yml").write_text(json.dumps(play), encoding="utf-8")
        names = {f"cmp-{number:04}": {} for number in range(hosts)}
        (self._home / "paper-hosts.yml").write_text(json.dumps({"plimsoll": {"hosts": names}}), encoding="utf-8")
        (batch,) = _batches(self._play(self._home / "paper.yml", "paper-hosts.yml", "{}"), "Paper")
        return batch.own / (hosts * PAPER), batch.others / (hosts * PAPER)

    def _play(self, playbook: Path, inventory: str, more: str) -> Mapping[str, Any]:
        told = self._home / "stopwatch.json"
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self._home),
            "ANSIBLE_CALLBACK_PLUGINS": str(CHECKOUT / "bench/callbacks"),
            "ANSIBLE_CALLBACKS_ENABLED": "stopwatch",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_FORKS": str(self._forks),
            "STOPWATCH": str(told),
        }
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(self._home / inventory)]
        command += [str(playbook), "-e", more]
        ended = subprocess.run(command, env=environment, cwd=self._home, capture_output=True, text=True)
        if ended.returncode:
            raise RuntimeError(f"{playbook.name} ended with {ended.returncode}: {ended.stdout[-2000:]}{ended.stderr}")
        said: Mapping[str, Any] = json.loads(told.read_text(encoding="utf-8"))
        return said


def _batches(said: Mapping[str, Any], name: str) -> Iterator[Batch]:
    """Those of one play: Ansible begins a play again for each batch."""
    for play, end in pairwise([*said["plays"], said["ended"]]):
        if play["name"] != name:
            continue
        hosts, tasks = len(play["hosts"]), play["tasks"]
        times = [*(task["at"] for task in tasks), end["at"]]
        spans = sorted(
            ((task["name"], after - task["at"]) for task, after in zip(tasks, times[1:], strict=True)),
            key=lambda span: -span[1],
        )
        yield Batch(
            hosts,
            sum(task["ran"] for task in tasks) / max(hosts, 1),
            sum(task["skipped"] for task in tasks) / max(hosts, 1),
            end["at"] - play["at"],
            end["own"] - play["own"],
            end["others"] - play["others"],
            tuple(spans[:5]),
        )


def _costs(batches: Sequence[Batch]) -> Costs:
    alone, many = batches
    further = many.hosts - alone.hosts
    return Costs(
        many.tasks + many.skipped,
        alone.wall,
        (many.own - alone.own) / further,
        (many.others - alone.others) / further,
    )


def _show(run: str, batches: Sequence[Batch], forks: int) -> None:
    say(f"{run}, at {forks} forks")
    columns = ("hosts", 6), ("tasks a host", 14), ("skipped", 9), ("wall s", 8), ("s a task", 10)
    say("  " + "".join(f"{name:>{width}}" for name, width in (*columns, ("main CPU s", 12), ("forks CPU s", 13))))
    for batch in batches:
        each = batch.wall / batch.tasks
        say(
            f"  {batch.hosts:6}{batch.tasks:14.1f}{batch.skipped:9.1f}{batch.wall:8.1f}{each:10.2f}"
            f"{batch.own:12.1f}{batch.others:13.1f}"
        )
    for name, seconds in batches[-1].slowest:
        say(f"  {seconds:6.1f} s  {name}")
    costs = _costs(batches)
    say(f"  a further host costs the controller {costs.main:.2f} s in its main process, {costs.forks:.2f} s in forks")
    say()


def _extrapolate(costs: Costs, region: int) -> None:
    say(f"a region of {region}, of another version: canary 1, then {max(1, region // 10)}, then the rest; minutes")
    say(f"  {'forks':>6}{'processors':>12}{'main process':>14}{'forks':>9}{'wire':>8}{'in all':>9}")
    for forks in (8, 25, 50, 100):
        for processors in (2, 8):
            bounds = [_minutes(costs, size, forks, processors) for size in _sizes(region)]
            sums = [sum(column) for column in zip(*bounds, strict=True)]
            longest = sum(max(bound) for bound in bounds)
            say(f"  {forks:6}{processors:12}{sums[0]:14.1f}{sums[1]:9.1f}{sums[2]:8.1f}{longest:9.1f}")


def _sizes(region: int) -> tuple[int, ...]:
    second = max(1, region // 10)
    return (1, second, region - 1 - second)


def _minutes(costs: Costs, hosts: int, forks: int, processors: int) -> tuple[float, float, float]:
    """What the batch takes if only that bounded it: the main process; the forks; the wire and the nodes."""
    return (
        hosts * costs.main / 60,
        hosts * (costs.main + costs.forks) / processors / 60,
        ceil(hosts / forks) * costs.alone / 60,
    )
