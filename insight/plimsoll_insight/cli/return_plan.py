"""``plimsoll return plan``: in which order OSDs would return; and what ``return run`` shares with it."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.columns import NOTHING, Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import time_of
from plimsoll_agent.util import quantities
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.quantities import Quantity
from plimsoll_agent.util.text import meant, plural, printable
from plimsoll_insight.cli.cluster_options import add_cluster, cluster_of
from plimsoll_insight.forecast import settings
from plimsoll_insight.forecast.failures import Placement
from plimsoll_insight.forecast.forecast import Inputs
from plimsoll_insight.forecast.ranges import Range, exactly, over
from plimsoll_insight.forecast.settings import OsdSettings
from plimsoll_insight.ordered_return import hosts, messages
from plimsoll_insight.ordered_return.cluster import BLOCKING_FLAGS, OsdMap, ReturnGroup, ReturnHealth
from plimsoll_insight.ordered_return.control import HostView
from plimsoll_insight.ordered_return.hosts import Ways
from plimsoll_insight.ordered_return.plan import Returning, WavePlan, fits, plan, wave_seconds
from plimsoll_insight.ordered_return.prediction import Away, in_peace, log_means, returning
from plimsoll_insight.slow.tree import Tree

if TYPE_CHECKING:
    from plimsoll_insight.adapters.cluster_writer import ClusterWriter
    from plimsoll_insight.adapters.returning_osds import OsdHosts

SYSTEMD = ("systemctl", "start")
_SSH = "ssh -o BatchMode=yes {host}"
_UNIT = "ceph-osd@{osd}.service"
_OSD = re.compile(r"osd\.(\d{1,7})", re.ASCII)
_DEADLINE = 30.0
_OBJECT_SIZE = 4 << 20
_SAMPLE = 3
_MOST_EPOCHS = 20

COLUMNS = (
    Column("wave", right=True),
    Column("osd", head="OSD", right=True),
    Column("host", most=32),
    Column("away", right=True),
    Column("condition", head="UNIT", most=20),
    Column("groups", head="PGS", right=True),
    Column("served", head="PGS ACTIVE BY WAVE", right=True, long=True),
    Column("memory", right=True),
    Column("fits", right=True),
)


@frozen(kw_only=True)
class ClusterLook:
    """All that was seen before anything is started."""

    cluster: Away
    ways: Ways
    plan: WavePlan
    whole: dict[str, tuple[int, ...]]
    views: dict[str, HostView]
    refusals: tuple[str, ...]
    """What else is wrong, a sentence each."""
    settings: tuple[OsdSettings, ...]
    """Of some OSDs that are up; without any where they are unknown."""

    @property
    def has_mclock(self) -> bool | None:
        return any(osd.has_mclock for osd in self.settings) if self.settings else None


class ReturnPlan(LocalCommand, Listing):
    """Plan in which order OSDs that are down return.

    Those come first that bring placement groups back to service. Of each wave it forecasts the memory that the OSDs
    take at most, by the model of forecast, and whether it fits their hosts. It changes nothing.

    Exit status:
        0   no OSD is down
        1   error
        2   OSDs are to return
        3   OSDs are to return, but return run would refuse: something else is wrong
        64  usage

    Examples:
        plimsoll return plan
        plimsoll return plan --within rack-2 --per-host 2
        plimsoll return plan --unit 'ceph-{fsid}@osd.{osd}.service' -f json
    """

    empty = "No OSD is down that could return."

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        look = look_at(self, parsed_args)
        if look is None:
            return COLUMNS, []
        self.status = 3 if look.refusals else 2
        self.closing = (f"Cluster {look.ways.fsid}.", *messages.plan_lines(look.plan))
        for words in look.refusals:
            self.warn_of(f"return run would refuse: {words}")
        return COLUMNS, list(_rows(look, reserve_of(parsed_args)))


def add_options(parser: argparse.ArgumentParser) -> None:
    which = parser.add_argument_group("which OSDs")
    which.add_argument("--within", metavar="NAME", action="append", default=[],
                       help="those of this host, rack or osd.N; repeatable; default: all that are down")  # fmt: skip
    which.add_argument("--skip", metavar="NAME", action="append", default=[],
                       help="not those of this host, rack or osd.N; repeatable")  # fmt: skip
    order = parser.add_argument_group("how many at once")
    order.add_argument("--per-host", metavar="N", type=int, default=1, help="OSDs of a host in a wave; default: 1")
    order.add_argument("--at-once", metavar="N", type=int, default=12, help="OSDs in a wave; default: 12")
    order.add_argument("--reserve", metavar="PERCENT", default="10",
                       help="of a host's memory that stays free; default: 10")  # fmt: skip
    order.add_argument("--osd-memory", metavar="SIZE", help="what an OSD holds without trouble; default: what those"
                       " hold that are up, else their osd_memory_target")  # fmt: skip
    order.add_argument("--steady", metavar="TIME", default="30s",
                       help="memory has peaked if it does not grow for so long; default: 30s")  # fmt: skip
    ways = parser.add_argument_group("how hosts are reached", "words, of which no shell is made; {host}, {osd} and"
                                     " {fsid} are filled in")  # fmt: skip
    ways.add_argument("--on-host", metavar="WORDS", default=_SSH, help=f"runs a command there; default: {_SSH}")
    ways.add_argument("--unit", metavar="WORD", default=_UNIT, help=f"of an OSD; default: {_UNIT}")
    ways.add_argument("--start", metavar="WORDS", default=" ".join(SYSTEMD),
                      help="to which units are added; default: systemctl start")  # fmt: skip
    ways.add_argument("--restart", metavar="WORDS", help="the same; default: --start with restart for start")
    parser.add_argument("--tolerate", metavar="CHECK", action="append", default=[],
                        help="a health check of Ceph that is always raised here; repeatable")  # fmt: skip
    add_cluster(parser)


def reserve_of(parsed_args: argparse.Namespace) -> float:
    """The share of memory. Raises ``UsageError``."""
    try:
        share = float(parsed_args.reserve.rstrip(" %")) / 100
    except ValueError as error:
        raise UsageError(f"--reserve: {parsed_args.reserve!r} is no number of per cent, such as 10") from error
    if not 0 <= share < 1:
        raise UsageError("--reserve: must be from 0 to less than 100 per cent")
    return share


def ways_of(parsed_args: argparse.Namespace, fsid: str) -> Ways:
    """Raises ``UsageError``."""
    start: tuple[str, ...] = tuple(parsed_args.start.split())
    restart = tuple(parsed_args.restart.split()) if parsed_args.restart is not None else _restart(start)
    on_host = tuple(parsed_args.on_host.split())
    for option, words in (("--on-host", on_host), ("--start", start), ("--restart", restart)):
        if not words:
            raise UsageError(f"{option}: needs a command")
    if "{osd}" not in parsed_args.unit:
        raise UsageError("--unit: needs {osd}, in place of the number")
    ways = Ways(on_host=on_host, unit=parsed_args.unit, start=start, restart=restart, fsid=fsid)
    for word in (*ways.units([0]), *start, *restart):
        hosts.check(word)
    return ways


def _restart(start: Sequence[str]) -> tuple[str, ...]:
    return tuple("restart" if word == "start" else word for word in start)


def writer_of(command: LocalCommand, parsed_args: argparse.Namespace) -> ClusterWriter:
    """Raises as ``cluster_of`` does."""
    from plimsoll_insight.adapters.cluster_writer import ClusterWriter

    reader = cluster_of(parsed_args, lambda: command.settings(parsed_args).ceph, _DEADLINE)
    return ClusterWriter(conf=reader.conf, client=reader.client, deadline=reader.deadline)


def hosts_of(look: ClusterLook) -> OsdHosts:
    from plimsoll_insight.adapters.returning_osds import OsdHosts

    return OsdHosts(ways=look.ways, host_of=look.cluster.host_of(), deadline=_DEADLINE)


def look_at(command: LocalCommand, parsed_args: argparse.Namespace) -> ClusterLook | None:
    """None where no OSD is down that could return. Raises ``PlimsollError``."""
    from plimsoll_insight.adapters.returning_osds import OsdHosts

    if parsed_args.per_host < 1 or parsed_args.at_once < 1:
        raise UsageError("--per-host and --at-once: must be 1 or more")
    steady = time_of("--steady", parsed_args.steady)
    reserve_of(parsed_args)
    cluster = writer_of(command, parsed_args)
    osd_map, tree, now = cluster.osd_map(), cluster.map().tree, time.time()
    osds = chosen(parsed_args, osd_map.down, tree.bucket_of, tree.buckets())
    ways = ways_of(parsed_args, osd_map.fsid)
    if strays := [osd for osd in osd_map.down if osd not in tree.bucket_of]:
        command.warn_of(f"{', '.join(f'osd.{osd}' for osd in strays)}: in no host of the CRUSH map, and left out")
    if not osds:
        return None
    groups, every, health = cluster.groups(), cluster.full_placement(osd_map), cluster.health()[1]
    placement = cluster.placement()
    # A pool may be deleted between two of these questions.
    whole = {id: members for id, members in every.items() if int(id.partition(".")[0]) in placement.pools}
    away = Away(
        osd_map=osd_map,
        tree=tree,
        placement=whole_placement(placement, whole),
        now=now,
        times=_times(cluster, osd_map, osds),
    )
    osd_hosts = OsdHosts(ways=ways, host_of=away.host_of(), deadline=_DEADLINE)
    own = sorted({away.host_of()[osd] for osd in osds})
    ways.check_reach(own)
    alike = _alike(osds, osd_map.up, tree)
    others = sorted({away.host_of()[osd] for osd in alike if osd in away.host_of()} - set(own))
    views = osd_hosts.views([*own, *others[:_SAMPLE]])
    inputs, osd_settings = _inputs(command, parsed_args, cluster, alike, views, away, _writes(health, groups))
    try:
        sizes = cluster.log_sizes()
    except PlimsollError as error:
        sizes = {}
        command.warn_of(f"The logs of placement groups may be full: {error}")
    if placement.unknown:
        command.warn_of(
            f"The manager has no report of {plural(placement.unknown, 'placement group')}: their logs are taken as"
            " full, their objects as many as of others of the pool; memory may be more"
        )
    each = returning(away, osds, inputs, osd_hosts.conditions(osds), log_means(osds, whole, sizes))
    order = plan(
        each,
        groups,
        whole,
        {str(id): pool.least for id, pool in placement.pools.items()},
        osd_map.up,
        per_host=parsed_args.per_host,
        at_once=parsed_args.at_once,
        wave_seconds=wave_seconds(inputs.peering, steady),
    )
    barriers = osd_map.blocked(osds, tree)
    refusals = tuple(_refusals(each, health, osd_map.flags, barriers, views, own, parsed_args.tolerate))
    return ClusterLook(
        cluster=away,
        ways=ways,
        plan=order,
        whole=whole,
        views={host: views[host] for host in own},
        refusals=refusals,
        settings=osd_settings,
    )


def _alike(osds: Collection[int], up: Collection[int], tree: Tree) -> Collection[int]:
    """Those up of the device classes of these OSDs, if there are any: others may hold more memory, or less."""
    kinds = {tree.class_of.get(osd) for osd in osds}
    return frozenset(osd for osd in up if tree.class_of.get(osd) in kinds) or up


def _times(cluster: ClusterWriter, osd_map: OsdMap, osds: Iterable[int]) -> dict[int, float]:
    """When the epochs began in which these went down, where the map does not say so. The monitors forget old ones."""
    epochs = {one.down_at for osd in osds if (one := osd_map.osds[osd]).down_since is None and one.down_at}
    times = {}
    for epoch in sorted(epochs)[-_MOST_EPOCHS:]:
        with suppress(PlimsollError):
            times[epoch] = cluster.osd_map(epoch).modified
    return times


def chosen(parsed_args: argparse.Namespace, down: Sequence[int], numbers: Iterable[int], buckets: Any) -> list[int]:
    """Of the OSDs that are down. Raises ``UsageError``."""
    below: dict[str, set[int]] = {f"osd.{osd}": {osd} for osd in numbers}
    for bucket, osds in buckets.items():
        below.setdefault(bucket.name, set()).update(osds)
    for option, names in (("--within", parsed_args.within), ("--skip", parsed_args.skip)):
        for name in names:
            if name not in below:
                raise UsageError(f"{option}: the CRUSH map has no {printable(name)}; {meant(name, below)}")
    within = set().union(*(below[name] for name in parsed_args.within)) if parsed_args.within else set(numbers)
    return sorted(set(down) & within - set().union(*(below[name] for name in parsed_args.skip)))


def whole_placement(placement: Placement, whole: dict[str, tuple[int, ...]]) -> Placement:
    return replace(placement, groups=[(int(id.partition(".")[0]), osds) for id, osds in whole.items()])


def _writes(health: ReturnHealth, groups: Mapping[str, ReturnGroup]) -> float | None:
    """Of clients, a second. The status has no rate where they write nothing.

    With an inactive placement group that may be because all of them wait for it: then the rate is unknown.
    """
    if health.writes is None and not any(group.is_inactive for group in groups.values()):
        return 0.0
    return health.writes


def _inputs(
    command: LocalCommand,
    parsed_args: argparse.Namespace,
    cluster: ClusterWriter,
    alike: Collection[int],
    views: dict[str, HostView],
    away: Away,
    writes: float | None,
) -> tuple[Inputs, tuple[OsdSettings, ...]]:
    """For the forecast, and settings of some OSDs. What cannot be had is unknown, and told."""
    placement, sample = away.placement, settings.sample(alike, away.tree.class_of)
    read, measurement = Inputs(), Inputs()
    osds: tuple[OsdSettings, ...] = ()
    try:
        osds = tuple(cluster.osd_settings(osd) for osd in sample)
        read = settings.known_by(osds, placement.groups_of_each) if osds else read
        measurement = settings.measured_by([cluster.counters(osd) for osd in sample])
    except PlimsollError as error:
        command.warn_of(f"Some settings or counters of OSDs are unknown: {error}")
    resident = [size for view in views.values() for osd, size in view.resident.items() if osd in alike]
    memory = in_peace(resident, read.osd_memory)
    if parsed_args.osd_memory is not None:
        try:
            memory = exactly(float(quantities.read(parsed_args.osd_memory, Quantity.SIZE)))
        except ValueError as error:
            raise UsageError(f"--osd-memory: {error}") from error
    inputs = replace(
        read,
        osd_memory=memory,
        write_iops=None if writes is None else exactly(writes),
        peering=measurement.peering or settings.PEERING,
        copies=over(pool.size for pool in placement.pools.values()) if placement.pools else None,
        object_size=exactly(placement.object_bytes or _OBJECT_SIZE),
    )
    return inputs, osds


def _refusals(
    each: Sequence[Returning], health: ReturnHealth, flags: frozenset[str], barriers: Mapping[str, str],
    views: dict[str, HostView], own: Sequence[str], exceptions: Sequence[str],
) -> Iterable[str]:  # fmt: skip
    if blocking := sorted(flags & BLOCKING_FLAGS):
        yield f"the cluster has the flag {', '.join(blocking)}: ceph osd unset {blocking[0]}"
    for what, command in barriers.items():
        yield f"{what}: {command}, or --skip it"
    for words in health.unexpected(exceptions):
        yield f"{words}: more is wrong than OSDs that are down; correct it, or give --tolerate {words.split(' ')[0]}"
    for host in own:
        if views[host].memory is None:
            yield f"the memory of {printable(host)} is unknown: {views[host].trouble}"
    if unknown := [one.number for one in each if one.memory is None]:
        yield f"the memory that {plural(len(unknown), 'OSD')} will take is unknown: give --osd-memory"


def _rows(look: ClusterLook, reserve: float) -> Iterable[tuple[object, ...]]:
    room = {
        host: view.memory.available - reserve * view.memory.total if view.memory else None
        for host, view in look.views.items()
    }
    use: dict[str, float] = {}
    for number, wave in enumerate(look.plan.waves, 1):
        fit = fits(look.plan, wave.osds, room, use)
        for osd in wave.osds:
            one = look.plan.returning[osd]
            if one.memory is not None:
                use[one.host] = use.get(one.host, 0.0) + one.memory.low
            yield (
                number,
                Shown(osd, f"osd.{osd}"),
                Shown(one.host, printable(one.host)),
                _cell(one.away, messages.seconds),
                Shown(one.condition, NOTHING if one.condition is None else printable(one.condition)),
                one.groups,
                wave.served,
                _range(one.memory, messages.sizes),
                Shown(fit[osd], NOTHING if fit[osd] is None else "yes" if fit[osd] else "no"),
            )


def _cell(value: float | None, words: Any) -> Shown:
    return Shown(None if value is None else round(value, 1), NOTHING if value is None else words(value))


def _range(value: Range | None, words: Any) -> Shown:
    data = None if value is None else {"low": float(f"{value.low:.6g}"), "high": float(f"{value.high:.6g}")}
    return Shown(data, NOTHING if value is None else words(value))
