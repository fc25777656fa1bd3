"""The context of a pass: rules, memory, and what may defer changes."""

from __future__ import annotations

import logging
import os
import pwd
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path

from plimsoll_agent.adapters.ceph import Ceph
from plimsoll_agent.app.audit import to_journal
from plimsoll_agent.app.congestion_following import Follow, ceilings, following
from plimsoll_agent.app.fetched import catalogue_actual, congestion_actual, region_orders
from plimsoll_agent.app.node import paused, reckoned, state_of
from plimsoll_agent.catalogue.attachments import Attachments
from plimsoll_agent.config.options import RULES_FILE
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model import clusters
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.hypervisor import Hypervisor
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code
from plimsoll_agent.model.usage import Used
from plimsoll_agent.monitor import usage_history
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.reconcile.caution import Caution
from plimsoll_agent.reconcile.health_gate import Gate
from plimsoll_agent.reconcile.outcome import Mode, Outcome, PassReport, Scope
from plimsoll_agent.reconcile.run import by_sources, run_pass
from plimsoll_agent.rules import loader
from plimsoll_agent.rules.loader import NoRules, Read
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.notes import Notes
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.util import schema
from plimsoll_agent.util.cached import Cached
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.locks import ByteLocks
from plimsoll_agent.util.text import minute

LOG = logging.getLogger(__name__)

# A guest that hangs takes a few deadlines; so does a pass over the node with such guests.
PATIENCE = 60.0
"""Seconds that an operator's command waits for what changes the same guests."""
_LOGINUID, _CGROUP = Path("/proc/self/loginuid"), Path("/proc/self/cgroup")
_NO_LOGIN = 2**32 - 1


# For a process that lives on.
_USED: Cached[Mapping[str, Used]] = Cached()
_parse = lru_cache(maxsize=1)(loader.parse)


@frozen
class Asked:
    """What an operator asks of one pass."""

    limits: Limits | None = None
    """On the command line."""
    approvals: tuple[Approval, ...] = ()
    """Besides those stored on the node."""
    sure: bool = False
    """Confirmed at the terminal."""


NOTHING_ASKED = Asked()


@frozen(kw_only=True)
class PassContext:
    """The context of a pass."""

    situation: Situation
    node_store: NodeStore
    notes: Notes
    """Notes of the pass; at first those about its context."""
    caution: Caution
    complaint: str
    """What is wrong with the rules file, if the last good rules are used."""


def pass_context(
    settings: Settings,
    request: Asked = NOTHING_ASKED,
    *,
    read_only: bool,
    without_rules: bool = False,
    locks: ByteLocks | None = None,
    read: Read = schema.read,
    follow: Follow = Follow.KEEP,
) -> PassContext:
    """Rules, memory and caution; with ``read_only`` nothing is written. ``locks`` are those of guests held already.

    ``read`` reads the rules file.

    ``without_rules``: a missing rules file is a complaint and no error, for commands that only show something.
    ``follow`` is what the pass may do about congestion and ceilings.
    Raises ``ConfigError`` if the rules are invalid and there are no last good ones, ``StateError`` if the memory
    cannot be read.
    """
    state = state_of(settings)
    # A pass over some guests leaves the time to the next one over the node: each write waits for the disk.
    time = reckoned(state, keep=not read_only and locks is None)
    now = time.at
    actual, complaint = rules_actual(settings, state, keep=not read_only, without=without_rules, read=read)
    if request.limits is not None:
        actual = actual.with_command_line(request.limits)
    catalogue, doubt = catalogue_actual(settings.catalogue, now)
    region = region_orders(settings.catalogue, state, keep=not read_only)
    notes = Notes()
    if time.doubt is not None:
        notes.add(Code.CLOCK_SUSPECT, f"{time.doubt}; if it is right: rm {state.clock}")
    for note in (doubt or region.stale(settings.catalogue, now), region.unknown):
        if note is not None:
            notes.append(note)
    node_store = NodeStore(state, who(), settings.record, to_journal, notes, locks)
    with notes.taking(Code.NO_RECORD):
        node_store.note_stages(region.news, region.orders.position or 0.0, now)
    memory = node_store.recall(now, read_only=read_only)
    disks, percent = region.orders.bounds(now)
    brake = replace(
        settings.brake,
        disks=max(settings.brake.disks, disks),
        percent=max(settings.brake.percent, percent),
        approvals=(*node_store.approved(read_only=read_only), *request.approvals),
    )
    ceph = settings.ceph
    gate = Gate(clusters.read(ceph.conf_files), Ceph(ceph.id, ceph.deadline).health, ceph.blocking_checks)
    factors = partial(congestion_actual, settings.congestion, settings.catalogue.directory, now)
    return PassContext(
        situation=Situation(
            now=now,
            rules=actual,
            memory=memory.disks,
            holds=memory.holds,
            catalogue=catalogue,
            attachments=Attachments() if catalogue is None else state.load_attachments(),
            brake=memory.brake,
            asks_nova=settings.catalogue.nova,
            orders=region.orders,
            acknowledged=memory.acknowledged,
            orders_unknown=region.unknown,
            used=partial(_used, state),
            congestion=factors,
            following=following(settings, state, follow, factors, now),
            ceilings=ceilings(state, follow),
        ),
        node_store=node_store,
        notes=notes,
        caution=Caution(
            brake=brake,
            gate=gate,
            paused=paused(settings, region.orders, now),
            rounds=None if request.sure else settings.rounds,
            sure=request.sure,
        ),
        complaint=complaint,
    )


