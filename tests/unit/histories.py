"""Random histories of two nodes: what happens to them, and what must hold after each step (``History.broken``).

The model knows of plimsoll only what an operator knows: the rules, what Cinder said at the last refresh, holds,
approvals, and what each disk was to have last. All limits are of one parameter, so that "looser" is a comparison.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionHold, RegionPause
from plimsoll_agent.model.approvals import Approval, digest_of_change
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import Conclusion, Ending
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Marks
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Desired, Situation, Unmanaged
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile.caution import Caution
from plimsoll_agent.reconcile.outcome import Kind, Mode, Outcome, PassReport, Scope
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store import clock
from plimsoll_agent.store.node_store import Move, NodeStore
from plimsoll_agent.store.state import Memory, State, StateError
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeDisk, FakeGuest, FakeHypervisor
from tests.unit.clouds import a_catalogue, a_spec, a_type
from tests.unit.node import Node, a_volume, guest, own_disk, uuid_of
from tests.unit.values import NOON

UNLIMITED = Limits()
BRAKE_DISKS = 2
"""A node here has fewer than 15 disks: 20 % of them are never more."""
FACTOR = 10
GROUPED, HANDS_OFF = uuid_of(2), uuid_of(1)
"""The guests whose volumes a rule may put into a group, and whose own disk a rule may leave unmanaged."""
PAUSED = because(Code.PAUSED, file="/etc/plimsoll/paused", why="")


def iops(number: int | None) -> Limits:
    return UNLIMITED if number is None else Limits(total_iops_sec=number)


def rate(limits: Limits) -> float:
    return limits.total_iops_sec or float("inf")


def looser(before: Limits, after: Limits) -> bool:
    """Also a removal, and another group: what it leaves shares its limits with fewer disks."""
    another_group = before.group_name != after.group_name and not before.unlimited
    return after.unlimited or rate(after) > rate(before) or another_group


def share_left(before: Limits, after: Limits) -> float:
    """What a change leaves; no first limit is a cut."""
    return 1.0 if before.unlimited or after.unlimited else rate(after) / rate(before)


def key_of(owner: FakeGuest, disk: FakeDisk) -> str:
    return f"{owner.uuid}/{disk.volume_id or f'{disk.pool}/{disk.image}'}"


class Word(StrEnum):
    """What the sources have for a disk where it is not limits."""

    UNMANAGED = "unmanaged"
    UNKNOWN = "unknown"
    NONE = "none"


# --- what people edit


@dataclass(frozen=True)
class Edits:
    """The rules, as far as these histories edit them."""

    default: int | None = 250
    unmanaged: bool = False
    night: tuple[int, datetime] | None = None
    """All volumes get so little until then."""
    group: int | None = None
    own: int | None = None
    """An override for disks that are no volumes."""

    @property
    def rules(self) -> Rules:
        volume, own = Match(kind=("volume",)), Match(kind=("ephemeral",))
        rules = []
        if self.unmanaged:
            rules.append(Rule(name="hands-off", match=replace(own, guest=(HANDS_OFF,)), manage=False))
        if self.night is not None:
            number, until = self.night
            rules.append(Rule(name="night", match=volume, limits=iops(number), override=True, until=until))
        if self.group is not None:
            limits = Limits(total_iops_sec=self.group, group_name="shared")
            rules.append(Rule(name="group", match=replace(volume, guest=(GROUPED,)), limits=limits, override=True))
        if self.own is not None:
            rules.append(Rule(name="own", match=own, limits=iops(self.own), override=True))
        default = None if self.default is None else iops(self.default)
        return Rules(rules=tuple(rules), default=default, revision=digest_of_change(repr(self), UNLIMITED))


@dataclass(frozen=True)
class Cinder:
    """The QoS spec of each type, and the type of each volume."""

    specs: dict[str, int | None]
    types: dict[str, str | None]


# --- what dies, and what fails


class Killed(BaseException):
    """The pass dies here."""


@dataclass
class Trap:
    """The ``countdown``-th call of this name does not return: the pass dies before or after it.

    ``hard``: as by SIGKILL, nothing is written any more. Else as by SIGTERM.
    """

    call: str
    countdown: int = 1
    after: bool = False
    hard: bool = True
    dead: bool = False

    def spring(self, call: str, *, after: bool) -> None:
        if self.dead and self.hard:
            raise Killed
        if call == self.call and after == self.after:
            self.countdown -= 1
            if self.countdown == 0:
                self.dead = True
                raise Killed


class MortalLedger(NodeStore):
    """Dies where the trap says; what is among ``full`` cannot be written."""

    def __init__(self, state: State, trap: Trap | None, full: Collection[str] = ()) -> None:
        super().__init__(state, "tests")
        self.trap, self.full = trap, full

    def _before(self, call: str) -> None:
        if self.trap is not None:
            self.trap.spring(call, after=False)
        if call in self.full:
            raise StateError(f"{call}: no space left on device")

    def _after(self, call: str) -> None:
        if self.trap is not None:
            self.trap.spring(call, after=True)

    def intend(self, changes: Sequence[Change], now: datetime, revision: str, rules: str = "") -> list[int]:
        self._before("intend")
        ids = super().intend(changes, now, revision, rules)
        self._after("intend")
        return ids

    def remember(self, memory: Memory, now: datetime) -> None:
        self._before("remember")
        super().remember(memory, now)
        self._after("remember")

    def conclude(self, conclusions: Sequence[Conclusion], now: datetime) -> None:
        self._before("conclude")
        super().conclude(conclusions, now)
        self._after("conclude")

    def note_moves(self, moves: Sequence[tuple[Hold, Move]], now: datetime) -> None:
        if moves:
            self._before("note_moves")
        super().note_moves(moves, now)

    def use_up_approvals(self) -> None:
        self._before("use_up_approvals")
        super().use_up_approvals()


class Watched(FakeHypervisor):
    """Tells the history of every write, and of what it did to other members of the group."""

    def __init__(self, history: History, name: str, *guests: FakeGuest) -> None:
        super().__init__(*guests)
        self.history, self.name = history, name
        self.trap: Trap | None = None

    def _spring(self, *, after: bool) -> None:
        if self.trap is not None:
            self.trap.spring("set_limits", after=after)

    def _is_dead(self) -> None:
        if self.trap is not None and self.trap.dead and self.trap.hard:
            raise Killed

    def set_limits(self, asked: Disk, limits: Limits, *, alone: bool = False) -> None:
        self._spring(after=False)
        owner = self._guest(asked.guest.uuid)
        before = {target: disk.actual for target, disk in owner.disks.items()}
        super().set_limits(asked, limits, alone=alone)
        self.history.asked(self.name, asked, limits)
        for target, disk in owner.disks.items():
            if disk.actual != before[target] or target == asked.target:
                self.history.wrote(self.name, key_of(owner, disk), before[target], disk.actual)
        self._spring(after=True)

    def define_limits(self, disk: Disk, limits: Limits) -> None:
        self._is_dead()
        self.history.touched(self.name, "the persistent definition")
        super().define_limits(disk, limits)

    def set_marks(self, uuid: str, marks: Marks) -> None:
        self._is_dead()
        self.history.touched(self.name, "the metadata")
        super().set_marks(uuid, marks)


@dataclass
class World:
    """The time that it is, whatever the nodes' clocks say."""

    now: datetime = NOON


