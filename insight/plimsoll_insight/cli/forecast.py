"""``plimsoll forecast``: what a failure would cost, before it happens."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.columns import NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import time_of
from plimsoll_agent.util import quantities
from plimsoll_agent.util.frozen import names as fields_of
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.quantities import Quantity
from plimsoll_agent.util.text import first_few, meant, plural, printable, ranged
from plimsoll_insight.cli.cluster_options import add_cluster, cluster_of
from plimsoll_insight.forecast import failures, settings
from plimsoll_insight.forecast.arithmetic import ENTRY, MISSING
from plimsoll_insight.forecast.failures import Failure
from plimsoll_insight.forecast.forecast import Forecast, Inputs, forecast
from plimsoll_insight.forecast.ranges import Range, exactly, over_all
from plimsoll_insight.load.tally import size_words
from plimsoll_insight.slow.tree import Tree
from plimsoll_probes.output.messages import iops_words, latency_words

if TYPE_CHECKING:
    from plimsoll_insight.adapters.cluster import LiveCluster

_BITS = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?([kMGT])bit(?:/s)?", re.ASCII)
_BIT_UNITS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_OBJECT_SIZE, _WRITE_SIZE = 4 << 20, 4 << 10
_TIMES = (("s", 1, 120.0), ("min", 60, 7200.0), ("h", 3600, 172_800.0), ("d", 86_400, math.inf))
_MOST_ROWS = 1000
_NAMED = 3
_DEADLINE = 30.0

COLUMNS = (
    Column("failure", head="WHAT FAILS", most=40),
    Column("degraded", right=True),
    Column("stopped", right=True, drop=6),
    Column("detect", head="DETECTED IN", right=True, drop=7),
    Column("service", head="LATENCY", right=True),
    Column("iops_share", head="IOPS LEFT", right=True),
    Column("iops", right=True, drop=4),
    Column("objects", right=True, long=True),
    Column("stale", right=True, drop=5),
    Column("objects_sec", head="OBJECTS/s", right=True, drop=2),
    Column("bound", long=True),
    Column("clean", head="CLEAN IN", right=True),
    Column("rebuild", head="REBUILT IN", right=True, drop=3),
    Column("memory", head="HOST MEMORY", right=True, drop=1),
)
_NAMES = {
    "service": "the time of a write",
    "iops_share": "the IOPS left",
    "iops": "IOPS",
    "stale": "stale objects",
    "objects_sec": "objects a second",
    "clean": "the time to clean",
    "rebuild": "the time to rebuild",
    "memory": "memory",
}


class ForecastList(LocalCommand, Listing):
    """Forecast what a failure of Ceph's hosts would cost.

    It computes writes to degraded objects, IOPS left, recovery, and the memory of the return.

    What fails is given by counts (--domains and --copies, or --degraded), or found on the CRUSH tree of a running
    cluster (--live with --each or --lose). A NUMBER is exact or a range, LOW..HIGH; figures are ranges where the
    numbers are. A figure is left out where a number for it is unknown, and a line names the options that would tell
    it.

    Exit status:
        0   done
        1   error
        64  usage

    Examples:
        plimsoll forecast --live --each rack
        plimsoll forecast --live --lose node12 --away 10m
        plimsoll forecast --domains 30 --copies 3 --network 10Gbit/s --objects 10M
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        what = parser.add_argument_group("what fails")
        what.add_argument("--domains", metavar="N,N,...", help="of so many failure domains of one size")
        what.add_argument("--lost", metavar="N", type=int, default=1, help="so many of these; default: 1")
        what.add_argument("--degraded", metavar="P,P,...",
                          help="so much of what guests write to is degraded, in per cent")  # fmt: skip
        what.add_argument("--live", action="store_true", help="ask the running cluster for its tree and placement")
        what.add_argument("--each", metavar="TYPE", help="with --live: each host, rack, osd or another type")
        what.add_argument("--lose", metavar="NAME", action="append", default=[],
                          help="with --live: this host, rack or osd.N; repeatable, all at once")  # fmt: skip
        add_cluster(what)
        facts = parser.add_argument_group("what is known")
        for option, unit, words in (
            ("--copies", "NUMBER", "of each object"),
            ("--objects", "NUMBER", "in the whole cluster"),
            ("--osds-per-domain", "NUMBER", "OSDs of a failure domain"),
            ("--hosts-per-domain", "NUMBER", "hosts of a failure domain, as where it is a rack; default: 1"),
            ("--write-latency", "TIME", "of a small write without trouble: 1ms"),
            ("--object-latency", "TIME", "to read, or to write, a whole object: 22ms"),
            ("--object-size", "SIZE", "default: 4MiB, as of RBD; with --live the mean of the cluster"),
            ("--write-size", "SIZE", "default: 4KiB"),
            ("--network", "RATE", "of a host for replication: 10Gbit/s, 1200MB"),
            ("--disk", "RATE", "of an OSD, when whole objects are written: 900MB"),
            ("--recovery-active", "NUMBER", "osd_recovery_max_active of an OSD"),
            ("--recovery-sleep", "TIME", "osd_recovery_sleep, or osd_recovery_sleep_degraded; default: 0"),
            (
                "--max-backfills",
                "NUMBER",
                "osd_max_backfills: placement groups that an OSD recovers at once; default: 1",
            ),
            (
                "--peering",
                "TIME",
                "until the recovery of objects begins; default: what OSDs counted (--live), or 1s..10s where unknown",
            ),
            ("--write-iops", "NUMBER", "of all guests"),
            ("--away", "TIME", "until what failed returns: 10m"),
            ("--stale", "NUMBER", "objects that are written until then; default: by --write-iops and --away"),
            ("--osd-memory", "SIZE", "of an OSD without trouble"),
            ("--pgs-per-osd", "NUMBER", "placement groups of an OSD"),
            ("--log-entries", "NUMBER", "of a placement group; default: as Ceph has it since Octopus"),
        ):
            facts.add_argument(option, metavar=unit, help=words)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        inputs = _inputs(parsed_args)
        if sum(map(bool, (parsed_args.domains, parsed_args.degraded, parsed_args.live))) != 1:
            raise UsageError("give one of --domains N, --degraded P and --live")
        if parsed_args.live:
            cases, inputs, notes = self._live(parsed_args, inputs)
        else:
            cases, notes = _by_counts(parsed_args, inputs), ()
            inputs = _fill(inputs, settings.usual())
        each = [forecast(failure, inputs) for failure in cases]
        unknown = list(_unknown(each))
        if not any(_figures(one) for one in each) and not parsed_args.live:
            raise UsageError(unknown[0] if unknown else "nothing to forecast")
        self.closing = (
            *unknown,
            *_not_rebuilt(each),
            *_default_words(parsed_args, inputs),
            *notes,
            *_assumptions(inputs, each),
        )
        if parsed_args.formatter != "table":
            self.app.stderr.writelines(f"{line}\n" for line in unknown)
        return COLUMNS, [_cells(one) for one in each]

    def _live(self, parsed_args: argparse.Namespace, inputs: Inputs) -> tuple[list[Failure], Inputs, tuple[str, ...]]:
        if bool(parsed_args.each) == bool(parsed_args.lose):
            raise UsageError("--live needs --each TYPE or --lose NAME, and not both")
        cluster = cluster_of(parsed_args, lambda: self.settings(parsed_args).ceph, _DEADLINE)
        osd_map, placement = cluster.map(), cluster.placement()
        if no_report := [pool.name for pool in placement.pools.values() if pool.is_unknown]:
            raise PlimsollError(
                f"the manager has no report of any placement group of {printable(', '.join(no_report[:_NAMED]))}"
                f"{' and others' if len(no_report) > _NAMED else ''}: ask again when ceph status has none unknown"
            )
        cases = _on_the_tree(parsed_args, osd_map.tree, placement)
        sample = settings.sample(_concerned(cases, osd_map.up), osd_map.tree.class_of)
        # One without placement groups has no logs.
        groups = over_all(failure.groups for failure in cases if failure.groups and failure.groups.high)
        read, more = self._read_settings(cluster, sample, groups)
        size = exactly(placement.object_bytes) if placement.object_bytes and not parsed_args.object_size else None
        complete = _fill(
            replace(inputs, object_size=size or inputs.object_size, status_delay=self._status_delay(cluster)),
            replace(read, copies=placement.copies),
        )
        notes = (*_source_words(inputs, read, [f"osd.{osd}" for osd in sample]), *more)
        if osd_map.down:
            notes = (*notes, f"{plural(len(osd_map.down), 'OSD')} down already: what was on them is in no figure.")
        if placement.unknown:
            notes = (
                *notes,
                f"{plural(placement.unknown, 'placement group')} unknown to the manager: figures go up to what would"
                " be if all those without OSDs were hit.",
            )
        return cases, _fill(complete, settings.usual()), notes

    def _read_settings(
        self, cluster: LiveCluster, sample: Sequence[int], groups: Range | None
    ) -> tuple[Inputs, list[str]]:
        """Of these OSDs; what cannot be had stays unknown, with a line on it. And what else is to be told."""
        read, more = Inputs(), []
        try:
            osds = [cluster.osd_settings(osd) for osd in sample]
            read = settings.known_by(osds, groups) if sample else read
            if any(osd.has_mclock for osd in osds):
                more.append("osd_op_queue is mclock_scheduler: its profile may let recovery take longer.")
        except PlimsollError as error:
            self.warn_of(f"The settings of OSDs are unknown: {error}")
        try:
            measurement = settings.measured_by([cluster.counters(osd) for osd in sample])
        except PlimsollError as error:
            self.warn_of(f"The times of writes and of peering are unknown: {error}")
            return read, more
        return _fill(read, measurement), more

    def _status_delay(self, cluster: LiveCluster) -> Range | None:
        try:
            return settings.status_delay(cluster.manager_settings())
        except PlimsollError as error:
            self.warn_of(f"The settings of the manager are unknown, its defaults are taken: {error}")
            return None