def _used(state: State) -> Mapping[str, Used]:
    """What disks of this node used lately; a history that cannot be read is one without disks."""
    try:
        return _USED.get(state.usage, lambda: usage_history.most_used(state))
    except StateError as error:
        LOG.warning("%s; what disks used is unknown", error)
        return {}


def rules_text(settings: Settings, state: State, *, read: Read = schema.read) -> str:
    """The text of the rules file as a pass takes it: a file that had rules must not disappear or become empty.

    Nor may it for a user who cannot read what it had. Raises ``ConfigError``, ``NoRules`` if it is missing or empty.
    """
    try:
        had_rules = not loader.is_empty(state.read_last_rules().decode("utf-8", errors="replace"))
    except FileNotFoundError:
        had_rules = False
    except OSError:
        had_rules = True
    return _text(settings, read, had_rules=had_rules)


def _text(settings: Settings, read: Read, *, had_rules: bool) -> str:
    return loader.read(settings.rules_file, required=settings.rules_file != RULES_FILE or had_rules, read=read)


def rules_actual(
    settings: Settings, state: State, *, keep: bool, without: bool = False, read: Read = schema.read
) -> tuple[Rules, str]:
    """The rules to use, and what is wrong with the file if they are the last good ones, or none (``without``).

    ``keep`` saves valid rules as the last good ones.
    """
    path, last = settings.rules_file, _last_rules(state)
    try:
        text = _text(settings, read, had_rules=last is not None and not loader.is_empty(last.text))
        actual = _parse(text, str(path))
    except ConfigError as error:
        if last is None and without and isinstance(error, NoRules):
            return Rules(), (
                f"{error}. Shown without rules (rules_file in the settings); plimsoll enforce refuses to run."
            )
        if last is None:
            raise
        try:
            return loader.parse(last.text, str(state.last_rules)), (
                f"{error}\nUsing the last good rules ({minute(last.written)})."
            )
        except ConfigError as another:
            raise ConfigError(f"{error}\n{another}") from another
    if keep:
        try:
            state.keep_rules(text)
        except StateError as trouble:
            LOG.warning("%s", trouble)
    return actual, ""


@frozen
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
    context: PassContext,
    *,
    scope: Scope,
    mode: Mode,
    sizes: bool = False,
    clock: Callable[[], float] | None = None,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> PassReport:
    """A pass with these settings. If it may write, the caller must hold the node's lock, or the locks of its guests
    (``app.guest_pass``).
    """
    report = run_pass(
        scope,
        context.situation,
        mode,
        hypervisor=hypervisor,
        decider=by_sources(SOURCES),
        node_store=context.node_store,
        notes=context.notes,
        bounds=settings.bounds,
        caution=context.caution,
        sizes=sizes,
        clock=clock,
        tell=tell,
    )
    return replace(report, complaint=context.complaint)


def who() -> str:
    """Who makes the change, for the record: the user, and the other user who logged in or used sudo, or the unit."""
    user, login, sudo = _name_of(os.getuid()), _login(), os.environ.get("SUDO_USER")
    others = [name for name in (login, sudo) if name and name != user]
    if len(set(others)) > 1:
        others[1] = f"sudo {sudo}"
    unit = _unit() if login is None and not sudo else None
    origin = ", ".join(dict.fromkeys(others)) or unit
    name = f"{user} ({origin})" if origin else user
    return name.encode("utf-8", "backslashreplace").decode()  # the environment may hold bytes that are not UTF-8


def _login() -> str | None:
    """The user who logged in, kept by the kernel through su and sudo. None without a login."""
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