class OneOfTwo(Node):
    """A node whose brake counts from the third disk on, and whose clock may be wrong by ``off``."""

    def __init__(self, directory: Path, world: World) -> None:
        self.world, self.off = world, timedelta(0)
        self.trusted: clock.Moment | None = None
        super().__init__(directory)
        self.keep_time()

    def _reckoned(self) -> clock.Now:
        uptime = (self.world.now - NOON).total_seconds()
        clocks = clock.Clocks(
            wall=self.world.now + self.off, boot="the only boot", uptime=uptime, synchronised=lambda: not self.off
        )
        return clock.reckon(self.trusted, clocks)

    def keep_time(self) -> None:
        """As each pass does."""
        self.trusted = self._reckoned().trusted

    @property
    def now(self) -> datetime:
        return self._reckoned().at

    @now.setter
    def now(self, time: datetime) -> None:
        self.world.now += time - self.now

    def caution(self, node_store: NodeStore, *, read_only: bool = True, yes: bool = False) -> Caution:
        caution = super().caution(node_store, read_only=read_only, yes=yes)
        return replace(caution, brake=replace(caution.brake, disks=BRAKE_DISKS, factor=FACTOR))


# --- what the model knows


@dataclass(frozen=True)
class WasDesired:
    """What a disk was to have last, by which revision, and until when a rule said so."""

    limits: Limits | None
    """None: nothing yet, so a change is weighed against what is in force."""
    revision: str
    until: datetime | None = None
    later: Limits | None = None
    """What it was to have after that rule; None where that is not known."""