def _fill(inputs: Inputs, by: Inputs) -> Inputs:
    """Where it is unknown, with the other."""
    names = [name for name in fields_of(Inputs) if getattr(inputs, name) is None]
    return replace(inputs, **{name: getattr(by, name) for name in names})


def _concerned(cases: Sequence[Failure], up: Collection[int]) -> Collection[int]:
    """Those up that share placement groups with what fails: others may have other devices and settings."""
    groups = {osd for failure in cases for group in failure.recovering for osd in group.osds}
    return groups.intersection(up) or up


def _source_words(inputs: Inputs, read: Inputs, osds: Sequence[str]) -> tuple[str, ...]:
    """What was taken from these OSDs, as it was not given."""
    words = [
        words(value)
        for name, words in _READ.items()
        if getattr(inputs, name) is None and (value := getattr(read, name)) is not None
    ]
    return (f"Of {_join(osds, 'and')}: {', '.join(words)}.",) if words else ()


def _on_the_tree(parsed_args: argparse.Namespace, tree: Tree, placement: failures.Placement) -> list[Failure]:
    """Raises ``UsageError``."""
    try:
        if parsed_args.lose:
            return [failures.together(parsed_args.lose, tree, placement)]
        cases = list(failures.each_of(parsed_args.each, tree, placement))
    except failures.UnknownBucket as error:
        option = "--lose" if parsed_args.lose else "--each"
        raise UsageError(f"{option}: {error}; {meant(error.name, error.known)}") from error
    if len(cases) > _MOST_ROWS:
        raise UsageError(f"--each {parsed_args.each}: {len(cases)} rows are too many; give --lose NAME")
    return cases


