"""Typical slips and everyday edits, and what the brakes of a node and of a region do about each.

Each is an edit of a rules file or of a QoS spec, on nodes of several sizes and in a region of 30,000 volumes. All
disks of a node are alike: volumes of type gold, of 100 GiB, in the pool ``volumes``, each of a guest of its own; the
first guest is of project ``SHOP``. They used at most 200 requests and 20 MiB a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TypeVar

from plimsoll_agent.catalogue.attachments import Attachments, sight
from plimsoll_agent.catalogue.model import Lists, VolumeType
from plimsoll_agent.catalogue.orders import RegionBrake
from plimsoll_agent.catalogue.planner import TypeOf
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.catalogue.region_brake import judge
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import BrakeMemory, Remembered
from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.model.usage import Used
from plimsoll_agent.policy.decide import Desired, Situation, Unmanaged, decide
from plimsoll_agent.policy.memory import Findings, remembering
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.policy.sources.cinder import typed
from plimsoll_agent.reconcile.brake import Brake, braked, large_changes
from plimsoll_agent.reconcile.consider import consider
from plimsoll_agent.rules import loader
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.util.frozen import replace
from tests.unit.clouds import a_catalogue, a_spec, a_type
from tests.unit.node import uuid_of
from tests.unit.values import NOON, a_disk, a_guest

Keys = Mapping[str, str]
Value = TypeVar("Value")

ABSENT = "–"
SIZES = (1, 3, 30, 300)
"""Disks of a node."""
REGION = 30_000
"""Attached volumes, all of this type."""
MIB = 2**20
SHOP, BANK = "76f321b2fd294e5fa90eb0525110f9e2", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"


class Stop(StrEnum):
    """What a brake does about an edit."""

    EACH = "each"
    """It stops each disk alone, so a single one too."""
    MANY = "many"
    """It stops it since it changes too many."""
    REFUSED = "refused"
    """Passes refuse the file, and use the last good one."""
    KEPT = "kept"
    """Disks keep their limits: the source cannot be read, or has no opinion."""
    NONE = "through"
    """It goes through."""


@dataclass(frozen=True, eq=False)
class State:
    """Rules as text, and the keys of the spec of type gold; None is no spec."""

    rules: str = "{}"
    spec: Keys | None = None
    catalogue: bool = False
    consumer: str = "front-end"
    gib: int = 100
    """Afterwards only of the first volume: it is extended."""
    silver: bool = False
    """There is another type, with a spec of its own."""
    bronze: bool = False
    """Type gold has the spec of type bronze."""


@dataclass(frozen=True)
class Edit:
    """An edit, and why it goes through where it does."""

    name: str
    before: State | None
    """None: the node is new, and its disks have no limits."""
    after: State
    why: str = ""
    use: Used | None = field(default=Used(200, 20 * MIB))
    """What each disk used; None is unknown."""
    region: bool | None = None
    """Whether a region is asked too: by default where specs decide."""


def _spec(keys: Keys, **other: object) -> State:
    return State(spec=keys, catalogue=True, **other)  # type: ignore[arg-type]


def _default(limits: str, *rules: str) -> State:
    text = f"default: {{limits: {limits}}}\n"
    return State(text + ("rules:\n" + "".join(f"- {rule}\n" for rule in rules) if rules else ""))


GOLD = {"total_iops_sec": "3000", "total_bytes_sec": str(100 * MIB)}
IOPS = {"total_iops_sec": "3000"}
PER_GB = {"total_iops_sec_per_gb": "30", "total_iops_sec_per_gb_min": "500"}
SMALL = "{total_iops_sec: 500, total_bytes_sec: 50MiB}"
OF_SHOP = f"{{name: shop, match: {{project: {SHOP}}}, limits: {{total_iops_sec: 2000, total_bytes_sec: 50MiB}}}}"
BENCH = "{name: bench, match: {pool: volumes}, manage: false}"
HALF = "half of it is left: no slip can be told from an edit"
UNREADABLE = "no node can read the spec, so disks keep their limits"
FEW = "up to 5 disks go through; the region's brake counts all of them"
FEW_BY_RULES = "up to 5 disks go through; the plan shows them"


def _gold(keys: Keys) -> State:
    return _spec(GOLD | keys)


def _rules(*rules: str) -> State:
    return _default(SMALL, *rules)


OF_GOLD, OF_IOPS, OF_PER_GB = _gold({}), _spec(IOPS), _spec(PER_GB)
PLAIN, NO_RULES = _rules(), State()
WITH_SHOP = _rules(OF_SHOP)

SLIPS = (
    # a number in a spec
    Edit("QoS spec: a zero too few, 300 for 3000", OF_GOLD, _gold({"total_iops_sec": "300"})),
    Edit("two zeros too few, 30", OF_GOLD, _gold({"total_iops_sec": "30"})),
    Edit("3 for 3k", OF_GOLD, _gold({"total_iops_sec": "3"})),
    Edit("a zero too many, 30000", OF_GOLD, _gold({"total_iops_sec": "30000"})),
    Edit("a digit mistyped, 2000", OF_GOLD, _gold({"total_iops_sec": "2000"}), HALF),
    Edit("a digit mistyped, 1000", OF_GOLD, _gold({"total_iops_sec": "1000"}), FEW),
    Edit("a digit mistyped, 8000", OF_GOLD, _gold({"total_iops_sec": "8000"}), FEW),
    # units
    Edit("no unit, 100 for 100 MiB", OF_GOLD, _gold({"total_bytes_sec": "100"})),
    Edit("the same, added to a limit of requests", OF_IOPS, _spec(IOPS | {"total_bytes_sec": "100"})),
    Edit("KiB for MiB", OF_GOLD, _gold({"total_bytes_sec": str(100 * 1024)})),
    Edit("KiB for MiB, added", OF_IOPS, _spec(IOPS | {"total_bytes_sec": str(100 * 1024)})),
    Edit("GiB for MiB", OF_GOLD, _gold({"total_bytes_sec": str(100 * 2**30)})),
    Edit("bits for bytes, 12.5 MiB", OF_GOLD, _gold({"total_bytes_sec": str(25 * MIB // 2)}), FEW),
    # fields
    Edit("bytes in the field of IOPS", OF_GOLD, _gold({"total_iops_sec": str(100 * MIB)})),
    Edit("IOPS in the field of bytes", OF_GOLD, _gold({"total_bytes_sec": "3000"})),
    Edit("a key misspelled", OF_GOLD, _spec({"totl_iops_sec": "3000", "total_bytes_sec": str(100 * MIB)})),
    Edit("all keys misspelled", OF_IOPS, _spec({"totl_iops_sec": "3000"}), region=True),
    Edit("0 for a limit", OF_GOLD, _gold({"total_iops_sec": "0"})),
    Edit("text for a number", OF_GOLD, _gold({"total_iops_sec": "3k"}), UNREADABLE),
    Edit("a total beside reads", OF_IOPS, _spec(IOPS | {"read_iops_sec": "3000"}), UNREADABLE),
    Edit("reads only in place of a total", OF_IOPS, _spec({"read_iops_sec": "3000"})),
    Edit(
        "per GiB for absolute",
        _spec(IOPS),
        _spec({"total_iops_sec_per_gb": "3000"}),
    ),
    Edit("absolute for per GiB", OF_PER_GB, _spec({"total_iops_sec": "30"})),
    Edit(
        "the minimum per GiB forgotten (10 GiB)",
        _spec(PER_GB, gib=10),
        _spec({"total_iops_sec_per_gb": "30"}, gib=10),
        HALF,
    ),
    Edit("size_iops_sec 4 for 4 KiB", OF_IOPS, _spec(IOPS | {"size_iops_sec": "4"})),
    # types
    Edit("the consumer back-end", OF_GOLD, _spec(GOLD, consumer="back-end"), region=True),
    Edit("the type's spec taken away", OF_GOLD, State(spec=None, catalogue=True), region=True),
    Edit("another type's spec, 500", OF_GOLD, _spec(GOLD, bronze=True), FEW),
    # rules
    Edit("rules: no unit in the default", PLAIN, _default("{total_iops_sec: 500, total_bytes_sec: 50}")),
    Edit("first rules, 5 for 500", None, _default("{total_iops_sec: 5}")),
    Edit("first rules, 50 for 500", NO_RULES, _default("{total_iops_sec: 50}"), FEW_BY_RULES),
    Edit(
        "the same where use is unknown",
        NO_RULES,
        _default("{total_iops_sec: 50}"),
        "first rules of a node: read the plan of the rollout",
        use=None,
    ),
    Edit("the default forgotten", PLAIN, State("{}")),
    Edit("limits: {} for none", PLAIN, _default("{}")),
    Edit("manage: flase", PLAIN, _rules("{name: x, match: {pool: y}, manage: flase}")),
    Edit(
        "manage: false for a wrong pool",
        PLAIN,
        _rules(BENCH),
        "up to 5 disks go through: they keep their limits",
    ),
    Edit(
        "the pool misspelled beside manage: false",
        _rules(BENCH),
        _rules(BENCH.replace("volumes", "volumse")),
        "up to 5 disks go through; the mended rule takes their first limits back",
    ),
    Edit(
        "a wrong project",
        WITH_SHOP,
        _rules(OF_SHOP.replace(SHOP, BANK)),
        "up to 5 disks go through; here one of each project, to a quarter and to four times as much",
    ),
    Edit(
        "override gone, over a spec",
        replace(
            _spec(IOPS),
            rules="rules: [{name: slow, match: {pool: volumes}, override: true, limits: {total_iops_sec: 300}}]",
        ),
        replace(OF_IOPS, rules="rules: [{name: slow, match: {pool: volumes}, limits: {total_iops_sec: 300}}]"),
        region=False,
    ),
    Edit(
        "the order of two rules swapped",
        _rules(OF_SHOP, "{name: rest, match: {pool: volumes}, limits: {total_iops_sec: 100}}"),
        _rules("{name: rest, match: {pool: volumes}, limits: {total_iops_sec: 100}}", OF_SHOP),
    ),
)

UNTIL = "2026-11-21T06:00Z"
QUARTER = f"{{name: shop, match: {{project: {SHOP}}}, override: true, limits: {{total_iops_sec: 125}}}}"

EVERYDAY = (
    Edit("QoS spec: 10 % more", OF_GOLD, _gold({"total_iops_sec": "3300"})),
    Edit("20 % more", OF_GOLD, _gold({"total_iops_sec": "3600"})),
    Edit("half as much again", OF_GOLD, _gold({"total_iops_sec": "4500"})),
    Edit("twice as much", OF_GOLD, _gold({"total_iops_sec": "6000"})),
    Edit("20 % less", OF_GOLD, _gold({"total_iops_sec": "2400"})),
    Edit("half as much", OF_GOLD, _gold({"total_iops_sec": "1500"})),
    Edit("more bytes, 150 MiB/s", OF_GOLD, _gold({"total_bytes_sec": str(150 * MIB)})),
    Edit("a burst of twice the limit", OF_GOLD, _gold({"total_iops_sec_max": "6000"})),
    Edit(
        "a longer burst",
        _gold({"total_iops_sec_max": "6000"}),
        _gold({"total_iops_sec_max": "6000", "total_iops_sec_max_length": "10"}),
    ),
    Edit("a total split into reads and writes", OF_IOPS, _spec({"read_iops_sec": "1500", "write_iops_sec": "1500"})),
    Edit("a limit of bytes beside requests", OF_IOPS, OF_GOLD),
    Edit("per GiB 20 % more", OF_PER_GB, _spec(PER_GB | {"total_iops_sec_per_gb": "36"})),
    Edit(
        "a higher minimum per GiB (10 GiB)",
        _spec(PER_GB, gib=10),
        _spec(PER_GB | {"total_iops_sec_per_gb_min": "600"}, gib=10),
    ),
    Edit("a maximum per GiB", OF_PER_GB, _spec(PER_GB | {"total_iops_sec_max": "20000"})),
    Edit("absolute in place of per GiB, the same", OF_PER_GB, OF_IOPS),
    Edit("requests of 256 KiB count as several", OF_IOPS, _spec(IOPS | {"size_iops_sec": str(512 * 1024)})),
    Edit("a key without effect", OF_GOLD, _gold({"note": "ticket 7"})),
    Edit("consumer both", OF_GOLD, _spec(GOLD, consumer="both")),
    Edit("a new type with its spec", OF_GOLD, replace(OF_GOLD, silver=True)),
    Edit("an extend to twice the size", OF_PER_GB, _spec(PER_GB, gib=200)),
    # rules
    Edit("first rules of an empty node", None, PLAIN),
    Edit("first rules of a node in use", NO_RULES, PLAIN),
    Edit("the same where use is unknown", NO_RULES, PLAIN, use=None),
    Edit("default 20 % more", PLAIN, _default("{total_iops_sec: 600, total_bytes_sec: 60MiB}")),
    Edit("default 20 % less", PLAIN, _default("{total_iops_sec: 400, total_bytes_sec: 40MiB}")),
    Edit("a default in bytes too", _default("{total_iops_sec: 500}"), PLAIN),
    Edit("a rule for one project", PLAIN, WITH_SHOP),
    Edit("its end", WITH_SHOP, PLAIN),
    Edit("a noisy project to a quarter", PLAIN, _rules(QUARTER)),
    Edit("the same until the morning", PLAIN, _rules(QUARTER[:-1] + f", until: {UNTIL}}}")),
    Edit(
        "a later end",
        _rules(QUARTER[:-1] + f", until: {UNTIL}}}"),
        _rules(QUARTER[:-1] + ", until: 2026-11-22T06:00Z}"),
    ),
    Edit(
        "a rule for a flavor that no guest has",
        PLAIN,
        _rules("{name: f, match: {flavor: m9}, limits: {total_iops_sec: 9000}}"),
    ),
    Edit(
        "a ceiling far above",
        PLAIN,
        _rules("{name: c, match: {kind: volume}, ceiling: {total_iops_sec: 10000}}"),
    ),
    Edit(
        "a floor far below",
        PLAIN,
        _rules("{name: c, match: {kind: volume}, floor: {total_iops_sec: 100}}"),
    ),
    Edit(
        "a rule with another name",
        WITH_SHOP,
        _rules(OF_SHOP.replace("name: shop", "name: web")),
    ),
    Edit("a comment", PLAIN, State("# ticket 4711\n" + PLAIN.rules)),
    Edit(
        "manage: false for one guest",
        PLAIN,
        _rules(f"{{name: g, match: {{guest: {uuid_of(0)}}}, manage: false}}"),
    ),
    Edit(
        "manage: false for a pool until the evening",
        PLAIN,
        _rules(BENCH[:-1] + ", until: 2026-11-20T20:00Z}"),
    ),
    Edit(
        "a probe and an objective",
        PLAIN,
        _rules(f"{{name: p, match: {{project: {SHOP}}}, probe: {{every: 6h}}, objective: {{p99: 50ms}}}}"),
    ),
    Edit("the rules of before", _default("{total_iops_sec: 600, total_bytes_sec: 60MiB}"), PLAIN),
)


def stop_on_node(edit: Edit, number: int) -> Stop:
    """What the brake of a node does about an edit, where the first state is in force on so many disks."""
    if edit.before is None:
        disks = [_disk(each, edit.after.gib) for each in range(number)]
        memory, judged = dict[str, Remembered](), None
    else:
        disks, memory, judged = _in_force(edit.before, number)
    disks = [replace(disks[0], size=edit.after.gib * 2**30), *disks[1:]]
    try:
        present = _situation(edit.after, disks)
    except ConfigError:
        return Stop.REFUSED
    used = {} if edit.use is None else dict.fromkeys((disk.key for disk in disks), edit.use)
    present = replace(present, memory=memory, brake=BrakeMemory(judged=judged), used=lambda: used)
    considered = [consider(typed(disk, present), present, SOURCES) for disk in disks]
    brake = Brake()
    stop = braked(large_changes(considered, present, brake), present, brake, disks=number, whole=True)
    if stop is not None:
        return Stop.EACH if stop.alone else Stop.MANY
    kept = all(_keeps(outcome.decision.desired) for outcome in considered)
    return Stop.KEPT if edit.before is not None and kept else Stop.NONE


def _keeps(desired: Desired | Unmanaged | Unknown) -> bool:
    return not isinstance(desired, Desired) and desired.reason.code is not Code.RULE_UNMANAGES


@cache
def _in_force(state: State, number: int) -> tuple[list[Disk], dict[str, Remembered], str]:
    """The disks after a pass that set all limits, its memory, and its revision."""
    disks = [_disk(each, state.gib) for each in range(number)]
    situation = _situation(state, disks)
    decided = [(disk, decide(typed(disk, situation), situation, SOURCES)) for disk in disks]
    limits = {disk.key: said.limits for disk, its in decided if isinstance(said := its.desired, Desired)}
    memory = remembering(situation, Findings(decided=decided, applied={}, unseen=(), revision=situation.revision))
    memory = {
        key: replace(each, applied=limits[key], enforced=True) if key in limits else each
        for key, each in memory.items()
    }
    actual = [limits.get(disk.key, Limits()) for disk in disks]
    limited = [replace(disk, actual=its, defined=its) for disk, its in zip(disks, actual, strict=True)]
    return limited, memory, situation.revision


def stop_in_region(edit: Edit) -> Stop | None:
    """What the region's brake does where all of 30,000 volumes are of the type; None for rules."""
    before, after = edit.before, edit.after
    by_specs = before is not None and before.catalogue and before.gib == after.gib
    if before is None or not (by_specs if edit.region is None else edit.region):
        return None
    found = judge(_lists(before), _lists(after), _region(before.gib), RegionBrake())
    if found.stops:
        alone = judge(_lists(before), _lists(after), {"g0": TypeOf(type="gold", gib=before.gib)}, RegionBrake())
        return Stop.EACH if alone.stops else Stop.MANY
    return Stop.NONE


