"""Implements ``Hypervisor`` with libvirt's QEMU driver. No ``libvirtError`` leaves this module."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import libvirt

from plimsoll_agent.adapters.deadline import Deadlines, SharedCalls, StillHangs
from plimsoll_agent.adapters.libvirt import blockstats, domxml, qmp
from plimsoll_agent.errors import (
    AgentAway,
    AgentGarbled,
    AgentRefused,
    AgentTimedOut,
    DeadlineExceeded,
    NoAgent,
    NotFound,
    NotSent,
    PlimsollError,
    Rejected,
    Unreachable,
    UnreadableXML,
)
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import BlockStats, GuestRef, Movement, Sighting, Survey, Versions
from plimsoll_agent.model.limits import Limits, LimitsError, group_alone, shared_group
from plimsoll_agent.model.marks import NAMESPACE, PREFIX, Marks
from plimsoll_agent.util.decoding import UNREADABLE, complaint
from plimsoll_agent.util.frozen import replace

Answer = TypeVar("Answer")

# libvirt's bindings print every error on stderr unless there is a handler.
libvirt.registerErrorHandler(lambda _context, _error: None, None)

# Of libvirt 11.2 and later (virterror.h), to which bindings without these names may be connected.
_AGENT_COMMAND_TIMEOUT = 112
_AGENT_COMMAND_FAILED = 113
_LONGEST_COMPLAINT = 1000  # characters: an agent may send megabytes

# In milliseconds. Other clients' calls to QEMU take a few. Counters are not worth a wait; a guest without its limits,
# or whose migration is not seen, is worse.
_PATIENCE = 500
_LONG_PATIENCE = 2000
_MOST_ANSWERED = 1000
_NEXT = "check that libvirtd or virtqemud runs, and uri in [libvirt] (plimsoll settings libvirt)"
_RUNNING = libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE


class _Link:
    """A connection, and libvirt's objects for the guests that ran when they were last listed on it.

    They save a lookup at every call. An object belongs to its connection, and stays valid when its guest is
    restarted: libvirt uses the uuid.
    """

    def __init__(self, uri: str) -> None:
        self.connection = libvirt.open(uri)
        self._running: dict[str, Any] = {}

    def list_running(self) -> dict[str, Any]:
        """By uuid."""
        self._running = {domain.UUIDString(): domain for domain in self.connection.listAllDomains(_RUNNING)}
        return self._running

    def domain(self, uuid: str) -> Any:
        return self._running.get(uuid) or self.connection.lookupByUUIDString(uuid)

    def close(self) -> None:
        self._running = {}  # each of them would keep the connection open
        with suppress(libvirt.libvirtError):  # it is lost
            self.connection.close()


class Libvirt:
    """A ``Hypervisor``: a few connections to libvirtd or virtqemud. Use ``close`` when done.

    Each call has a connection for itself. libvirt's client sometimes loses the wake-up of a second thread
    (until 9.10; "rpc: fix race in waking up client event loop"), so on a shared connection a call that hangs would
    delay calls to other guests.
    """

    def __init__(
        self,
        uri: str,
        *,
        deadline: float,
        at_once: int,
        writes: Callable[[Disk, Mapping[str, object]], None] = lambda _, __: None,
        shared_calls: SharedCalls | None = None,
    ) -> None:
        """Connect; ``writes`` is called before limits are set, with libvirt's parameters. Raises ``Unreachable``.

        Hung calls count among ``shared_calls``, which are about guests by their uuids.
        """
        self.uri = uri
        self._writes = writes
        self._deadlines = Deadlines(deadline, at_once, shared_calls)
        self._idle: SimpleQueue[_Link] = SimpleQueue()
        self._answered: dict[str, float] = {}
        """By uuid when a guest's last survey ended: soon after, ``block_stats`` need not check whether QEMU hangs."""
        try:
            self._deadlines.call("libvirt", lambda: self._idle.put(_Link(uri)))
        except DeadlineExceeded as error:
            raise Unreachable(f"libvirt at {uri} does not answer: {error}") from error
        except libvirt.libvirtError as error:
            raise Unreachable(f"libvirt at {uri} cannot be reached: {error}; {_NEXT}") from error

    @property
    def hung(self) -> bool:
        """True while a call has not returned: leave by ``os._exit``, its thread cannot be joined."""
        return self._deadlines.hung > 0

    def close(self) -> None:
        """Close the connections that no call is on."""
        with suppress(Empty):
            while True:
                link = self._idle.get_nowait()
                with suppress(PlimsollError):
                    self._deadlines.call("libvirt", link.close)
        self._deadlines.close()

    def versions(self) -> Versions:
        def ask(link: _Link) -> Versions:
            return Versions(link.connection.getLibVersion(), link.connection.getVersion())

        return self._call("libvirt", ask)

    def guests(self) -> Sequence[GuestRef]:
        def ask(link: _Link) -> list[GuestRef]:
            return [GuestRef(uuid, domain.name()) for uuid, domain in link.list_running().items()]

        try:
            guests = self._call("libvirt", ask)
        except PlimsollError as error:
            raise Unreachable(f"libvirt at {self.uri} does not list its guests: {error}") from error
        # libvirt's order is that of a hash table and changes from call to call.
        return sorted(guests, key=lambda guest: (guest.name, guest.uuid))

    def look(self, uuid: str) -> Sighting:
        # Of a guest that hangs too: libvirt answers without QEMU, but where the guest has a job.
        def see(domain: Any) -> Sighting:
            return _with_movement(domain, _defined(domain))

        return self._call("libvirt", lambda link: _asked(link.domain(uuid), see))

    def survey(self, uuid: str) -> Survey:
        answers: dict[str, Limits | PlimsollError | LimitsError] = {}
        surveys: list[Survey] = []  # what was found before a deadline passes is kept: the last one

        def see(domain: Any) -> Survey:
            sighting = _defined(domain)
            surveys.append(_survey(sighting, answers))  # what job a guest has is not told while it hangs
            survey = _survey(_with_movement(domain, sighting), answers)
            surveys.append(survey)
            return survey

        def ask(domain: Any) -> Survey:
            survey = see(domain)
            for disk in survey.disks if survey.movement is Movement.STAYS else ():
                try:
                    answers[disk.target] = _asked(domain, partial(_actual, disk=disk))
                except (Rejected, NotFound, NotSent, LimitsError) as error:
                    answers[disk.target] = error.with_traceback(
                        None
                    )  # else it would keep the domain, and so the link
            if any(disk.target in answers and not disk.filters for disk in survey.disks):
                self._just_answered(uuid)
            return survey

        # One errand for all calls: its two hand-offs between threads take longer than a call.
        try:
            return self._ask("QEMU", uuid, ask)
        except DeadlineExceeded as error:
            if isinstance(error, StillHangs):
                with suppress(DeadlineExceeded):
                    self._call("libvirt", lambda link: _asked(link.domain(uuid), see))
            if not surveys:
                raise
            survey = surveys[-1]
            return replace(survey, actual={disk.target: answers.get(disk.target, error) for disk in survey.disks})

    def actual(self, disk: Disk) -> Limits:
        if disk.filters:
            there = next((each for each in self.look(disk.guest.uuid).disks if each.key == disk.key), None)
            if there is None:
                raise NotFound("the disk is gone")
            disk = there
        return self._ask("QEMU", disk.guest.uuid, partial(_actual, disk=disk))

    def block_stats(self, uuid: str, targets: Iterable[str]) -> Mapping[str, BlockStats]:
        # Not domainListGetStats, although it has a flag not to wait: it would query the sizes too.
        def ask(domain: Any) -> Mapping[str, BlockStats]:
            recent = time.monotonic() - self._answered.get(uuid, -math.inf) < _PATIENCE / 1000
            return {} if not recent and _hangs(domain, _PATIENCE) else dict(_counters(domain, targets))

        return self._ask("QEMU", uuid, ask)

    def sizes(self, uuid: str) -> Mapping[str, int]:
        # libvirt uses query-named-block-nodes, for which QEMU (7.2) reads each image and stops its main loop.
        block, nowait = libvirt.VIR_DOMAIN_STATS_BLOCK, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
        records: list[tuple[Any, dict[str, Any]]] = self._ask(
            "QEMU", uuid, lambda domain: domain.connect().domainListGetStats([domain], block, nowait)
        )
        return {
            stats[f"block.{n}.name"]: stats[f"block.{n}.capacity"]
            for _, stats in records
            for n in range(stats.get("block.count", 0))
            if f"block.{n}.capacity" in stats  # the answer for a guest that is busy has names only
        }

    def set_limits(self, disk: Disk, limits: Limits, *, alone: bool = False) -> None:
        full_set, live = _full_set(disk, limits, alone=alone), libvirt.VIR_DOMAIN_AFFECT_LIVE
        self._writes(disk, full_set)

        def put(domain: Any) -> None:
            # libvirt would queue it behind that call, and set the limits after the deadline of this one.
            if _hangs(domain, _LONG_PATIENCE):
                raise NotSent("the guest is busy: QEMU has not answered an earlier call")
            domain.setBlockIoTune(disk.target, full_set, live)

        self._ask("QEMU", disk.guest.uuid, put)

    def define_limits(self, disk: Disk, limits: Limits) -> None:
        def define(domain: Any) -> None:
            # In the persistent definition the same target may be another volume.
            there = _standing_in(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), disk)
            if there is None:
                return
            # libvirt leaves the disk in the group that it has there, and gives all of that the limits.
            in_group = not isinstance(there.defined, Limits) or there.defined.group_name is not None
            full_set = _full_set(disk, limits, alone=in_group and limits.group_name is None)
            try:
                domain.setBlockIoTune(disk.target, full_set, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
            except libvirt.libvirtError:
                if domain.isPersistent():  # a transient guest shows its live XML as its definition
                    raise

        self._ask("libvirt", disk.guest.uuid, define)

    def set_marks(self, uuid: str, marks: Marks) -> None:
        element, live = libvirt.VIR_DOMAIN_METADATA_ELEMENT, libvirt.VIR_DOMAIN_AFFECT_LIVE
        text, prefix = (marks.xml, PREFIX) if marks.by_disk else (None, None)
        self._ask("libvirt", uuid, lambda domain: domain.setMetadata(element, text, prefix, NAMESPACE, live))

    def knows(self, uuid: str) -> bool:
        def ask(link: _Link) -> bool:
            try:
                link.connection.lookupByUUIDString(uuid)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return False
                raise
            return True

        return self._call("libvirt", ask)

    def qemu_says(self, uuid: str) -> Mapping[str, Limits]:
        """Limits by ``pool/image`` from QEMU's own ``query-block``; libvirt marks the guest as tainted for it.

        Also raises ``Rejected`` for an answer that is not QEMU's.
        """
        try:
            return qmp.limits_by_image(self.monitor(uuid, "query-block"))
        except UNREADABLE as error:
            raise Rejected(f"QEMU's answer to query-block cannot be read: {complaint(error)}") from error

    def monitor(self, uuid: str, command: str, arguments: Mapping[str, object] | None = None) -> Any:
        """What QEMU returns for a command of its own protocol; libvirt marks the guest as tainted for it.

        Also raises ``Rejected`` for an answer that is not QEMU's.
        """
        import libvirt_qemu  # rarely needed

        request = json.dumps({"execute": command, "arguments": arguments or {}})
        answer: str = self._ask("QEMU", uuid, lambda domain: libvirt_qemu.qemuMonitorCommand(domain, request, 0))
        try:
            return qmp.returned(json.loads(answer))
        except UNREADABLE as error:
            raise Rejected(f"QEMU's answer to {command} cannot be read: {complaint(error)}") from error

    def agent(self, uuid: str, request: str, seconds: int) -> str:
        """The guest agent's answer to a request, both JSON; ``seconds`` is the timeout for the answer.

        libvirt first syncs with the agent for up to 5 s: the deadline of this object must leave room for both. The
        answer has up to 4 MiB and is not to be trusted.

        Also raises ``NoAgent``, ``AgentAway``, ``AgentTimedOut``, ``AgentRefused`` and ``AgentGarbled``.
        """
        import libvirt_qemu  # only probes need it

        def ask(domain: Any) -> str:
            try:
                answer: str = libvirt_qemu.qemuAgentCommand(domain, request, seconds, 0)
            except UnicodeDecodeError as error:
                raise AgentGarbled("the agent's answer is not UTF-8") from error
            except libvirt.libvirtError as error:
                agent_error = _agent_error(error)
                if agent_error is None or not domain.isActive():
                    raise
                raise agent_error from error
            return answer

        return self._ask("the guest's agent", uuid, ask)

    def _just_answered(self, uuid: str) -> None:
        now = time.monotonic()
        if len(self._answered) >= _MOST_ANSWERED:  # of a process that lives on, while guests come and go
            self._answered = {guest: at for guest, at in [*self._answered.items()] if now - at < _PATIENCE / 1000}
        self._answered[uuid] = now

    def _link(self) -> _Link:
        try:
            return self._idle.get_nowait()
        except Empty:
            link = _Link(self.uri)
            link.list_running()
            return link

    def _ask(self, who: str, uuid: str, question: Callable[[Any], Answer]) -> Answer:
        return self._call(who, lambda link: _asked(link.domain(uuid), question), uuid)

    def _call(self, who: str, ask: Callable[[_Link], Answer], about: str = "") -> Answer:
        def on_a_link() -> Answer:
            try:
                link = self._link()
                try:
                    return ask(link)
                finally:
                    if link.connection.isAlive():
                        self._idle.put(link)
                    else:
                        link.close()
            except libvirt.libvirtError as error:
                raise _translated(error) from error

        return self._deadlines.call(who, on_a_link, about)


def _asked(domain: Any, question: Callable[[Any], Answer]) -> Answer:
    try:
        try:
            return question(domain)
        except libvirt.libvirtError:
            # Whatever the error is, a guest that has stopped since is reported as stopped.
            if not domain.isActive():
                raise NotFound("the guest has stopped") from None
            raise
    except libvirt.libvirtError as error:
        raise _translated(error) from error


def _translated(error: Any) -> PlimsollError:
    code, text = error.get_error_code(), " ".join(str(error).split())
    if code == libvirt.VIR_ERR_NO_DOMAIN:
        return NotFound("the guest is gone")
    if code == libvirt.VIR_ERR_OPERATION_TIMEOUT:  # "cannot acquire state change lock": QEMU was never asked
        return NotSent(f"the guest is busy: {text}")
    if code == libvirt.VIR_ERR_RPC or error.get_error_domain() == libvirt.VIR_FROM_RPC:
        return DeadlineExceeded(f"the connection to libvirt was lost: {text}")
    return Rejected(text)


def _agent_error(error: Any) -> PlimsollError | None:
    """The error of the agent; None where it is about something else."""
    code, text = error.get_error_code(), " ".join(str(error)[:_LONGEST_COMPLAINT].split())
    if code is None:  # seen with 9.0 when the agent was restarted during a request: no error is set
        return AgentTimedOut("the agent does not answer, and libvirt gives no reason")
    if error.get_error_domain() != libvirt.VIR_FROM_QEMU:
        # libvirt's JSON parser has an error domain of its own.
        return AgentGarbled(text) if code == libvirt.VIR_ERR_INTERNAL_ERROR else None
    if code == libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED:
        return NoAgent("the guest has no channel for an agent")
    if code == libvirt.VIR_ERR_OPERATION_INVALID:  # a paused guest
        return AgentAway(text)
    if code == libvirt.VIR_ERR_AGENT_UNRESPONSIVE:
        # One code for an agent that is not connected and for one that does not answer.
        return AgentAway(text) if "QEMU guest agent is not" in text else AgentTimedOut(text)
    if code in (libvirt.VIR_ERR_AGENT_UNSYNCED, _AGENT_COMMAND_TIMEOUT):
        return AgentTimedOut(text)
    _, prefix, why = text.partition("unable to execute QEMU agent command ")
    if prefix or code == _AGENT_COMMAND_FAILED:
        return AgentRefused(why.partition("': ")[2] or text)
    if code in (libvirt.VIR_ERR_INTERNAL_ERROR, libvirt.VIR_ERR_SYSTEM_ERROR):
        return AgentGarbled(text)
    return None


def _defined(domain: Any) -> Sighting:
    """From its definition alone, without its movement."""
    guest, disks = domxml.parse(domain.XMLDesc(0))
    return Sighting(guest=guest, disks=disks)


def _with_movement(domain: Any, sighting: Sighting) -> Sighting:
    movement, is_paused = _movement(domain)
    return replace(sighting, movement=movement, paused=is_paused)


def _survey(sighting: Sighting, actual: Mapping[str, Limits | PlimsollError | LimitsError]) -> Survey:
    return Survey(
        disks=sighting.disks,
        movement=sighting.movement,
        actual=actual,
        other_disks=sighting.guest.other_disks,
        kernel_mapped=sighting.guest.kernel_mapped,
        paused=sighting.paused,
    )


def _actual(domain: Any, disk: Disk) -> Limits:
    if disk.filters:  # libvirt refuses to tell; QEMU's query-block has no limits of such a disk
        if isinstance(disk.defined, Limits):
            return disk.defined
        raise Rejected("the limits of its throttle filters are no single set")
    iotune: dict[str, object] = domain.blockIoTune(disk.target, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    group = iotune.pop("group_name", None)
    return Limits.from_mapping(iotune | {"group_name": shared_group(str(group or ""), disk.alias)})


def _hangs(domain: Any, patience: int) -> bool:
    """Whether QEMU has not answered an earlier call for so many milliseconds: another would only queue behind it."""
    state, _, milliseconds = domain.controlInfo()
    return bool(state == libvirt.VIR_DOMAIN_CONTROL_OCCUPIED and milliseconds >= patience)


def _counters(domain: Any, targets: Iterable[str]) -> Iterator[tuple[str, BlockStats]]:
    for target in targets:
        try:
            yield target, _asked(domain, partial(blockstats.read, target=target))
        except Rejected:  # the disk was unplugged since, or the driver does not count
            continue


def _movement(domain: Any) -> tuple[Movement, bool]:
    """And whether a person has paused it: libvirt answers without QEMU, but where the guest has a job."""
    moving = {
        libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT: Movement.LEAVING,
        libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN: Movement.ARRIVING,
    }
    movement = moving.get(_operation(domain))
    if movement is not None:
        return movement, False
    state, reason = domain.state()
    arriving = (libvirt.VIR_DOMAIN_PAUSED_MIGRATION, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP)
    if state == libvirt.VIR_DOMAIN_PAUSED and reason in arriving:
        return Movement.ARRIVING, False
    return Movement.STAYS, state == libvirt.VIR_DOMAIN_PAUSED and reason == libvirt.VIR_DOMAIN_PAUSED_USER


def _operation(domain: Any) -> object:
    """The operation of the guest's job, None without a job."""
    try:
        # jobInfo waits, up to 30 s, for a call that QEMU does not answer. While one is under way without a migration
        # the state is OCCUPIED (qemuDomainGetControlInfo); OK says nothing, and between the phases of a migration
        # there are short calls, for which jobInfo is to wait.
        if _hangs(domain, _LONG_PATIENCE) or domain.jobInfo()[0] == libvirt.VIR_DOMAIN_JOB_NONE:
            return None
        return domain.jobStats().get("operation")
    except libvirt.libvirtError as error:
        code = error.get_error_code()
        if code == libvirt.VIR_ERR_NO_SUPPORT:  # a driver that cannot migrate has no jobs
            return None
        if code == libvirt.VIR_ERR_OPERATION_UNSUPPORTED:  # "… statistics are available only on the source host"
            return libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN
        raise


def _standing_in(definition: str, disk: Disk) -> Disk | None:
    try:
        disks = domxml.parse(definition)[1]
    except UnreadableXML:
        return None
    return next((other for other in disks if other.target == disk.target and other.key == disk.key), None)


def _full_set(disk: Disk, limits: Limits, *, alone: bool) -> dict[str, int | str]:
    """All parameters; ``alone`` takes the disk out of its group."""
    # libvirt refuses a group without limits; a disk whose limits are removed leaves its group anyway.
    group = {"group_name": group_alone(disk.guest.uuid, disk.target)} if alone and not limits.unlimited else {}
    return {**limits.full_set(), **group}