def _by_counts(parsed_args: argparse.Namespace, inputs: Inputs) -> list[Failure]:
    """Raises ``UsageError``."""
    objects = _range("--objects", parsed_args.objects, _number)
    per_domain = _whole("--osds-per-domain", parsed_args.osds_per_domain)
    hosts = _whole("--hosts-per-domain", parsed_args.hosts_per_domain) or 1
    if per_domain is not None and per_domain < hosts:
        raise UsageError(f"--osds-per-domain {per_domain}: fewer than hosts (--hosts-per-domain {hosts})")
    if parsed_args.degraded:
        shares = [_percent(word) for word in parsed_args.degraded.split(",")]
        return [
            Failure(
                name=f"{100 * share:g} % degraded",
                share=exactly(share),
                objects=_part(objects, share),
                osds=per_domain,
                hosts=hosts,
                recovering=()
                if per_domain is None or inputs.copies is None
                else failures.spread(per_domain, None, int(inputs.copies.low), _usual_groups(inputs)),
            )
            for share in shares
        ]
    if inputs.copies is None:
        raise UsageError("--domains needs --copies: how many each object has")
    if not inputs.copies.is_exact or inputs.copies.low != int(inputs.copies.low):
        raise UsageError("--copies: with --domains a whole number")
    cases = []
    for word in parsed_args.domains.split(","):
        domains = _whole("--domains", word.strip()) or 0
        try:
            cases.append(
                failures.by_counts(
                    domains,
                    parsed_args.lost,
                    int(inputs.copies.low),
                    objects,
                    per_domain,
                    _usual_groups(inputs),
                    hosts,
                )
            )
        except ValueError as error:
            raise UsageError(f"--domains {word}: {error}") from error
    return cases


