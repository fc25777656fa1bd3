"""What a pass of this node stands on: its rules, its memory, and what may keep it from a change."""

from __future__ import annotations

import logging
import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from plimsoll_agent import catalogue, clock, clusters, config, rulesfile
from plimsoll_agent.adapters.ceph import Ceph
from plimsoll_agent.approvals import Approval
from plimsoll_agent.audit import to_journal
from plimsoll_agent.catalogue import Catalogue, CatalogueError
from plimsoll_agent.clock import Now
from plimsoll_agent.config import CatalogueSettings, Settings
from plimsoll_agent.decide import Situation
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.gate import Gate
from plimsoll_agent.hypervisor import Hypervisor
from plimsoll_agent.ledger import Ledger
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Outcome, PassReport, Scope
from plimsoll_agent.passes import Caution, Mode, run_pass
from plimsoll_agent.pause import Pause
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.regionorders import Orders
from plimsoll_agent.report import minute
from plimsoll_agent.rules import Rules
from plimsoll_agent.sightings import Sightings
from plimsoll_agent.sources import SOURCES
from plimsoll_agent.state import State, StateError

LOG = logging.getLogger(__name__)

# A pass takes seconds; one with guests that hang takes a few deadlines.
PATIENCE = 60.0
"""Seconds that a person's command waits for a pass."""
_LOGINUID, _CGROUP = Path("/proc/self/loginuid"), Path("/proc/self/cgroup")
_NO_LOGIN = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Standing:
    """What a pass stands on, and what was wrong with the rules if they are older ones."""

    situation: Situation
    ledger: Ledger
    caution: Caution
    complaint: str | None