@cache
def _region(gib: int) -> dict[str, TypeOf]:
    return {f"g{number}": TypeOf(type="gold", gib=gib) for number in range(REGION)}


def _lists(state: State) -> Lists:
    spec, bronze = _specs(state)
    specs = {each.id: each for each in (spec, bronze) if each is not None}
    has = bronze if state.bronze else spec
    types = {"gold": VolumeType(id="gold", name="gold", qos_spec=None if has is None else has.id)}
    return Lists(
        specs,
        types | ({"silver": VolumeType(id="silver", name="silver", qos_spec=bronze.id)} if state.silver else {}),
    )


def _specs(state: State) -> tuple[QosSpec | None, QosSpec]:
    spec = None if state.spec is None else a_spec("gold-iops", state.consumer, **state.spec)
    return spec, a_spec("bronze-iops", total_iops_sec="500", total_bytes_sec=str(100 * MIB))


def _situation(state: State, disks: Sequence[Disk]) -> Situation:
    """Raises ``ConfigError`` where the rules are refused."""
    rules = _parsed(state.rules)
    if not state.catalogue:
        return Situation(now=NOON, rules=rules)
    met = sight(disks, Attachments(), {}, NOON, boot="b1")
    spec, bronze = _specs(state)
    gold = a_type("gold", bronze if state.bronze else spec)
    specs = [each for each in (spec, bronze) if each is not None]
    volumes = {str(disk.volume_id): gold for disk in disks}
    types = [gold, a_type("silver", bronze)] if state.silver else [gold]
    catalogue = a_catalogue(*specs, types=types, volumes=volumes, met=met)
    return Situation(now=NOON, rules=rules, catalogue=catalogue, attachments=met)


@cache
def _parsed(text: str) -> Rules:
    return loader.parse(text, "rules.yaml")


@cache
def _disk(number: int, gib: int) -> Disk:
    guest = a_guest(uuid=uuid_of(number), name=f"instance-{number:08}", project=BANK if number else SHOP)
    volume = f"e725b0de-c647-4620-be6b-{number:012}"
    return a_disk(guest, image=f"volume-{volume}", volume_id=volume, size=gib * 2**30)


@cache
def slips() -> tuple[Sequence[str], ...]:
    """The rows of the table."""
    return tuple((*_row(edit), edit.why or ABSENT) for edit in SLIPS)


@cache
def everyday() -> tuple[Sequence[str], ...]:
    """The rows of the table."""
    return tuple(map(_row, EVERYDAY))


def _row(edit: Edit) -> Sequence[str]:
    region = stop_in_region(edit)
    stops = [stop_on_node(edit, number) for number in SIZES]
    return edit.name, *(stop.value for stop in stops), ABSENT if region is None else region.value