def _usual_groups(inputs: Inputs) -> float:
    return inputs.pgs_per_osd.high if inputs.pgs_per_osd else failures.USUAL_GROUPS


def _part(objects: Range | None, share: float) -> Range | None:
    return None if objects is None else Range(share * objects.low, share * objects.high)


def _inputs(parsed_args: argparse.Namespace) -> Inputs:
    """Raises ``UsageError``."""

    def of(name: str, read: Callable[[str, str], float]) -> Range | None:
        return _range(f"--{name.replace('_', '-')}", getattr(parsed_args, name), read)

    write_size = of("write_size", _size)
    return Inputs(
        copies=of("copies", _number),
        write_latency=of("write_latency", _time),
        object_latency=of("object_latency", _time),
        object_size=of("object_size", _size) or exactly(_OBJECT_SIZE),
        write_size=write_size.low if write_size else _WRITE_SIZE,
        network=of("network", _rate),
        disk=of("disk", _rate),
        recovery_active=of("recovery_active", _number),
        recovery_sleep=of("recovery_sleep", _sleep),
        max_backfills=of("max_backfills", _number),
        peering=of("peering", time_of),
        stale=of("stale", _number),
        write_iops=of("write_iops", _number),
        away=of("away", _time),
        osd_memory=of("osd_memory", _size),
        pgs_per_osd=of("pgs_per_osd", _number),
        log_entries=of("log_entries", _number),
    )


def _range(option: str, text: str | None, read: Callable[[str, str], float]) -> Range | None:
    """Raises ``UsageError``."""
    if text is None:
        return None
    low, between, high = text.partition("..")
    try:
        return Range(read(option, low), read(option, high)) if between else exactly(read(option, text))
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from error


def _number(option: str, text: str) -> float:
    return _more(option, text, float(_read(option, text, Quantity.REQUESTS)))


def _size(option: str, text: str) -> float:
    return _more(option, text, float(_read(option, text, Quantity.SIZE)))


def _time(option: str, text: str) -> float:
    return _more(option, text, time_of(option, text))


def _sleep(option: str, text: str) -> float:
    """0s as well, Ceph's default on SSDs: of other durations that is none."""
    return 0.0 if text.strip() in ("0s", "0ms") else time_of(option, text)


def _rate(option: str, text: str) -> float:
    """Bytes a second; networks are sold in bits."""
    if bits := _BITS.fullmatch(text):
        return _more(option, text, float(bits[1]) * _BIT_UNITS[bits[2]] / 8)
    return _more(option, text, float(_read(option, text, Quantity.BYTES)))


def _more(option: str, text: str, value: float) -> float:
    if value <= 0:
        raise UsageError(f"{option} {text}: must be more than 0")
    return value


def _read(option: str, text: str, quantity: Quantity) -> int:
    try:
        return quantities.read(text, quantity)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def _whole(option: str, text: str | None) -> int | None:
    return None if text is None else int(_number(option, text))