def state_of(settings: Settings) -> State:
    """The node's state. The kernel tells one run of the node from the next; where it does not, each is another."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = uuid4().hex
    return State(settings.state_dir, boot)


def standing(
    settings: Settings,
    by_hand: Limits | None = None,
    *,
    look_only: bool,
    sure: bool = False,
    approvals: tuple[Approval, ...] = (),
) -> Standing:
    """Rules, memory and caution; ``look_only`` leaves no trace of it.

    ``sure`` is a person who says yes, ``approvals`` are for this pass, besides those that the node keeps.

    Raises ``ConfigError`` when the rules are broken and there are no last good ones, ``StateError`` when the
    memory cannot be read.
    """
    state = state_of(settings)
    time = _reckoned(state, keep=not look_only)
    now = time.at
    in_force, complaint = rules_in_force(settings, state, keep=not look_only)
    if by_hand is not None:
        in_force = in_force.with_command_line(by_hand)
    known, doubt, orders = _fetched(settings.catalogue, now)
    ledger = Ledger(state, who(), settings.record, to_journal)
    if time.doubt is not None:
        detail = f"{time.doubt}; if it is right: rm {state.clock}"
        ledger.notes.append(because(Code.CLOCK_DOUBTED, detail=detail))
    if doubt is not None:
        ledger.notes.append(doubt)
    memory = ledger.recall(now, look_only=look_only)
    region = Orders() if isinstance(orders, Unknown) else orders
    disks, percent = region.bounds(now)
    brake = replace(
        settings.brake,
        disks=max(settings.brake.disks, disks),
        percent=max(settings.brake.percent, percent),
        approvals=(*ledger.approved(look_only=look_only), *approvals),
    )
    ceph = settings.ceph
    gate = Gate(clusters.read(ceph.conf_files), Ceph(ceph.id, ceph.deadline).health, ceph.blocking_checks)
    return Standing(
        Situation(
            now,
            in_force,
            memory.disks,
            memory.holds,
            known,
            Sightings() if known is None else state.load_sightings(),
            memory.judged,
            memory.recent,
            settings.catalogue.nova,
            region,
        ),
        ledger,
        Caution(brake, gate, paused(settings, orders, now), None if sure else settings.rounds, sure=sure),
        complaint,
    )


def paused(settings: Settings, orders: Orders | Unknown, now: datetime) -> Callable[[], Reason | None]:
    """Why nothing may be written, each time it is asked: by the pause file, or by the region."""
    here = Pause(settings.pause_file).reason
    if isinstance(orders, Unknown):  # as with a pause file that cannot be looked at: the region may be paused
        file = settings.catalogue.directory / catalogue.NAME
        of_region: Reason | None = because(
            Code.PAUSED, file=str(file), why="it cannot be read, and whether the region is paused stands there"
        )
    else:
        of_region = orders.paused(now)
    return lambda: here() or of_region


def pause_in_force(settings: Settings, now: datetime) -> Reason | None:
    """Why nothing may be written on this node now; None where it is not paused."""
    return paused(settings, _fetched(settings.catalogue, now)[2], now)()


def now_of(state: State) -> datetime:
    """The time that passes of this node go by."""
    return _reckoned(state, keep=False).at


def _reckoned(state: State, *, keep: bool) -> Now:
    try:
        last = clock.load(state.clock)
    except (OSError, clock.UnreadableClock) as error:
        LOG.warning("%s; the clock is taken as it is", error)
        last = None
    now = clock.reckon(last, clock.read(state.boot))
    if keep:
        try:
            clock.save(state.clock, now.trusted)
        except OSError as error:
            LOG.warning("%s: cannot be written: %s", state.clock, error.strerror)
    return now


def catalogue_in_force(
    settings: CatalogueSettings, now: datetime
) -> tuple[Catalogue | Unknown | None, Reason | None]:
    """What the control plane said last, and what is to be said about it: that it is old, or why nobody knows it.

    What it said last counts through an outage, as long as ``keep_for`` lets it.
    """
    known, doubt, _ = _fetched(settings, now)
    return known, doubt


def _fetched(
    settings: CatalogueSettings, now: datetime
) -> tuple[Catalogue | Unknown | None, Reason | None, Orders | Unknown]:
    """The catalogue, what is to be said about it, and what was decided for the region: unknown if it cannot be read.

    Orders have ends of their own, and count however old the catalogue is.
    """
    if settings.source == "none":
        return None, None, Orders()
    try:
        known = catalogue.load(settings.directory)
    except CatalogueError as error:
        unreadable, doubt = _nobody_knows(Code.CATALOGUE_UNREADABLE, str(error))
        return unreadable, doubt, unreadable if settings.source == "region-file" else Orders()
    if known is None:
        return *_nobody_knows(Code.NO_CATALOGUE, f"{settings.directory}; see: plimsoll catalogue refresh"), Orders()
    age = known.age(now)
    since = f"since {minute(known.issued)}"
    orders = known.orders if settings.source == "region-file" else Orders()
    if 0 < settings.keep_for < age.total_seconds():
        return *_nobody_knows(Code.CATALOGUE_OUTDATED, f"nothing new from {known.source} {since}"), orders
    if age.total_seconds() > settings.old_after:
        return known, because(Code.CATALOGUE_OLD, detail=f"nothing new from {known.source} {since}"), orders
    return known, None, orders


def _nobody_knows(code: Code, detail: str) -> tuple[Unknown, Reason]:
    reason = because(code, detail=detail)
    return Unknown(reason), reason


def rules_in_force(settings: Settings, state: State, *, keep: bool) -> tuple[Rules, str | None]:
    """The rules to run on; ``keep`` notes good ones for the day when they are not.

    A file that disappears, or is cut off, is a fault once there were rules in it.
    """
    path, last = settings.rules_file, _last_rules(state)
    try:
        text = rulesfile.read(path, required=path != config.RULES_FILE or bool(last and last.text.strip()))
        in_force = rulesfile.parse(text, str(path))
    except ConfigError as error:
        if last is None:
            raise
        try:
            return rulesfile.parse(last.text, str(state.last_rules)), (
                f"{error}\nThe pass ran on the last good rules ({last.written:%Y-%m-%d %H:%M} UTC)."
            )
        except ConfigError as another:
            raise ConfigError(f"{error}\n{another}") from another
    if keep:
        try:
            state.keep_rules(text)
        except StateError as trouble:
            LOG.warning("%s", trouble)
    return in_force, None


@dataclass(frozen=True, slots=True)
class _LastRules:
    text: str
    written: datetime


def _last_rules(state: State) -> _LastRules | None:
    try:
        text = state.read_last_rules().decode("utf-8", errors="replace")
        return _LastRules(text, datetime.fromtimestamp(state.last_rules.stat().st_mtime, UTC))
    except OSError:
        return None


def run(
    settings: Settings,
    hypervisor: Hypervisor,
    stand: Standing,
    *,
    scope: Scope,
    mode: Mode,
    sizes: bool = False,
    clock: Callable[[], float] | None = None,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> PassReport:
    """A pass over this node with its settings; the caller holds the node's lock when it may write."""
    return run_pass(
        scope,
        stand.situation,
        mode,
        hypervisor=hypervisor,
        sources=SOURCES,
        ledger=stand.ledger,
        bounds=settings.bounds,
        caution=stand.caution,
        sizes=sizes,
        clock=clock,
        tell=tell,
    )


def who() -> str:
    """Who makes the change, for the record: the user, and who logged in or used sudo, where that is another one;
    where no person logged in, the unit.
    """
    user, login, sudo = _name_of(os.getuid()), _login(), os.environ.get("SUDO_USER")
    behind = [name for name in (login, sudo) if name and name != user]
    if len(set(behind)) > 1:
        behind[1] = f"sudo {sudo}"
    unit = _unit() if login is None and not sudo else None
    named = ", ".join(dict.fromkeys(behind)) or unit
    name = f"{user} ({named})" if named else user
    return name.encode("utf-8", "backslashreplace").decode()  # what the environment says may be no text


def _login() -> str | None:
    """Who logged in: the kernel keeps that through su and sudo. None where no person did."""
    try:
        uid = int(_LOGINUID.read_text(encoding="ascii"))
    except (OSError, ValueError):  # a kernel without it
        return None
    return None if uid in (-1, _NO_LOGIN) else _name_of(uid)


def _unit() -> str | None:
    """The systemd service that this runs in."""
    try:
        groups = _CGROUP.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None
    return next((name for group in groups if (name := group.rpartition("/")[2]).endswith(".service")), None)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a user without an entry in the user database
        return str(uid)