@dataclass
class Held:
    hold: Hold
    sure: bool = True
    """False once the guest has migrated, or the memory was lost: then its mark tells, if it could."""


@dataclass(frozen=True)
class Holds:
    """What may be held of a disk."""

    possible: tuple[Hold | RegionHold, ...] = ()
    sure: bool = False
    """One of them surely is."""

    @property
    def limits(self) -> set[Limits]:
        return {hold.limits for hold in self.possible if hold.limits is not None}

    def ignore_health(self, limits: Limits) -> bool:
        return any(isinstance(hold, Hold) and hold.ignore_health and hold.limits == limits for hold in self.possible)


@dataclass
class Side:
    """What the model knows of one node."""

    node: OneOfTwo
    cinder: Cinder | None = None
    """As of the last refresh."""
    desired: dict[str, list[WasDesired]] = field(default_factory=dict)
    """By ``Disk.key``; several after a pass that was killed, or could not write: nobody knows which of them."""
    judged: str | None = None
    approvals: list[Approval] = field(default_factory=list)
    let_through: list[Approval] = field(default_factory=list)
    """Those of the revision that was judged: for disks that were decided about by another one last."""
    grave: dict[str, datetime] = field(default_factory=dict)
    """Disks that were changed gravely without an approval, and when."""
    full: Collection[str] = ()
    paused: bool = False
    well: bool = True
    writes: list[tuple[str, Limits, Limits]] = field(default_factory=list)
    """Of the pass that runs: key, before, after."""

    def rows(self, *columns: str) -> list[tuple[object, ...]]:
        """Of the record; none as long as nothing was written into it."""
        return self.node.recorded(*columns) if self.node.state.record.exists() else []


