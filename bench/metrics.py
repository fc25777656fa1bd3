"""``script/bench metrics``: what it costs that a node tells how its disks are, and what the telling weighs.

On paused guests of a real libvirtd: whole passes with nothing to change, in pairs, one with metrics and one without;
then the file that they leave, as it is and as large as the budget lets it become, rendered and written in this
process and served by a real node_exporter that does nothing else. Beside it, over the same guests: the libvirt
exporter of the distribution, which asks libvirt at every scrape, and the one bulk call into libvirt that any such
exporter cannot do without. node_exporter asks nobody: its file is as old as the last pass.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import libvirt
from prometheus_client.parser import text_string_to_metric_families

from bench.lab import in_lab, say
from bench.measure import Spread, once
from bench.ways import BY_RULES, Way, Ways
from lab.cloud import Cloud, Guest, ephemeral, release, volume
from lab.cloud.layout import Layout
from plimsoll_agent.model.limits import BASES, Limits
from plimsoll_agent.model.usage import Rates
from plimsoll_agent.monitor import pass_metrics, pass_summary_file, textfile
from plimsoll_agent.monitor.pass_summary import LastDisk, LastPass
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace

GIB = 2**30
NODE_EXPORTER = "prometheus-node-exporter"
PEER = "prometheus-libvirt-exporter"
SCRAPES = 20
_BASES = ("read_iops_sec", "write_iops_sec", "read_bytes_sec", "write_bytes_sec")
FULL = Limits(
    **{f"{base}{ending}": 9 for base in _BASES for ending in ("", "_max", "_max_length")},
    size_iops_sec=4096,
)
"""Everything that can be set together."""
_DEADLINE = 20.0
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def main(words: Sequence[str]) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="script/bench metrics", description=__doc__, formatter_class=layout)
    parser.add_argument(
        "--guests", type=int, default=100, metavar="N", help="paused, with two RBD disks each; default: %(default)s"
    )
    parser.add_argument("--runs", type=int, default=9, metavar="N", help="of each kind of pass; default: %(default)s")
    arguments = parser.parse_args(words)
    return in_lab(lambda cloud: _measure_all(cloud, arguments.guests, arguments.runs))


def _measure_all(cloud: Cloud, number: int, runs: int) -> None:
    guests: list[Guest] = []
    try:
        say(f"starting {number} paused guests")
        guests = cloud.paused_guests([[ephemeral(GIB), volume(GIB)] for _ in range(number)])
        with tempfile.TemporaryDirectory() as home:
            Bench(cloud.libvirt_uri, Path(home), number, runs).run()
    finally:
        cloud.destroy_guests(guests)


@dataclass(frozen=True)
class Answer:
    """What somebody answers to a scrape, over HTTP; seconds."""

    text: str
    seconds: Spread

    @property
    def size(self) -> int:
        return len(self.text.encode())

    @property
    def series(self) -> int:
        return _count(self.text)


@dataclass(frozen=True)
class File:
    """A file of metrics, and node_exporter's answer with it."""

    text: str
    rendered: Spread
    """Seconds from the value of the last pass to the text on the disk, fsync and all."""
    answer: Answer

    @property
    def size(self) -> int:
        return len(self.text.encode())

    @property
    def series(self) -> int:
        return _count(self.text)