def _percent(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise UsageError(f"--degraded {text}: write per cent above 0 and up to 100, with commas between them")
    return value


# --- words


def _figures(one: Forecast) -> list[Range]:
    ranges = (one.service, one.objects_sec, one.clean, one.rebuild, one.memory)
    return [each for each in ranges if each is not None]


def _unknown(each: Sequence[Forecast]) -> Iterator[str]:
    """One line, for what all of them lack."""
    if not each or not each[0].unknown:
        return
    by_options: dict[tuple[str, ...], list[str]] = {}
    for figure, options in each[0].unknown.items():
        by_options.setdefault(options, []).append(_NAMES[figure])
    alone = "--network", "--disk", "--recovery-active"
    parts = [
        f"{_join(figures, 'and')}: give " + (_join(alone, "or") if options == alone else _join(options, "and"))
        for options, figures in by_options.items()
    ]
    yield f"Unknown: {'; '.join(parts)}."


def _join(words: Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _default_words(parsed_args: argparse.Namespace, inputs: Inputs) -> Iterator[str]:
    """What was taken for known without being told."""
    parts = []
    if not parsed_args.object_size and inputs.object_size is not None:
        parts.append(f"objects of {size_words(inputs.object_size.low)}")
    if not parsed_args.write_size and inputs.write_iops is not None and inputs.away is not None:
        parts.append(f"writes of {size_words(inputs.write_size)}")
    if not parsed_args.live and not parsed_args.max_backfills and inputs.recovery_active is not None:
        parts.append("osd_max_backfills 1")
    if parts:
        yield f"Assumed: {', '.join(parts)}."


def _not_rebuilt(each: Sequence[Forecast]) -> Iterator[str]:
    if names := [printable(one.failure.name) for one in each if not one.failure.is_rebuilt]:
        yield (
            f"Not made again elsewhere: copies of {first_few(names, _NAMED, '; ')}, as too few failure domains stay"
            " for all copies. Objects stay degraded until it returns or is replaced."
        )


def _assumptions(inputs: Inputs, each: Sequence[Forecast]) -> Iterator[str]:
    parts = []
    if any(one.clean for one in each) and inputs.peering is settings.PEERING:  # not one that is as long
        parts.append(f"peering takes {_in_words(settings.PEERING, _long)}")
    if any(one.memory for one in each):
        parts.append(f"{ENTRY:.0f} B of memory for an entry of a log, {MISSING:.0f} B for a missing object")
    if parts:
        yield f"Assumed: {'; '.join(parts)}."
    if (entries := next((one.beyond_log for one in each if one.beyond_log), None)) is not None:
        yield (
            f"More may be written to a placement group than its log has entries ({entries:.0f}): then its objects"
            " are compared, and the time to clean may be longer."
        )


def _cells(one: Forecast) -> tuple[object, ...]:
    failure = one.failure
    return (
        Shown(failure.name, printable(failure.name)),
        _cell(failure.share, _share),
        _cell(failure.stopped, _share),
        _cell(one.detect, _long),
        _cell(one.service, _seconds),
        _cell(one.iops_share, _share),
        _cell(one.iops, iops_words),
        _cell(failure.objects, _count),
        _cell(one.stale, _count),
        _cell(one.objects_sec, _count),
        Shown(one.bound, one.bound or NOTHING),
        _cell(one.clean, _long),
        _cell(one.rebuild, _long),
        _cell(one.memory, size_words),
    )


def _cell(range: Range | None, words: Callable[[float], str]) -> Shown:
    if range is None:
        return Shown(None, "?")
    return Shown({"low": _round(range.low), "high": _round(range.high)}, _in_words(range, words))


def _in_words(range: Range, words: Callable[[float], str]) -> str:
    return ranged(words(range.low), words(range.high))


def _round(value: float) -> float:
    return float(f"{value:.6g}")


def _share(value: float) -> str:
    return f"{100 * value:.0f} %" if value >= 0.0995 or value == 0 else f"{100 * value:.2g} %"


def _seconds(value: float) -> str:
    return latency_words(value * 1e9)


def _count(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 or value == 0 else f"{value:.1f}"


def _long(value: float) -> str:
    """``38 s``, ``12 min``, ``3.4 h``."""
    unit, size = next((unit, size) for unit, size, below in _TIMES if value < below)
    number = value / size
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def _whole_words(value: float) -> str:
    return f"{value:g}"


_READ: Mapping[str, Callable[[Range], str]] = {
    "recovery_active": lambda value: f"osd_recovery_max_active {_in_words(value, _whole_words)}",
    "recovery_sleep": lambda value: f"a recovery sleep of {_in_words(value, _seconds)}",
    "max_backfills": lambda value: f"osd_max_backfills {_in_words(value, _whole_words)}",
    "osd_memory": lambda value: f"{_in_words(value, size_words)} of memory an OSD (osd_memory_target)",
    "log_entries": lambda value: f"logs of {_in_words(value, _count)} entries",
    "peering": lambda value: f"peering that takes {_in_words(value, _seconds)} (peering_latency, twice at most)",
    "write_latency": lambda value: f"writes that took {_in_words(value, _seconds)} since they started (op_w_latency)",
}
"""By the name in ``Inputs``: the words for what OSDs told."""