class History:
    """Two nodes, the world around them, and what must hold."""

    def __init__(self, directory: Path) -> None:
        self.broken: list[str] = []
        """What did not hold, each with the number of its invariant."""
        self.edits = Edits()
        self.cinder = Cinder({"gold": 3000, "bronze": 1000}, {})
        self.guests = [self._guest(1), self._guest(2, volumes=2), self._guest(3), self._guest(4)]
        self.world = World()
        self.orders = Orders()
        """What was decided for the region, as both nodes know it."""
        self.sides: dict[str, Side] = {}
        for name, guests in (("a", self.guests[:3]), ("b", self.guests[3:])):
            node = OneOfTwo(directory / name, self.world)
            node.hypervisor = Watched(self, name, *guests)
            node.state = State(directory / name, boot=f"boot of {name}")
            node.state.prepare()
            node.catalogue = Unknown(because(Code.NO_CATALOGUE, detail="?"))
            self.sides[name] = Side(node)
        self.held: dict[str, Held] = {}
        self.elsewhere: dict[str, list[Hold]] = {}
        """Older holds that may stand on the other node still, for a guest that comes back at once."""
        self.ended: dict[str, Held] = {}
        """Holds that were ended, and no pass has told the guest: they may follow it to another node."""
        self.past: dict[str, set[Limits]] = {}
        """All limits that a disk had at any time: one of them is gone back to after a hold."""
        self.ours: set[str] = set()
        """Disks that plimsoll ever wrote to, or met as desired."""
        self.ours_at_first: frozenset[str] = frozenset()
        """Of these, those before the pass that runs."""
        self.unrecorded: set[str] = set()
        """Disks that were cut last while the record could not be written."""
        self.restore_to: dict[str, Limits] = {}
        """What disks had before a hold."""
        self.applied: set[str] = set()
        """Disks that have what plimsoll put there last for a source or a hold."""
        self.others: set[str] = set()
        """Disks whose limits may be those of others: attached, rebooted, migrated, or changed by hand."""
        self.steps = 0
        self.detached: list[tuple[FakeGuest, str, FakeDisk]] = []
        self._edit(self.edits)

    def _guest(self, number: int, volumes: int = 1) -> FakeGuest:
        made = [a_volume(10 * number + n) for n in range(volumes)]
        for n, disk in enumerate(made):
            assert disk.volume_id is not None
            self.cinder.types[disk.volume_id] = ("gold", "bronze", None)[(number + n) % 3]
        # Without Nova's metadata, so that no flavor has to be known.
        return replace(guest(number, own_disk(number), *made), project=None)

    # --- what happens

    def _edit(self, edits: Edits) -> None:
        self.edits = edits
        for side in self.sides.values():
            side.node.rules = edits.rules

    def edit(self, **other: Any) -> None:
        self._edit(replace(self.edits, **other))

    def spec(self, type: str, number: int | None) -> None:
        self.cinder = replace(self.cinder, specs={**self.cinder.specs, type: number})

    def retype(self, volume: str, type: str | None) -> None:
        self.cinder = replace(self.cinder, types={**self.cinder.types, volume: type})

    def refresh(self, name: str) -> None:
        """What Cinder has now reaches the node, for the attachments that its last pass met."""
        side = self.sides[name]
        met = side.node.state.load_attachments()
        there = met.marks_of_volumes()
        specs = {type: a_spec(type, total_iops_sec=str(n)) for type, n in self.cinder.specs.items() if n is not None}
        types = {type: a_type(type, specs.get(type)) for type in self.cinder.specs}
        volumes = {
            volume: None if type is None else types[type]
            for volume, type in self.cinder.types.items()
            if volume in there
        }
        side.node.catalogue = a_catalogue(*specs.values(), types=list(types.values()), volumes=volumes, met=met)
        side.cinder = Cinder(self.cinder.specs, {volume: self.cinder.types[volume] for volume in volumes})

    def run(
        self,
        name: str,
        mode: Mode = Mode.ENFORCE,
        only: FakeGuest | None = None,
        *,
        yes: bool = False,
        trap: Trap | None = None,
        full: Collection[str] = (),
    ) -> PassReport | None:
        """A pass, and what must hold after it. None where it was killed."""
        side = self.sides[name]
        node = side.node
        if only is not None and only.uuid not in node.hypervisor.by_uuid:
            only = None
        scope = Scope() if only is None else Scope(frozenset({only.uuid}))
        side.writes, side.full = [], full
        at_first = {key_of(owner, disk): disk.actual for owner, disk in self.disks(name)}
        self.ours_at_first = frozenset(self.ours)
        assert isinstance(node.hypervisor, Watched)
        node.hypervisor.trap = trap
        this, judged = self.revision(name), side.judged
        report = None
        with suppress(Killed):
            report = node.run(mode, scope, MortalLedger(node.state, trap, full), yes=yes)
        node.hypervisor.trap, side.full = None, ()
        node.keep_time()
        if mode is not Mode.ENFORCE and side.writes:
            self._breaks(1, f"a pass in mode {mode} wrote {side.writes}")
        if mode is Mode.PLAN:
            return report
        if not yes and mode is Mode.ENFORCE:
            # A pass over some guests looks at all while no pass over the node has gone through with this revision.
            self._brake(side, at_first, this, whole=only is None or judged != this)
        self._learn(side, report, this, sure=report is not None and not full)
        if report is not None and only is None and report.braked is None and not full and self._knows(side, report):
            kept = side.let_through if side.judged == this else []
            side.let_through = [*kept, *(each for each in side.approvals if each.covers(this, removal=False))]
            side.judged = this
        if report is not None and mode is Mode.ENFORCE and not full and not self.paused(name):
            self.ended = {k: e for k, e in self.ended.items() if k not in {o.disk.key for o in report.outcomes}}
        if report is not None and mode is Mode.ENFORCE and only is None and not yes and not full:
            side.approvals = []
        return report

    def hold(self, name: str, owner: FakeGuest, target: str, limits: Limits | None, **other: Any) -> None:
        side = self.sides[name]
        number = 1 + self.guests.index(owner)
        side.node.hold(number, target, limits, **other)
        key = key_of(owner, owner.disks[target])
        if key in self.held and not self.held[key].sure:
            self.elsewhere.setdefault(key, []).append(self.held[key].hold)
        self.held[key] = Held(side.node.holds[key])

    def end_hold(self, name: str, key: str) -> None:
        node = self.sides[name].node
        memory = NodeStore(node.state, "ann").recall(node.now, read_only=False)
        if key in memory.holds:
            node.state.save_memory(replace(memory, holds={k: h for k, h in memory.holds.items() if k != key}))
            if self.held[key].sure:
                self.ended[key] = self.held.pop(key)

    def decide_for_region(self, **other: Any) -> None:
        self.orders = replace(self.orders, **other)
        for side in self.sides.values():
            side.node.orders = self.orders

    def region_hold(self, disk: str, limits: Limits | None, span: timedelta) -> None:
        now = self.world.now
        hold = RegionHold(disk=disk, limits=limits, since=now, until=now + span, by="ann", why="a test")
        self.decide_for_region(holds=(*(each for each in self.orders.holds if each.disk != disk), hold))

    def region_pause(self, span: timedelta | None) -> None:
        now = self.world.now
        pause = RegionPause(since=now, until=None if span is None else now + span, by="ann", why="a test")
        self.decide_for_region(pause=pause)

    def region_approval(self, digest: str, span: timedelta) -> None:
        now = self.world.now
        approval = RegionApproval(of=Of.RULES, digest=digest, since=now, until=now + span, by="ann", why="a test")
        self.decide_for_region(approvals=(*self.orders.approvals, approval))

    def approve(self, name: str, digest: str, *, remove: bool) -> None:
        side = self.sides[name]
        side.node.approve(digest, remove=remove)
        side.approvals = [Approval(digest, remove)]

    def by_hand(self, owner: FakeGuest, disk: FakeDisk, limits: Limits, *, behind_libvirt: bool) -> None:
        disk.actual = limits
        if not behind_libvirt:
            disk.defined = limits
        self._others(owner, disk)

    def reboot(self, name: str, owner: FakeGuest, defined: Limits) -> None:
        self.sides[name].node.hypervisor.restart(owner, defined)
        for disk in owner.disks.values():
            self._others(owner, disk)

    def detach(self, owner: FakeGuest, target: str) -> None:
        self.detached.append((owner, target, owner.disks.pop(target)))

    def attach(self, name: str, limits: Limits) -> None:
        """The volume that was detached first comes back, to the guest that had it."""
        owner, target, disk = self.detached.pop(0)
        disk.actual = disk.defined = limits
        self.sides[name].node.hypervisor.attach(owner, target, disk)
        self._others(owner, disk)

    def migrate(self, name: str, owner: FakeGuest) -> None:
        other = "b" if name == "a" else "a"
        here, there = self.sides[name].desired, self.sides[other].desired
        self.sides[name].node.hypervisor.migrate(owner, self.sides[other].node.hypervisor)
        for disk in owner.disks.values():
            self._others(owner, disk)
            key = key_of(owner, disk)
            if key in there:
                there[key] += here.get(key, [])
            self._only_its_mark_tells(key)

    def pause(self, name: str, paused: bool) -> None:
        side = self.sides[name]
        side.paused = paused
        side.node.paused = lambda: PAUSED if paused else None

    def ceph(self, well: bool) -> None:
        for side in self.sides.values():
            side.well = well
            side.node.ceph.raised = () if well else ("SLOW_OPS",)

    def wait(self, span: timedelta) -> None:
        self.world.now += span

    def set_clock(self, name: str, off: timedelta) -> None:
        self.sides[name].node.off = off

    def lose_memory(self, name: str, *, corrupt: bool) -> None:
        """It is made again from the record and the guests' marks, which may know less."""
        side = self.sides[name]
        file = side.node.state.memory
        if corrupt:
            file.write_text("{")
        else:
            file.unlink(missing_ok=True)
        side.judged, side.grave = None, {}
        rows = side.rows("disk", "after", "result")
        desired: dict[str, list[WasDesired]] = {}
        for owner, disk in self.disks(name):
            key = key_of(owner, disk)
            taken = [str(row[1]) for row in rows if row[0] == key and row[2] in ("done", "took")]
            known = [WasDesired(Limits.from_mapping(json.loads(after)), "") for after in taken[-1:]]
            desired[key] = [WasDesired(None, ""), *self._desired(key), *known]
            if any(row[0] == key and row[2] is None for row in rows):
                # A change for a hold that is settled without a memory does not tell whose limits there were before.
                self.others.add(key)
            self._only_its_mark_tells(key)
        side.desired = desired

    def _only_its_mark_tells(self, key: str) -> None:
        """Of holds: one that was ended may be in the mark still, another one not yet."""
        if key in self.ended:
            self.held.setdefault(key, self.ended.pop(key))
        if key in self.held:
            self.held[key].sure = False

    # --- what there is

    def side_of(self, owner: FakeGuest) -> str:
        return next(name for name, side in self.sides.items() if owner.uuid in side.node.hypervisor.by_uuid)

    def disks(self, name: str) -> Iterator[tuple[FakeGuest, FakeDisk]]:
        for owner in self.sides[name].node.hypervisor.by_uuid.values():
            for disk in owner.disks.values():
                yield owner, disk

    def revision(self, name: str) -> str:
        node = self.sides[name].node
        return Situation(now=node.now, rules=node.rules, catalogue=node.catalogue).revision

    def word(self, name: str, key: str) -> tuple[Limits | Word, datetime | None]:
        """What the sources have for a disk, and until when a rule says so."""
        night = self.edits.night
        if "/" not in key.partition("/")[2] and night is not None and self.world.now < night[1]:
            return iops(night[0]), night[1]
        return self.word_by_day(name, key), None

    def word_by_day(self, name: str, key: str) -> Limits | Word:
        """What they have without the rule that has an end."""
        uuid, _, image = key.partition("/")
        side, edits = self.sides[name], self.edits
        volume = "/" not in image
        if edits.unmanaged and uuid == HANDS_OFF and not volume:
            return Word.UNMANAGED
        if volume and edits.group is not None and uuid == GROUPED:
            return Limits(total_iops_sec=edits.group, group_name="shared")
        if not volume and edits.own is not None:
            return iops(edits.own)
        if volume:
            if side.cinder is None or image not in side.cinder.types:
                return Word.UNKNOWN
            number = side.cinder.specs.get(side.cinder.types[image] or "")
            if number is not None:
                return iops(number)
        return Word.NONE if edits.default is None else iops(edits.default)

    def holds_on(self, key: str) -> Holds:
        """A hold of the node itself comes before one of the region, and that of the one disk before the volume's."""
        now, (_, _, image) = self.world.now, key.partition("/")
        held = self.held.get(key)
        own = () if held is None or held.hold.ended(now) else (held.hold,)
        older = tuple(hold for hold in self.elsewhere.get(key, ()) if not hold.ended(now))
        if held is not None and own and held.sure:
            return Holds(own + older, sure=True)
        own += older
        standing = {each.disk: each for each in self.orders.holds if now < each.until}
        of_region = standing.get(key) or standing.get(image)
        if of_region is None:
            return Holds(own)
        return Holds((*own, of_region), sure=True)

    def paused(self, name: str) -> bool:
        of_region = self.orders.pause
        return self.sides[name].paused or (of_region is not None and of_region.stands(self.world.now))

    # --- what must hold

    def _breaks(self, number: int, what: str) -> None:
        self.broken.append(f"{number}: {what}")

    def touched(self, name: str, what: str) -> None:
        """4: nothing is written while paused."""
        if self.paused(name):
            self._breaks(4, f"{what} of a guest on {name} was written while paused")

    def asked(self, name: str, disk: Disk, limits: Limits) -> None:
        """2: every write has its intent in the record, but for a cut where the record cannot be written."""
        self.touched(name, disk.key)
        side = self.sides[name]
        if "intend" in side.full:
            return
        rows = side.rows("disk", "after", "result", "retried_at")
        mine = (disk.key, json.dumps(limits.in_effect()))
        if not any(row[:2] == mine and (row[2] is None or row[3] is not None) for row in rows):
            self._breaks(2, f"{disk.key} was set to {limits} without an open intent in the record")

    def wrote(self, name: str, key: str, before: Limits, after: Limits) -> None:
        """1: no disk is looser than sources, holds and gate allow."""
        side = self.sides[name]
        side.writes.append((key, before, after))
        held, (word, _) = self.holds_on(key), self.word(name, key)
        raised = looser(before, after) and before != after
        past = self.past.setdefault(key, set())
        allowed: set[Limits] = set()
        if word is not Word.UNMANAGED:
            allowed |= held.limits
            if not held.sure:
                allowed |= {word} if isinstance(word, Limits) else past | {UNLIMITED}
            if not raised and not held.sure:
                allowed |= {desired.limits for desired in self._desired(key) if desired.limits is not None}
            if key in self.others and not held.sure:  # a hold ended: there may be others' limits to go back to
                allowed |= past
        past |= {before, after}
        self.ours.add(key)
        if after in held.limits:
            self.restore_to.setdefault(key, before)
        if after == word and key not in self.restore_to:  # after a hold these may be others' limits that are the same
            self.others.discard(key)
        (self.unrecorded.add if "intend" in side.full else self.unrecorded.discard)(key)
        (self.applied.add if after == word or after in held.limits else self.applied.discard)(key)
        if after not in allowed:
            self._breaks(1, f"{key} on {name} was set from {before} to {after}; allowed: {allowed or word}")
        if raised and not side.well and not held.ignore_health(after):
            self._breaks(1, f"{key} on {name} was raised from {before} to {after} while Ceph is unwell")
        if raised and "intend" in side.full:
            self._breaks(1, f"{key} on {name} was raised from {before} to {after} without a record")

    def _brake(self, side: Side, at_first: dict[str, Limits], this: str, *, whole: bool) -> None:
        """1: nothing is written that the brake counts and defers."""
        now = self.world.now
        written = {key: after for key, _, after in side.writes}
        grave = {key for key, after in written.items() if self._grave(side, key, at_first[key], after, this)}
        alone = [key for key in grave if self._too_much(side, key, at_first[key], written[key], this)]
        recent = set() if whole else {key for key, at in side.grave.items() if now - at < timedelta(hours=1)}
        if alone:
            self._breaks(1, f"{alone} were cut to a tenth, or their limits removed, without an approval")
        if grave and len(grave | recent) > BRAKE_DISKS:
            self._breaks(1, f"{sorted(grave)} were changed gravely without an approval, after {sorted(recent)}")
        side.grave |= dict.fromkeys(grave, now)

    def _before(self, side: Side, key: str) -> list[WasDesired]:
        """What the change may be weighed against."""
        found = side.desired.get(key) or [WasDesired(None, ""), *self._desired(key)]
        if key in self.restore_to and any(each.limits is None for each in found):  # what is in force is a hold's
            found = [*found, WasDesired(self.restore_to[key], "")]
        return found

    def _desired(self, key: str) -> list[WasDesired]:
        """On either node: what was desired there follows the guest."""
        return [desired for side in self.sides.values() for desired in side.desired.get(key, [])]

    def _grave(self, side: Side, key: str, actual: Limits, after: Limits, this: str) -> bool:
        name = next(n for n, s in self.sides.items() if s is side)
        if after in self.holds_on(key).limits or not isinstance(self.word(name, key)[0], Limits):
            return False
        if actual.unlimited and key not in self.ours_at_first:
            return False
        if side.judged == this and any(last.limits is None for last in self._before(side, key)):
            return False
        removal = after.unlimited
        before = self._before(side, key)
        approvals = list(side.approvals)
        if side.judged == this and any(last.revision != this for last in before):
            approvals += side.let_through
        if any(approval.covers(this, digest_of_change(key, after), removal=removal) for approval in approvals):
            return False
        of_region = {each.digest for each in self.orders.approvals if self.world.now < each.until}
        if not removal and not of_region.isdisjoint({this, self.edits.rules.revision}):
            return False
        return all(
            after not in (was, last.limits, last.later) and (looser(was, after) or share_left(was, after) < 0.5)
            for last in before
            for was in self._weighed(last, actual)
        )

    def _weighed(self, last: WasDesired, actual: Limits) -> list[Limits]:
        """What a change is weighed against: also what is in force, after a rule of which that was not known."""
        if last.until is not None and last.until <= self.world.now:
            return [last.later] if last.later is not None else [last.limits or actual, actual]
        return [last.limits or actual]

    def _too_much(self, side: Side, key: str, actual: Limits, after: Limits, this: str) -> bool:
        return all(
            last.revision != this and (after.unlimited or share_left(was, after) <= 1 / FACTOR)
            for last in self._before(side, key)
            for was in self._weighed(last, actual)
        )

    # --- what the model learns

    def _knows(self, side: Side, report: PassReport) -> bool:
        """Whether all disks but a few are remembered, so that others are new ones."""
        unknown = sum(outcome.disk.key not in side.node.memory for outcome in report.outcomes)
        return unknown <= max(BRAKE_DISKS, len(report.outcomes) / 5)

    def _others(self, owner: FakeGuest, disk: FakeDisk) -> None:
        key = key_of(owner, disk)
        self.others.add(key)
        self.past.setdefault(key, set()).update((disk.actual, disk.defined))

    def _learn(self, side: Side, report: PassReport | None, this: str, *, sure: bool) -> None:
        """What is desired now; of a pass that did not come to its end it may be, or not."""
        name = next(n for n, s in self.sides.items() if s is side)
        seen = None if report is None else {o.disk.key: o for o in report.outcomes}
        if seen is not None and sure:  # a disk that was detached is new when it comes back
            there = {outcome.disk.guest.uuid for outcome in seen.values()}
            side.desired = {k: d for k, d in side.desired.items() if k in seen or k.partition("/")[0] not in there}
        for owner, disk in self.disks(name):
            key = key_of(owner, disk)
            word, until = self.word(name, key)
            before = self._before(side, key)
            if not isinstance(word, Limits):
                if word is Word.UNMANAGED:
                    side.desired[key] = [WasDesired(None, ""), *([] if sure else before)]
                continue
            by_day = self.word_by_day(name, key)
            new = WasDesired(word, this, until, by_day if until is not None and isinstance(by_day, Limits) else None)
            if seen is None or not sure:
                side.desired[key] = [*before, new]
                continue
            outcome = seen.get(key)
            said = None if outcome is None else outcome.decision.aside or outcome.decision.desired
            if outcome is None or not isinstance(said, Desired):
                continue
            if said.limits != word:
                self._breaks(1, f"{key} on {name}: {said} is desired, not {word}")
            if report is not None and (report.braked is None or key not in report.braked.keys):
                side.desired[key] = [new]
                if outcome.decision.aside is not None:
                    continue
                self.restore_to.pop(key, None)
                if outcome.result.kind is Kind.IN_SYNC:
                    self.ours.add(key)

    # --- rest

    def rest(self) -> None:
        """2 and 3: once nothing stands in the way, memory, record and QEMU agree, and nothing is left to do."""
        self.ceph(True)
        for name in self.sides:
            self.pause(name, False)
        self.decide_for_region(pause=None)
        ends = [held.hold.until for held in self.held.values()] + [hold.until for hold in self.orders.holds]
        ends += [hold.until for holds in self.elsewhere.values() for hold in holds]
        ends += [] if self.edits.night is None else [self.edits.night[1]]
        while any(self.world.now <= end < self.world.now + timedelta(hours=2) for end in ends):  # an end is no rest
            self.wait(timedelta(hours=2))
        for _ in range(3):
            for name in self.sides:
                report = self.run(name)
                assert report is not None
                if report.braked is not None:
                    self.approve(name, self.revision(name), remove=True)
                    self.run(name)
                self.refresh(name)
        for name, side in self.sides.items():
            report = self.run(name)
            assert report is not None
            if side.writes:
                self._breaks(3, f"{name} does not come to rest: {side.writes}")
            if report.notes or report.unreachable:
                self._breaks(3, f"{name} has {report.notes} {report.unreachable}")
            self._agree(name, side, report)

    def _agree(self, name: str, side: Side, report: PassReport) -> None:
        rows = side.rows("disk", "attachment", "after", "result", "retried_at")
        still_open = [row for row in rows if row[3] in (None, Ending.TIMED_OUT.value) or row[4] is not None]
        if still_open:
            self._breaks(2, f"{name} has open changes: {still_open}")
        memory = side.node.memory
        for outcome in report.outcomes:
            disk, key = outcome.disk, outcome.disk.key
            if not self._explained(name, key, outcome):
                self._breaks(3, f"{key} on {name}: {outcome.result} at rest, {disk.actual} in force")
            if outcome.result.kind is not Kind.IN_SYNC:
                continue
            remembered = memory[key]
            right = {disk.actual} if key in self.applied else {disk.actual, None}
            as_put = disk.defined == disk.actual and remembered.applied in right
            if not as_put and key not in self.others:  # others may set just what is desired
                self._breaks(
                    3, f"{key} on {name}: {disk.actual}, {disk.defined} defined, {remembered.applied} applied"
                )
            took = [row[2] for row in rows if row[:2] == (key, disk.attachment) and row[3] in ("done", "took")]
            applied = None if remembered.applied is None else json.dumps(remembered.applied.in_effect())
            if took and applied != took[-1] and key not in self.unrecorded | self.others:
                self._breaks(3, f"{key} on {name}: {took[-1]} in the record, {applied} applied")

    def _explained(self, name: str, key: str, outcome: Outcome) -> bool:
        """Whether a disk that rests as this is as the model has it."""
        word, _ = self.word(name, key)
        held, kind, code = self.holds_on(key), outcome.result.kind, outcome.result.reason.code
        if kind is Kind.DEFERRED:
            return code in (Code.REVERTED_TOO_OFTEN, Code.GROUP_WITHHELD, Code.GROUP_DISAGREES)
        if word is Word.UNMANAGED:
            return code is Code.RULE_UNMANAGES
        if held.sure and len(held.possible) == 1:
            if held.possible[0].limits is None:
                return isinstance(outcome.decision.desired, Unmanaged)
            return kind is Kind.IN_SYNC and outcome.after.actual == held.possible[0].limits
        if kind is Kind.LEFT_ALONE:
            foreign = code is Code.FOREIGN_LIMIT and key in self.others
            return foreign or word is Word.NONE or bool(held.possible)
        return kind is Kind.IN_SYNC and (bool(held.possible) or word is Word.NONE or outcome.after.actual == word)
