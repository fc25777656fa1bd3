"""libvirt's QEMU driver behind the words of ``hypervisor``. No ``libvirtError`` leaves this module."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import libvirt

from plimsoll_agent import domxml
from plimsoll_agent.adapters import qmp
from plimsoll_agent.adapters.deadline import Deadlines
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import (
    AgentAway,
    AgentGarbled,
    AgentRefused,
    AgentSilent,
    NoAgent,
    NotSent,
    PlimsollError,
    Rejected,
    Unanswered,
    Unreachable,
    Vanished,
)
from plimsoll_agent.hypervisor import BlockStats, GuestRef, Movement, Sighting, Survey
from plimsoll_agent.limits import Limits, LimitsError, group_alone, shared_group
from plimsoll_agent.marks import NAMESPACE, PREFIX, Marks

Answer = TypeVar("Answer")

# libvirt's bindings print every error on stderr unless somebody takes them.
libvirt.registerErrorHandler(lambda _context, _error: None, None)

# Not in all bindings: an older libvirt says the same under other codes.
_AGENT_COMMAND_TIMEOUT = getattr(libvirt, "VIR_ERR_AGENT_COMMAND_TIMEOUT", None)
_AGENT_COMMAND_FAILED = getattr(libvirt, "VIR_ERR_AGENT_COMMAND_FAILED", None)
_LONGEST_COMPLAINT = 1000  # in characters: an agent may complain in megabytes

# In milliseconds. Others ask QEMU too, and are answered in a few.
_PATIENCE = 500
_RUNNING = libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE


class _Link:
    """A connection, and libvirt's objects for the guests that ran when they were last listed on it.

    Such an object belongs to its connection. It stays good when its guest is started anew: libvirt goes by the
    uuid. One list takes the place of a lookup at every call.
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
        self.connection.close()


