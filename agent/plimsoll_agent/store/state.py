"""The files in the state directory of this node."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from plimsoll_agent.catalogue import attachments
from plimsoll_agent.catalogue.attachments import Attachments
from plimsoll_agent.catalogue.model import CatalogueError, orders_data, read_orders
from plimsoll_agent.catalogue.signed_file import SignedOrders
from plimsoll_agent.ceilings.buckets import CeilingKey, LastCounters, Shared
from plimsoll_agent.congestion.following import Pools
from plimsoll_agent.credits.ledger import Account
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.hypervisor import Versions
from plimsoll_agent.store import accounts_file, ceilings_file, clock, factors_file, memory_file
from plimsoll_agent.store.memory_file import Memory as Memory  # exported: ``load_memory`` returns it
from plimsoll_agent.util import decoding, files, locks
from plimsoll_agent.util.cached import Cached
from plimsoll_agent.util.decoding import as_json, data_of, maybe, several, text, time, value_of
from plimsoll_agent.util.frozen import asdict, frozen, replace
from plimsoll_agent.util.locks import ByteLocks, LongLock

LOG = logging.getLogger(__name__)
Value = TypeVar("Value")

# For a process that lives on: a pass over one guest takes less time than reading what is known of all others.
_MEMORIES: Cached[Memory | None] = Cached()
_LINES: dict[Path, memory_file.Lines] = {}
_ATTACHMENTS: Cached[Attachments | None] = Cached()
_ACCOUNTS: Cached[Mapping[str, Account] | None] = Cached()
_CEILINGS: Cached[tuple[Mapping[CeilingKey, Shared], Mapping[str, LastCounters]] | None] = Cached()
_FACTORS: Cached[Pools | None] = Cached()
_ORDERS: Cached[SignedOrders | None] = Cached()

# Python takes up to 34 times as much memory as JSON is long, and a pass has 512 MiB (MemoryMax of its unit).
MOST_BYTES = 8 * 2**20
_LARGEST_RULES = 2**20


class StateError(PlimsollError):
    """A file in the state directory cannot be read or written."""


class CorruptState(StateError):
    """A file has content that plimsoll did not write."""


class Busy(PlimsollError):
    """Another pass holds the lock."""

    exit_status = 75  # EX_TEMPFAIL of sysexits.h: try again


class NotAtRest(Busy):
    """A file that counts once it is at rest was changed just now."""


@frozen(kw_only=True)
class StateFile:
    """One file: which commands write it (``owner``), the version of its format, and what happens without it."""

    name: str
    owner: str
    version: int | None
    what: str
    corrupt: str
    missing: str
    oldest: int | None = None
    """The first version that is read: what is in it is kept. Without it, a file of another version is replaced."""


MEMORY = StateFile(
    name="memory.json",
    owner="passes, ``disk hold``, ``disk acknowledge``",
    version=memory_file.VERSION,
    oldest=3,
    what="the limits last desired and set for each disk, the holds, the acknowledged disks, the revision that the"
    " brake allowed, and the disks with a large change in the last hour",
    corrupt="renamed to ``memory.json.corrupt``, and rebuilt from the record; holds are those in the guests' marks,"
    " and the limits of a disk whose hold is in none are not changed",
    missing="rebuilt from the record; without a record this is a new node, and existing limits are not changed",
)
APPROVAL = StateFile(
    name="approval.json",
    owner="``approve``, passes",
    version=2,
    oldest=1,
    what="the approved digests, of revisions and of changes of single disks, until a pass over the whole node has"
    " used them",
    corrupt="renamed to ``approval.json.corrupt``; nothing is approved",
    missing="nothing is approved",
)
LAST_RULES = StateFile(
    name="rules.last.yaml",
    owner="passes",
    version=None,
    what="the last valid rules",
    corrupt="no effect while the rules file is valid; else the pass fails",
    missing="the same",
)
RECORD = StateFile(
    name="record.sqlite",
    owner="passes, ``disk hold``, ``approve``, ``pause``",
    version=7,
    oldest=2,
    what="every change of a limit",
    corrupt="renamed to ``record.sqlite.corrupt``, and a new one begins; if that fails, limits are lowered only, and"
    " only the journal has these changes",
    missing="a new one begins",
)
ATTACHMENTS = StateFile(
    name="attachments.json",
    owner="passes",
    version=attachments.VERSION,
    what="the volumes, and the guests without a flavor in their definition, that the last pass found:"
    " ``catalogue refresh`` reads it",
    corrupt="the next pass writes a new one; volumes with external changes are fetched again",
    missing="the same",
)
ORDERS = StateFile(
    name="orders.json",
    owner="passes, with a region file",
    version=1,
    oldest=1,
    what="the orders for the region (approvals, a pause, holds) in the last region file whose signature a pass has"
    " checked: an older file is refused, and while the file is missing or damaged its pause and holds stay",
    corrupt="the next pass checks the region file again, and writes a new one",
    missing="the same",
)
PROBES = StateFile(
    name="probes.sqlite",
    owner="``probe run``",
    version=5,
    oldest=3,
    what="the results of probes, their sums, which were deferred, and which guests are chosen",
    corrupt="renamed to ``probes.sqlite.corrupt``, and a new one begins, as do the metrics' counters; limits do not"
    " depend on it",
    missing="a new one begins",
)
PROBES_SHOWN = StateFile(
    name="probes-latest.sqlite",
    owner="``probe run``",
    version=PROBES.version,
    what="the newest results, and of older ones what ``check_plimsoll`` and ``status`` need: for users who may not"
    " read ``probes.sqlite``",
    corrupt="replaced by the next ``probe run``",
    missing="the same",
)
LAST_PASS = StateFile(
    name="pass.json",
    owner="passes over the whole node",
    version=6,
    what="the results of the last pass, and the sums over all: ``status``, metrics and ``check_plimsoll`` read it",
    corrupt="the next pass writes a new one, with sums of zero; limits do not depend on it",
    missing="the same",
)
CONSOLES = StateFile(
    name="consoles.json",
    owner="passes over the whole node, if ``read`` in ``[consoles]`` is on",
    version=1,
    what="how far each guest's console log was read, and the lines about stalls that were counted: none of the text"
    " of a guest",
    corrupt="the next pass writes a new one, with counts of zero, and reads each log from its end on",
    missing="the same",
)
USAGE = StateFile(
    name="usage.jsonl",
    owner="passes over the whole node, with metrics",
    version=None,
    what="each disk's use and latency, guests that did not answer or were paused, a line a pass: ``disk explain"
    " --since`` reads it",
    corrupt="what cannot be read is left out",
    missing="a new one begins",
)
USAGE_BEFORE = StateFile(
    name="usage.before.jsonl",
    owner="the same",
    version=None,
    what="the 8 MiB before ``usage.jsonl``",
    corrupt="the same",
    missing="the time before is unknown",
)
HISTOGRAMS = StateFile(
    name="histograms.json",
    owner="``load --latency``",
    version=1,
    what="the guests in whose QEMU latency histograms are set; removed at its end, and after ``kill -9`` by the next"
    " ``load``",
    corrupt="the next ``load --latency`` writes a new one; histograms that were left stay until their guests stop",
    missing="no histograms are set",
)
FILE_SYSTEMS = StateFile(
    name="file-systems.jsonl",
    owner="``mds settle``, ``mds undo``",
    version=None,
    what="each setting of a CephFS that was changed, before it was, with its value of before, and by whom",
    corrupt="``mds settle`` and ``mds undo`` name the line, and change nothing",
    missing="there is nothing to take back",
)
FILE_SYSTEMS_LOCK = StateFile(
    name="file-systems.lock",
    owner="the first ``mds settle``",
    version=None,
    what="locked by ``mds settle`` and ``mds undo``, as above",
    corrupt="not possible: it is empty",
    missing="created; if that fails, nothing is changed",
)
BUSY = StateFile(
    name="busy.count",
    owner="passes that find another pass running",
    version=None,
    what="a byte for each of them",
    corrupt="not possible: only its length counts",
    missing="no such pass is counted",
)
CLOCK = StateFile(
    name="clock.json",
    owner="passes",
    version=clock.VERSION,
    what="the time of the last pass over the node, by its clock and by ``CLOCK_BOOTTIME``: with it a pass finds out"
    " that the clock is wrong",
    corrupt="the next pass trusts the node's clock, and writes a new one",
    missing="the same",
)
CREDITS = StateFile(
    name="credits.json",
    owner="passes that see a limit with a burst",
    version=accounts_file.VERSION,
    oldest=1,
    what="what each disk has spent of its bursts, and its counters at that time: a write of limits, a restart or a"
    " reboot gives no burst again that was not saved",
    corrupt="the next pass writes a new one; until then every burst counts as whole",
    missing="every burst counts as whole",
)
FACTORS = StateFile(
    name="factors.json",
    owner="passes over the whole node, if ``mode`` in ``[congestion]`` enforces",
    version=factors_file.VERSION,
    oldest=1,
    what="the factor of congestion that is applied to the disks of each pool, and when it changed in the last hour",
    corrupt="every factor counts as 1, so the next pass restores the disks that are reduced, and writes a new one",
    missing="the same",
)
CEILINGS = StateFile(
    name="ceilings.json",
    owner="passes over the whole node, and over a guest that is new, if a rule has ``guest_ceiling`` or"
    " ``project_ceiling``",
    version=ceilings_file.VERSION,
    oldest=1,
    what="how each such ceiling is split among its disks, when that changed in the last hour, and their counters",
    corrupt="the next pass over the node splits all of them again, equally, and writes a new one; until then disks"
    " that are reduced stay so",
    missing="the same",
)
DAEMON = StateFile(
    name="daemon.json",
    owner="``daemon``",
    version=1,
    what="what the daemon does, written every 15 seconds while it runs: ``status`` reads it, and ``enforce"
    " --unless-daemon``",
    corrupt="the daemon writes a new one; until then it counts as not running",
    missing="the daemon does not run",
)
DAEMON_LOCK = StateFile(
    name="daemon.lock",
    owner="the first ``daemon``",
    version=None,
    what="locked by the daemon while it runs; of mode 0600, so that no other user can lock it",
    corrupt="not possible: it is empty",
    missing="created; if that fails, the daemon does not start",
)
VERSIONS = StateFile(
    name="versions.json",
    owner="passes that change a limit",
    version=1,
    what="the versions of libvirt and QEMU under which a limit was last written and read back, and those under which"
    " the last trial failed",
    corrupt="the next pass that changes limits changes one disk first, and writes a new one",
    missing="the same",
)
PASS_LOCK = StateFile(
    name="pass.lock",
    owner="the first pass, or ``systemd-tmpfiles``",
    version=None,
    what="locked by a pass over the whole node and by ``undo``, one at a time; of mode 0600, so that no other user"
    " can lock it",
    corrupt="not possible: it is empty",
    missing="created; if that fails (a full or read-only file system), there is no pass",
)
GUESTS_LOCK = StateFile(
    name="guests.lock",
    owner="the first change of a limit, or ``systemd-tmpfiles``",
    version=None,
    what="a byte is locked for each guest that is being changed, by passes, ``disk hold`` and ``undo``; of mode 0600,"
    " as above",
    corrupt="not possible: it is empty",
    missing="created; if that fails, passes over the whole node only lower limits, and there is no other",
)
STORE_LOCK = StateFile(
    name="store.lock",
    owner="the first pass, or ``systemd-tmpfiles``",
    version=None,
    what="locked for milliseconds while ``memory.json``, ``attachments.json`` or ``approval.json`` is replaced; of"
    " mode 0600, as above",
    corrupt="not possible: it is empty",
    missing="created; if that fails, nothing is remembered or approved",
)
PROBES_LOCK = StateFile(
    name="probes.lock",
    owner="the first ``probe run``, or ``systemd-tmpfiles``",
    version=None,
    what="locked by ``probe run``, as above; its owner is that of ``probes.sqlite``",
    corrupt="not possible: it is empty",
    missing="created; if that fails, nothing is probed",
)
HISTOGRAMS_LOCK = StateFile(
    name="histograms.lock",
    owner="the first ``load --latency``",
    version=None,
    what="locked by ``load --latency``, as above",
    corrupt="not possible: it is empty",
    missing="created; if that fails, no histogram is set",
)
FILES = (
    MEMORY,
    APPROVAL,
    LAST_RULES,
    RECORD,
    ATTACHMENTS,
    ORDERS,
    PROBES,
    PROBES_SHOWN,
    LAST_PASS,
    CONSOLES,
    USAGE,
    USAGE_BEFORE,
    HISTOGRAMS,
    FILE_SYSTEMS,
    BUSY,
    CLOCK,
    CREDITS,
    FACTORS,
    CEILINGS,
    DAEMON,
    DAEMON_LOCK,
    VERSIONS,
    PASS_LOCK,
    GUESTS_LOCK,
    STORE_LOCK,
    PROBES_LOCK,
    HISTOGRAMS_LOCK,
    FILE_SYSTEMS_LOCK,
)


@frozen
class Given:
    """An approval, by whom and when."""

    approval: Approval
    by: str
    at: datetime


class _PathOf:
    """In ``State``: where this file is."""

    def __init__(self, file: StateFile) -> None:
        self._name = file.name

    def __get__(self, state: State, _: type[State]) -> Path:
        return state.directory / self._name


@frozen
class State:
    """The state directory (``/var/lib/plimsoll``)."""

    directory: Path
    boot: str = ""
    """The node's boot id: after a reboot libvirt numbers guests and attachments from the start."""

    record = _PathOf(RECORD)
    last_rules = _PathOf(LAST_RULES)
    memory = _PathOf(MEMORY)
    approval = _PathOf(APPROVAL)
    attachments = _PathOf(ATTACHMENTS)
    orders = _PathOf(ORDERS)
    last_pass = _PathOf(LAST_PASS)
    consoles = _PathOf(CONSOLES)
    usage = _PathOf(USAGE)
    usage_before = _PathOf(USAGE_BEFORE)
    histograms = _PathOf(HISTOGRAMS)
    histograms_lock = _PathOf(HISTOGRAMS_LOCK)
    file_systems = _PathOf(FILE_SYSTEMS)
    clock = _PathOf(CLOCK)
    credits = _PathOf(CREDITS)
    factors = _PathOf(FACTORS)
    ceilings = _PathOf(CEILINGS)
    daemon = _PathOf(DAEMON)
    versions = _PathOf(VERSIONS)
    probes = _PathOf(PROBES)
    probes_shown = _PathOf(PROBES_SHOWN)

    @property
    def busy(self) -> int:
        """How many passes have found another one running."""
        try:
            return (self.directory / BUSY.name).stat().st_size
        except OSError:
            return 0

    def note_busy(self) -> None:
        """Count one more, if possible."""
        with suppress(OSError):
            files.append(self.directory / BUSY.name, b".")

    def prepare(self) -> None:
        """Create the directory if it is missing. Raises ``StateError``."""
        files.prepare(self.directory, 0o750, StateError)

    @contextmanager
    def locked(self, *, patience: float = 0) -> Iterator[None]:
        """Lock the node for one pass over all of it; wait at most ``patience`` seconds.

        Raises ``Busy`` while another pass runs, ``StateError`` if it cannot be locked.
        """
        busy = Busy("another pass is under way on this node; this one changed nothing")
        path = self.directory / PASS_LOCK.name
        with locks.held(path, busy, StateError, "; nothing was changed", patience=patience, former=True):
            files.sweep(self.directory, tuple(file.name for file in FILES))
            yield

    @contextmanager
    def file_systems_locked(self) -> Iterator[None]:
        """For changes of settings of a CephFS. Raises ``Busy`` while others are made, ``StateError``."""
        self.prepare()
        busy = Busy("another mds settle or mds undo is under way; this one changed nothing")
        with locks.held(self.directory / FILE_SYSTEMS_LOCK.name, busy, StateError, "; nothing was changed"):
            yield

    def daemon_locked(self) -> LongLock:
        """For the life of a daemon. Raises ``Busy`` while another one runs, ``StateError``."""
        busy = Busy("another plimsoll daemon runs on this node; this one ends")
        return LongLock(self.directory / DAEMON_LOCK.name, busy, StateError)

    def lacks_daemon(self) -> bool:
        """Whether it is certain that none runs."""
        return locks.is_free(self.directory / DAEMON_LOCK.name)

    def guest_locks(self) -> ByteLocks:
        """The locks of guests by their uuids, none of them taken yet; they raise ``StateError``."""
        return ByteLocks(self.directory / GUESTS_LOCK.name, StateError)

    def changing(self) -> AbstractContextManager[None]:
        """Hold the lock of the files from reading one until it is replaced: for milliseconds, and not twice.

        Raises ``StateError``.
        """
        return locks.for_a_change(self.directory / STORE_LOCK.name, "the state of this node", StateError)

    def load_memory(self) -> Memory | None:
        """None if there is no file. Raises ``CorruptState``, ``StateError``."""

        def read(envelope: dict[str, Any]) -> Memory:
            return memory_file.decoded(envelope, self.boot, self.memory)

        def load() -> Memory | None:
            return _load(self.memory, MEMORY, memory_file.MIGRATIONS, read)

        return _MEMORIES.get(self.memory, load, self.boot)

    def save_memory(self, memory: Memory) -> None:
        """Raises ``StateError``."""
        lines = memory_file.fitting(memory, _LINES.get(self.memory, {}))
        stamp = files.save(self.memory, memory_file.encoded(memory, lines, self.boot), StateError)
        _LINES.clear()
        _LINES[self.memory] = lines
        disks = {key: disk for key, (disk, _) in lines.items()}
        _MEMORIES.put(self.memory, stamp, replace(memory, disks=disks), self.boot)

    def load_attachments(self) -> Attachments:
        """Empty if the file cannot be read."""
        try:
            return _ATTACHMENTS.get(self.attachments, lambda: attachments.load(self.attachments)) or Attachments()
        except CatalogueError as error:
            LOG.warning("%s", error)
            return Attachments()

    def save_attachments(self, sightings: Attachments) -> None:
        """Raises ``StateError``."""
        try:
            attachments.save(self.attachments, sightings)
        except OSError as error:
            raise StateError(f"{self.attachments}: cannot be written: {error.strerror}") from error

    def load_orders(self) -> SignedOrders | None:
        """None if there is no file. Raises ``CorruptState``, ``StateError``."""
        return _ORDERS.get(self.orders, lambda: _load(self.orders, ORDERS, {}, _signed_orders))

    def save_orders(self, envelope: SignedOrders) -> None:
        """Raises ``StateError``."""
        data = {"version": ORDERS.version, **data_of(envelope), **orders_data(envelope.orders)}
        del data["orders"]
        stamp = files.save(self.orders, as_json(data, indent=1) + "\n", StateError)
        _ORDERS.put(self.orders, stamp, envelope)

    def load_accounts(self) -> Mapping[str, Account] | None:
        """None if there is no file. Raises ``CorruptState``, ``StateError``."""

        def load() -> Mapping[str, Account] | None:
            return _load(self.credits, CREDITS, {}, lambda data: accounts_file.decoded(data, self.boot))

        return _ACCOUNTS.get(self.credits, load, self.boot)

    def save_accounts(self, accounts: Mapping[str, Account]) -> None:
        """Raises ``StateError``."""
        stamp = files.save(self.credits, accounts_file.encoded(accounts, self.boot), StateError)
        _ACCOUNTS.put(self.credits, stamp, accounts, self.boot)

    def load_factors(self) -> Pools:
        """Empty if there is no file. Raises ``CorruptState``, ``StateError``."""
        return _FACTORS.get(self.factors, lambda: _load(self.factors, FACTORS, {}, factors_file.decoded)) or {}

    def save_factors(self, pools: Pools) -> None:
        """Raises ``StateError``."""
        stamp = files.save(self.factors, factors_file.encoded(pools), StateError)
        _FACTORS.put(self.factors, stamp, pools)

    def load_ceilings(self) -> tuple[Mapping[CeilingKey, Shared], Mapping[str, LastCounters]]:
        """How ceilings are split, and the counters of their disks; empty if there is no file.

        Raises ``CorruptState``, ``StateError``.
        """

        def load() -> tuple[Mapping[CeilingKey, Shared], Mapping[str, LastCounters]] | None:
            return _load(self.ceilings, CEILINGS, {}, lambda data: ceilings_file.decoded(data, self.boot))

        return _CEILINGS.get(self.ceilings, load, self.boot) or ({}, {})

    def save_ceilings(self, splits: Mapping[CeilingKey, Shared], looks: Mapping[str, LastCounters]) -> None:
        """Raises ``StateError``."""
        stamp = files.save(self.ceilings, ceilings_file.encoded(splits, looks, self.boot), StateError)
        _CEILINGS.put(self.ceilings, stamp, (splits, looks), self.boot)

    def load_versions(self) -> Versions | None:
        """None if there is no file. Raises ``CorruptState``, ``StateError``."""
        return _load(self.versions, VERSIONS, {}, lambda data: _versions(data) if "libvirt" in data else None)

    def load_failed_trial(self) -> Versions | None:
        """The versions of the last trial, if it failed. Raises ``CorruptState``, ``StateError``."""
        return _load(self.versions, VERSIONS, {}, lambda data: maybe(_versions, data.get("failed")))

    def save_versions(self, versions: Versions | None, failure: Versions | None = None) -> None:
        """Raises ``StateError``."""
        data: dict[str, object] = {"version": VERSIONS.version}
        if versions is not None:
            data |= asdict(versions)
        if failure is not None:
            data["failed"] = asdict(failure)
        files.save(self.versions, json.dumps(data) + "\n", StateError)

    def load_approvals(self) -> tuple[Given, ...]:
        """Raises ``CorruptState``, ``StateError``."""
        migrations = {1: _approvals_from_1}
        return _load(self.approval, APPROVAL, migrations, lambda data: several(_given, data["approvals"])) or ()

    def add_approval(self, entry: Given) -> Given | None:
        """Store it beside the others; returns the existing one if it approves the same.

        A corrupt file is set aside. Raises ``StateError``.
        """
        with self.changing():
            try:
                entries = self.load_approvals()
            except CorruptState:
                files.set_aside(self.approval, StateError)
                entries = ()
            same = [each for each in entries if each.approval == entry.approval]
            if same:
                return same[0]
            others = [each for each in entries if each.approval.digest != entry.approval.digest]
            self.save_approvals([*others, entry])
            return None

    def save_approvals(self, entries: Sequence[Given]) -> None:
        """Raises ``StateError``."""
        data = [{**asdict(each.approval), "by": each.by, "at": each.at.isoformat()} for each in entries]
        envelope = {"version": APPROVAL.version, "approvals": data}
        files.save(self.approval, json.dumps(envelope, indent=1) + "\n", StateError)

    def forget_approvals(self, entries: Collection[Given]) -> None:
        """Remove these, and none that was given since they were loaded. Raises ``StateError``."""
        with self.changing():
            others = [each for each in self.load_approvals() if each not in entries]
            if others:
                return self.save_approvals(others)
            try:
                self.approval.unlink(missing_ok=True)
            except OSError as error:
                raise StateError(f"{self.approval}: cannot be removed: {error.strerror}") from error

    def read_last_rules(self) -> bytes:
        """Raises ``OSError``."""
        return files.read_whole(self.last_rules, _LARGEST_RULES)

    def keep_rules(self, text: str) -> None:
        """Store the text of valid rules. Raises ``StateError``."""
        with suppress(OSError, UnicodeDecodeError):
            if self.read_last_rules() == text.encode():
                os.utime(self.last_rules)  # its time is when they were last valid
                return
        files.save(self.last_rules, text, StateError)