class Bench:
    """On one libvirt; what is kept stands below ``home``."""

    def __init__(self, uri: str, home: Path, guests: int, runs: int) -> None:
        self._uri = uri
        self._home = home
        self._guests = guests
        self._runs = runs
        self._ways = Ways(uri, home)
        self._textfiles = home / "textfiles"
        self._textfiles.mkdir()

    def run(self) -> None:
        way = self._ways.tighter(BY_RULES)
        without, told = self._passes(way)
        last = self._last(way)
        files = {
            "as it is: two limits a disk": self._file(last, "disk"),
            "everything that can be set": self._file(_filled(last, FULL), "disk"),
            "detail = aggregate": self._file(last, "aggregate"),
        }
        peer, bulk = self._peer(), self._bulk()
        self._show(without, told, last, files, peer, bulk)

    def _passes(self, way: Way) -> tuple[list[float], list[float]]:
        """Wall times of passes without and with metrics, run in turn; both after one that changed all."""
        quiet = self._ways.environment
        telling = quiet | {"OS_METRICS__TEXTFILE_DIR": str(self._textfiles)}
        once(way.command, quiet)
        once(way.command, telling)
        without, told = [], []
        for number in range(self._runs):
            say(f"pair {number + 1} of {self._runs}")
            without.append(once(way.command, quiet).wall)
            told.append(once(way.command, telling).wall)
        once(way.command, telling)  # averages are from one reading to the next, and a pass without metrics has none
        return without, told

    def _last(self, way: Way) -> LastPass:
        last = pass_summary_file.load(State(Path(way.command[2]).parent / "state"))
        if last is None or not all(disk.rates is not None and disk.shares for disk in last.disks):
            raise RuntimeError("the last pass has no averages of all disks")
        if len(last.disks) != 2 * self._guests:
            raise RuntimeError(f"the last pass saw {len(last.disks)} disks, not {2 * self._guests}")
        return last

    def _file(self, last: LastPass, detail: str) -> File:
        directory = Path(tempfile.mkdtemp(dir=self._home))

        def render() -> None:
            textfile.write(directory, "pass", pass_metrics.families(last, detail=detail))

        rendered = Spread.of(_seconds(render) for _ in range(self._runs))
        text = (directory / "plimsoll-pass.prom").read_text(encoding="utf-8")
        collector = ["--collector.disable-defaults", "--collector.textfile"]
        options = [*collector, f"--collector.textfile.directory={directory}"]
        exporter = release.program([f"/usr/bin/{NODE_EXPORTER}"], Layout.from_environment().cache)
        with _serving(NODE_EXPORTER, exporter, options) as url:
            answer = _scraped(url)
        if "\nnode_textfile_scrape_error 0\n" not in answer.text or "\nplimsoll_build_info{" not in answer.text:
            raise RuntimeError(f"{NODE_EXPORTER} did not take the file")
        return File(text, rendered, answer)

    def _peer(self) -> Answer | str:
        """Or why there is none."""
        try:
            with _serving(PEER, [PEER], [f"--libvirt.uri={self._uri}"]) as url:
                answer = _scraped(url)
        except (OSError, RuntimeError) as error:
            return str(error)
        told = answer.text.count("libvirt_domain_block_stats_read_bytes_total{")
        if told != 2 * self._guests:
            return f"{PEER} tells of {told} disks, not {2 * self._guests}"
        return answer

    def _bulk(self) -> Spread:
        """Seconds of the one call that has all counters of all disks, on a connection that stands."""
        connection = libvirt.openReadOnly(self._uri)
        try:
            return Spread.of(
                _seconds(lambda: connection.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_BLOCK)) for _ in range(SCRAPES)
            )
        finally:
            connection.close()

    def _show(
        self,
        without: Sequence[float],
        told: Sequence[float],
        last: LastPass,
        files: Mapping[str, File],
        peer: Answer | str,
        bulk: Spread,
    ) -> None:
        disks = len(last.disks)
        quiet, telling = Spread.of(without), Spread.of(told)
        ratio = Spread.of(one / other for one, other in zip(told, without, strict=True))
        say(f"\n{self._guests} guests, {disks} RBD disks; medians, and the least and greatest")
        say(f"\na whole pass with nothing to change, {self._runs} pairs")
        say(f"  {'without metrics':30}{_milliseconds(quiet):>28} ms")
        say(f"  {'with metrics':30}{_milliseconds(telling):>28} ms")
        more = (telling.middle - quiet.middle) * 1000
        say(f"  with metrics takes {ratio.middle:.2f} × as long ({ratio.least:.2f} to {ratio.greatest:.2f}):")
        say(
            f"  {more:.0f} ms more, in which the counters of all disks are read, and the file is rendered and written"
        )
        say(f"\n{'the file':30}{'KiB':>8}{'series':>8}{'a disk':>8}{'rendered, ms':>24}{'scraped, ms':>24}")
        for name, file in files.items():
            say(
                f"  {name:28}{file.size / 1024:8.0f}{file.series:8}{file.series / disks:8.1f}"
                f"{_milliseconds(file.rendered):>24}{_milliseconds(file.answer.seconds):>24}"
            )
        say("\nbeside it, the same guests asked at every scrape")
        if isinstance(peer, str):
            say(f"  {PEER}: {peer}")
        else:
            say(
                f"  {PEER:28}{peer.size / 1024:8.0f}{peer.series:8}{peer.series / disks:8.1f}"
                f"{'':24}{_milliseconds(peer.seconds):>24}"
            )
        say(f"  {'the bulk call alone':28}{'':48}{_milliseconds(bulk):>24}")
        self._show_goals(disks, files, ratio, peer, bulk)

    def _show_goals(
        self, disks: int, files: Mapping[str, File], ratio: Spread, peer: Answer | str, bulk: Spread
    ) -> None:
        ours, full, sums = files.values()
        asked = peer.seconds.middle if isinstance(peer, Answer) else bulk.middle
        whose = PEER if isinstance(peer, Answer) else "the bulk call"
        per_disk = pass_metrics.PER_DISK + 13 * pass_metrics.PER_PARAMETER + 4 * pass_metrics.PER_LIMIT
        room = pass_metrics.PER_NODE + 2 * pass_metrics.PER_TYPE
        usual, largest = (file.answer.seconds.middle / asked for file in (ours, full))
        goals = [
            (full.series <= disks * per_disk + room, f"no more series than the budget: {full.series}"),
            (sums.series <= room, f"with aggregates only no more than {room}, however many disks: {sums.series}"),
            (usual <= 0.25, f"a scrape of the file takes at most a quarter of the time of {whose}: {usual:.2f} ×"),
            (largest <= 1, f"a scrape of the largest file takes no longer than {whose}: {largest:.2f} ×"),
            (ratio.middle <= 1.5, f"a pass with metrics at most 1.5 × as long: {ratio.middle:.2f} ×"),
        ]
        say("\ngoals")
        for met, text in goals:
            say(f"  {'met   ' if met else 'MISSED'}  {text}")