class Libvirt:
    """A ``Hypervisor``: libvirtd, or virtqemud, behind a few connections. Use ``close`` when done.

    Each call has a connection for itself. libvirt's client loses the wake-up of a second thread now and then
    (until 9.10; "rpc: fix race in waking up client event loop"), so that on a shared connection one call that
    hangs holds up those to other guests.
    """

    def __init__(self, uri: str, *, deadline: float, at_once: int) -> None:
        """Connect. Raises ``Unreachable``."""
        self.uri = uri
        self._deadlines = Deadlines(deadline, at_once)
        self._idle: SimpleQueue[_Link] = SimpleQueue()
        try:
            self._deadlines.call("libvirt", lambda: self._idle.put(_Link(uri)))
        except Unanswered as error:
            raise Unreachable(f"libvirt at {uri} does not answer: {error}") from error
        except libvirt.libvirtError as error:
            raise Unreachable(f"libvirt at {uri} cannot be reached: {error}") from error

    @property
    def hung(self) -> bool:
        """True while a call has not come back: leave by ``os._exit``, its thread cannot be joined."""
        return self._deadlines.hung > 0

    def close(self) -> None:
        """Close the connections that no call is on."""
        with suppress(Empty):
            while True:
                link = self._idle.get_nowait()
                with suppress(PlimsollError, libvirt.libvirtError):  # it ends with the process at the latest
                    self._deadlines.call("libvirt", link.close)

    def guests(self) -> Sequence[GuestRef]:
        def ask(link: _Link) -> list[GuestRef]:
            return [GuestRef(uuid, domain.name()) for uuid, domain in link.list_running().items()]

        try:
            found = self._call("libvirt", ask)
        except PlimsollError as error:
            raise Unreachable(f"libvirt at {self.uri} does not list its guests: {error}") from error
        # libvirt's order is that of a hash table, and another one at the next call.
        return sorted(found, key=lambda guest: (guest.name, guest.uuid))

    def look(self, uuid: str) -> Sighting:
        return self._ask("libvirt", uuid, _sighting)

    def survey(self, uuid: str) -> Survey:
        told: dict[str, Limits | PlimsollError | LimitsError] = {}
        known: list[Survey] = []  # the deadline passes: what the errand has found by then is not lost

        def ask(domain: Any) -> Survey:
            sighting = _sighting(domain)
            survey = Survey(domxml.parse(sighting.xml)[1], sighting.movement, told)
            known.append(survey)
            for disk in survey.disks if survey.movement is Movement.STAYS else ():
                try:
                    told[disk.target] = _asked(domain, partial(_in_force, disk=disk))
                except (Rejected, Vanished, NotSent, LimitsError) as error:
                    told[disk.target] = error
            return survey

        # One errand: each costs two hand-offs between threads, and the calls themselves are shorter.
        try:
            return self._ask("QEMU", uuid, ask)
        except Unanswered as error:
            if not known:
                raise
            (survey,) = known
            return replace(survey, in_force={disk.target: told.get(disk.target, error) for disk in survey.disks})

    def in_force(self, disk: Disk) -> Limits:
        return self._ask("QEMU", disk.guest.uuid, partial(_in_force, disk=disk))

    def block_stats(self, uuid: str, targets: Iterable[str]) -> Mapping[str, BlockStats]:
        # Not domainListGetStats, which knows not to wait: it asks for the sizes too.
        return self._ask("QEMU", uuid, lambda domain: {} if _hangs(domain) else dict(_counters(domain, targets)))

    def sizes(self, uuid: str) -> Mapping[str, int]:
        # By query-named-block-nodes, for which QEMU (7.2) reads from each image with its main loop held.
        block, nowait = libvirt.VIR_DOMAIN_STATS_BLOCK, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
        told: list[tuple[Any, dict[str, Any]]] = self._ask(
            "QEMU", uuid, lambda domain: domain.connect().domainListGetStats([domain], block, nowait)
        )
        return {
            stats[f"block.{n}.name"]: stats[f"block.{n}.capacity"]
            for _, stats in told
            for n in range(stats.get("block.count", 0))
            if f"block.{n}.capacity" in stats  # the answer for a guest that is busy has names only
        }

    def set_limits(self, disk: Disk, limits: Limits, *, alone: bool = False) -> None:
        # libvirt refuses a group without limits; a disk whose limits are lifted leaves its group anyway.
        alone = alone and not limits.unlimited
        group = {"group_name": group_alone(disk.guest.uuid, disk.target)} if alone else {}
        full_set, live = limits.full_set() | group, libvirt.VIR_DOMAIN_AFFECT_LIVE
        self._ask("QEMU", disk.guest.uuid, lambda domain: domain.setBlockIoTune(disk.target, full_set, live))

    def define_limits(self, disk: Disk, limits: Limits) -> None:
        def define(domain: Any) -> None:
            # The persistent definition is another text: the same letter may be another volume there.
            if not _stands_in(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), disk):
                return
            try:
                domain.setBlockIoTune(disk.target, limits.full_set(), libvirt.VIR_DOMAIN_AFFECT_CONFIG)
            except libvirt.libvirtError:
                if domain.isPersistent():  # one that is not shows its live XML for a definition
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
        """Limits by ``pool/image`` from QEMU's own ``query-block``; libvirt marks the guest as tainted for it."""
        import libvirt_qemu  # only a person who doubts libvirt's word needs it

        answer: str = self._ask(
            "QEMU",
            uuid,
            lambda domain: libvirt_qemu.qemuMonitorCommand(domain, '{"execute": "query-block"}', 0),
        )
        return qmp.limits_by_image(json.loads(answer)["return"])

    def agent(self, uuid: str, request: str, seconds: int) -> str:
        """What the guest's agent says to a request, both JSON; ``seconds`` is for its answer.

        libvirt makes sure before that somebody listens, for which it takes up to 5 s more: the deadline of this
        object must leave room for both. What the guest says is as long as libvirt takes (4 MiB), and not to be
        believed.

        Raises ``NoAgent``, ``AgentAway``, ``AgentSilent``, ``AgentRefused`` or ``AgentGarbled``, too.
        """
        import libvirt_qemu  # only probes talk to guests

        def ask(domain: Any) -> str:
            try:
                answer: str = libvirt_qemu.qemuAgentCommand(domain, request, seconds, 0)
            except UnicodeDecodeError as error:
                raise AgentGarbled("the agent's answer is not UTF-8") from error
            except libvirt.libvirtError as error:
                told = _agent_error(error)
                if told is None or not domain.isActive():
                    raise
                raise told from error
            return answer

        return self._ask("the guest's agent", uuid, ask)

    def _link(self) -> _Link:
        try:
            return self._idle.get_nowait()
        except Empty:
            link = _Link(self.uri)
            link.list_running()
            return link

    def _ask(self, who: str, uuid: str, question: Callable[[Any], Answer]) -> Answer:
        return self._call(who, lambda link: _asked(link.domain(uuid), question))

    def _call(self, who: str, ask: Callable[[_Link], Answer]) -> Answer:
        def on_a_link() -> Answer:
            try:
                link = self._link()
                try:
                    return ask(link)
                finally:
                    if link.connection.isAlive():
                        self._idle.put(link)
            except libvirt.libvirtError as error:
                raise _translated(error) from error

        return self._deadlines.call(who, on_a_link)


def _asked(domain: Any, question: Callable[[Any], Answer]) -> Answer:
    try:
        try:
            return question(domain)
        except libvirt.libvirtError:
            # Whatever it stumbled over, a guest that has stopped meanwhile is simply gone.
            if not domain.isActive():
                raise Vanished("the guest has stopped") from None
            raise
    except libvirt.libvirtError as error:
        raise _translated(error) from error