def _load(
    path: Path,
    file: StateFile,
    migrations: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]],
    read: Callable[[dict[str, Any]], Value],
) -> Value | None:
    """The file's content, migrated to the present version; None if there is no file."""

    def of(value: Any) -> Value:
        envelope: dict[str, Any] = {**value}
        version, newest = int(envelope["version"]), file.version or 0
        while version in migrations:
            envelope = migrations[version](envelope)
            version = envelope["version"]
        if version > newest:
            raise StateError(
                f"{path}: written by a newer plimsoll (version {str(version)[:20]}, known up to {newest});"
                " install that one again, or move the file away"
            )
        if version != newest:
            raise ValueError(f"unknown version {version}")
        return read(envelope)

    return decoding.load(path, MOST_BYTES, of, StateError, corrupt=CorruptState, too_large=StateError)


def _signed_orders(value: Any) -> SignedOrders:
    return value_of(SignedOrders, {**value, "orders": read_orders(value)})


_versions = partial(value_of, Versions)


def _approvals_from_1(envelope: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had six digits of a digest, too few to identify a revision: it approves nothing."""
    text(envelope["edition"])
    return {"version": 2, "approvals": []}


def _given(value: Any) -> Given:
    return Given(value_of(Approval, value), text(value["by"]), time(value["at"]))