def _filled(last: LastPass, limits: Limits) -> LastPass:
    """The same disks with all these limits in force and desired, and all of them used."""
    values = {base: 0.5 for base in BASES if getattr(limits, base)}
    rates = Rates(read_iops=12.5, write_iops=34.5, read_bytes=123456.5, write_bytes=654321.5, seconds=300.0)

    def full(disk: LastDisk) -> LastDisk:
        return replace(disk, actual=limits, desired=limits, rates=rates, shares=values, allowed=values)

    return replace(last, disks=tuple(map(full, last.disks)))


def _count(text: str) -> int:
    """The series of plimsoll or libvirt in it: those that an exporter tells of itself are no part of this."""
    families = [*text_string_to_metric_families(text)]
    return sum(len(each.samples) for each in families if each.name.startswith(("plimsoll_", "libvirt_")))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _milliseconds(spread: Spread) -> str:
    return f"{spread.middle * 1000:.1f} ({spread.least * 1000:.1f} to {spread.greatest * 1000:.1f})"


# --- exporters


@contextmanager
def _serving(name: str, program: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """An exporter on a port of its own; its address. Raises ``RuntimeError`` where it does not come up."""
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{some.getsockname()[1]}"
    with tempfile.TemporaryFile() as said:
        argv = [*program, *options, f"--web.listen-address={address}"]
        process = subprocess.Popen(argv, stdout=said, stderr=said)
        try:
            _wait_for(address, process)
            yield f"http://{address}/metrics"
        except RuntimeError as error:
            said.seek(0)
            raise RuntimeError(f"{name}: {error}: {said.read().decode(errors='replace')[-300:].strip()}") from error
        finally:
            process.terminate()
            process.wait(_DEADLINE)


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    host, port = address.split(":")
    deadline = time.monotonic() + _DEADLINE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("did not come up")


def _scraped(url: str) -> Answer:
    """Raises ``RuntimeError``."""
    _get(url)
    return Answer(_get(url), Spread.of(_seconds(lambda: _get(url)) for _ in range(SCRAPES)))


def _get(url: str) -> str:
    try:
        with _OPENER.open(url, timeout=_DEADLINE) as answer:
            text: str = answer.read().decode()
            return text
    except OSError as error:
        raise RuntimeError(f"{url}: {error}") from error