def _translated(error: Any) -> PlimsollError:
    code, text = error.get_error_code(), " ".join(str(error).split())
    if code == libvirt.VIR_ERR_NO_DOMAIN:
        return Vanished("the guest is gone")
    if code == libvirt.VIR_ERR_OPERATION_TIMEOUT:  # "cannot acquire state change lock": QEMU was never asked
        return NotSent(f"the guest is busy: {text}")
    if code == libvirt.VIR_ERR_RPC or error.get_error_domain() == libvirt.VIR_FROM_RPC:
        return Unanswered(f"the connection to libvirt was lost: {text}")
    return Rejected(text)


def _agent_error(error: Any) -> PlimsollError | None:
    """What libvirt says of an agent, or of its answer; None where the error is about something else."""
    code, text = error.get_error_code(), " ".join(str(error)[:_LONGEST_COMPLAINT].split())
    if code is None:  # seen with 9.0 when the agent was started anew under a question: no error is set
        return AgentSilent("libvirt does not say why the agent does not answer")
    if error.get_error_domain() != libvirt.VIR_FROM_QEMU:
        # Its JSON parser is one of the parts that speak in their own name.
        return AgentGarbled(text) if code == libvirt.VIR_ERR_INTERNAL_ERROR else None
    if code == libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED:
        return NoAgent("the guest has no channel to an agent")
    if code == libvirt.VIR_ERR_OPERATION_INVALID:  # a paused guest
        return AgentAway(text)
    if code == libvirt.VIR_ERR_AGENT_UNRESPONSIVE:
        # One code for a channel that nobody listens on and for a question that was passed on.
        return AgentAway(text) if "QEMU guest agent is not" in text else AgentSilent(text)
    if code in (libvirt.VIR_ERR_AGENT_UNSYNCED, _AGENT_COMMAND_TIMEOUT):
        return AgentSilent(text)
    _, refused, why = text.partition("unable to execute QEMU agent command ")
    if refused or code == _AGENT_COMMAND_FAILED:
        return AgentRefused(why.partition("': ")[2] or text)
    if code in (libvirt.VIR_ERR_INTERNAL_ERROR, libvirt.VIR_ERR_SYSTEM_ERROR):
        return AgentGarbled(text)
    return None


def _sighting(domain: Any) -> Sighting:
    return Sighting(domain.XMLDesc(0), _movement(domain))


def _in_force(domain: Any, disk: Disk) -> Limits:
    told: dict[str, object] = domain.blockIoTune(disk.target, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    group = told.pop("group_name", None)
    return Limits.from_mapping(told | {"group_name": shared_group(str(group or ""), disk.alias)})


def _hangs(domain: Any) -> bool:
    """Whether QEMU has an earlier question for so long that another would only wait behind it."""
    state, _, milliseconds = domain.controlInfo()
    return bool(state == libvirt.VIR_DOMAIN_CONTROL_OCCUPIED and milliseconds > _PATIENCE)


def _counters(domain: Any, targets: Iterable[str]) -> Iterator[tuple[str, BlockStats]]:
    for target in targets:
        try:
            stats = _asked(domain, lambda domain: domain.blockStatsFlags(target))  # noqa: B023 - called at once
        except Rejected:  # a disk that was unplugged meanwhile
            continue
        done = [stats.get(name, -1) for name in ("rd_operations", "rd_bytes", "wr_operations", "wr_bytes")]
        if min(done) >= 0:  # -1 is libvirt's word for what a driver does not count
            yield target, BlockStats(*done)


def _movement(domain: Any) -> Movement:
    moving = {
        libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT: Movement.LEAVING,
        libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN: Movement.ARRIVING,
    }
    movement = moving.get(_operation(domain))
    if movement is not None:
        return movement
    state, reason = domain.state()
    arriving = (libvirt.VIR_DOMAIN_PAUSED_MIGRATION, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP)
    return Movement.ARRIVING if state == libvirt.VIR_DOMAIN_PAUSED and reason in arriving else Movement.STAYS


def _operation(domain: Any) -> object:
    """What the guest's job is, None without one."""
    try:
        if domain.jobInfo()[0] == libvirt.VIR_DOMAIN_JOB_NONE:
            return None
        return domain.jobStats().get("operation")
    except libvirt.libvirtError as error:
        code = error.get_error_code()
        if code == libvirt.VIR_ERR_NO_SUPPORT:  # a driver that cannot migrate knows no jobs
            return None
        if code == libvirt.VIR_ERR_OPERATION_UNSUPPORTED:  # "… statistics are available only on the source host"
            return libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN
        raise


def _stands_in(definition: str, disk: Disk) -> bool:
    try:
        defined = domxml.parse(definition)[1]
    except domxml.UnreadableXML:
        return False
    return any(other.target == disk.target and other.key == disk.key for other in defined)
