"""Writes the region file, and compares catalogues with one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from plimsoll_agent.app.cloud import connected
from plimsoll_agent.app.signed_source import LONGEST_SIGNATURE, SIGNATURE
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue import region_brake, signed_file
from plimsoll_agent.catalogue.api import CloudApi
from plimsoll_agent.catalogue.model import Catalogue, CatalogueError, Lists, Server, Volume
from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionBrake, Withdrawal
from plimsoll_agent.catalogue.orders_file import LastReading, RegionState
from plimsoll_agent.catalogue.planner import TypeOf
from plimsoll_agent.catalogue.publication import Judge, States, advanced, in_stages, other_of, with_returns
from plimsoll_agent.catalogue.reader import VolumeReader, lists, server_pages
from plimsoll_agent.catalogue.region_brake import RegionJudgement, judge
from plimsoll_agent.catalogue.signed_file import Region
from plimsoll_agent.catalogue.stages import ConditionFinding
from plimsoll_agent.config.settings import CatalogueSettings
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.messages import catalogue as catalogue_messages
from plimsoll_agent.reconcile.brake import Brake
from plimsoll_agent.store.refresh_state import locked
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import minute

if TYPE_CHECKING:
    from plimsoll_agent.adapters.ed25519 import PrivateKey

_PAGES_A_LINE = 10
BRAKED = 4
"""The exit status if the brake stopped a change."""


@frozen(kw_only=True)
class Written:
    """The result of writing a region's file."""

    said: str | None
    """The line that reports it; None if no file was written."""
    read: datetime
    complaints: tuple[str, ...] = ()
    status: int = 0
    """The exit status."""
    stopped: RegionJudgement | None = None
    """What the brake does not let publish."""
    compared: bool = True
    """Whether there was an earlier state to compare with."""
    staged: tuple[RegionApproval, ...] = ()
    """The published approvals with stages."""
    stops: tuple[ConditionFinding, ...] = ()
    """What stops the next stage."""


def write_region(
    settings: CatalogueSettings,
    brake: RegionBrake,
    node: Brake,
    out: Path,
    signing_key: Path,
    *,
    valid_for: int | None,
    stderr: TextIO,
    judge_stage: Judge,
) -> Written:
    """Read the whole cloud, and replace the file, which has its signature in it.

    Specs and types that the brake stops are not published (``node`` is that of [brake]): the file then has the
    earlier ones, with the present volumes and guests. An approval with stages goes on to the next one if its time has
    come and ``judge_stage`` finds nothing against it. Each call may take the deadline of the settings. Raises
    ``PlimsollError``, and the old file stays; if Cinder failed, with the orders of now (``_with_orders``).
    """
    from plimsoll_agent.adapters.ed25519 import read_private

    key, state = read_private(signing_key), RegionState(out)
    with locked(out.with_name(f"{out.name}.lock")):
        files.sweep(out.parent, (out.name, _signature(out).name, state.last_file.name))
        begin, start = datetime.now(UTC), time.monotonic()
        api = connected(settings, deadline=settings.deadline)
        before = _published_before(out, key, stderr)
        earlier = None if before is None else Lists(before.specs, before.types)
        try:
            cloud = lists(api, earlier)
            volumes, servers, failure = _volumes_and_servers(api, cloud, stderr, nova=settings.nova)
        except PlimsollError:
            if before is not None:
                _publish_orders(before, key, out, brake, stderr)
            raise
        now = datetime.now(UTC)
        last_reading, orders, complaints = _beside(state, before)
        if failure is not None:
            complaints += (f"{failure}; guests' flavors that were not read stay as nodes know them",)
        last_orders = Orders() if before is None else before.orders
        states = States(read=cloud, main=earlier, other=None if before is None else before.other)
        digest = cloud.digest
        orders = orders.standing(now)
        earlier = states.before(orders, last_orders, now)
        if earlier is None:  # there is nothing to compare with
            judgement = RegionJudgement(brake=brake, factor=node.factor, lowest=node.lowest)
        else:
            judgement = judge(earlier, cloud, volumes, brake, node.factor, node.lowest)
        step = advanced(orders, last_orders, digest, judge_stage, now, judgement.removals)

        choice = _choice(cloud, earlier, last_reading, step.orders, judgement, now)
        publication, stop = choice.lists, choice.stop
        orders = _returned(step.orders, last_orders, states, publication, volumes, brake, now)
        reading = LastReading(
            at=now,
            read=digest,
            published=publication.digest,
            types={id: type.name for id, type in {**publication.types, **cloud.types}.items()},
            orders=orders,
            touched=choice.touched,
            removals=choice.removals,
            stops=step.stops,
        )
        if stop is not None:
            lines = catalogue_messages.stop_lines(stop, digest, compared=earlier is not None)
            same = last_reading is not None and last_reading.read == digest
            since = (
                last_reading.since if last_reading is not None and same and last_reading.since is not None else now
            )
            reading = replace(reading, since=since, lines=lines)
            complaints += lines
            if earlier is None and last_reading is not None:
                state.save_last(replace(reading, published=last_reading.published, orders=last_reading.orders))
                return Written(
                    said=None, read=now, complaints=complaints, status=BRAKED, stopped=stop, compared=False
                )
        region = Region(
            generation=max(before.generation + 1 if before is not None else 0, int(begin.timestamp())),
            issued=now,
            begun=begin,
            source=api.name,
            specs=publication.specs,
            types=publication.types,
            volumes={id: volume.type for id, volume in volumes.items()},
            servers=servers,
            has_all_servers=failure is None,
            orders=orders,
            other=other_of(orders, states, publication),
            valid_until=None if valid_for is None else now + timedelta(seconds=valid_for),
        )
        _save(region, key, out)
        state.save_last(reading)
    line = catalogue_messages.written_line(
        region, reading.published, sum(api.calls.values()), time.monotonic() - start, out
    )
    complaints += tuple(catalogue_messages.stage_lines(step.stops))
    status = BRAKED if stop is not None else 3 if complaints else 0
    return Written(
        said=line,
        read=now,
        complaints=complaints,
        status=status,
        stopped=stop,
        compared=earlier is not None,
        staged=orders.staged,
        stops=step.stops,
    )


def _publish_orders(before: Region, key: PrivateKey, out: Path, brake: RegionBrake, stderr: TextIO) -> None:
    """What operators decided reaches the nodes although Cinder cannot be read: in an accident both may be so."""
    state, now = RegionState(out), datetime.now(UTC)
    last_reading, orders, _ = _beside(state, before)
    region = _with_orders(before, orders, brake, now)
    if region.orders == before.orders:
        return
    if region.valid_until is not None and now > region.valid_until:
        stderr.write(
            f"{out}: new orders not published: nodes take no file with this data after {minute(region.valid_until)}"
            " (--valid-for); to pause nodes now: plimsoll pause on each\n"
        )
        return
    _save(region, key, out)
    if last_reading is not None:
        digest = Lists(region.specs, region.types).digest
        state.save_last(replace(last_reading, published=digest, orders=region.orders))
    stderr.write(
        f"Only orders (approvals, pause, holds) published, with the data of {minute(region.begun)};"
        f" generation {region.generation}, in {out}.\n"
    )


def _with_orders(before: Region, orders: Orders, brake: RegionBrake, now: datetime) -> Region:
    """The file published before with the orders of now. Its data, their age and its end stay.

    Of an approval with stages only a withdrawal counts: to begin or to go on takes Cinder's present state. The
    generation is the next one, not the time: a node that has a newer file than this machine takes no older data.
    """
    last, main = before.orders, Lists(before.specs, before.types)
    orders = orders.standing(now)
    withdrawn = [each for each in last.staged if any(each.is_of(one) for one in orders.withdrawals)]
    orders = replace(orders, staged=tuple(each for each in last.staged if each not in withdrawn))
    states = States(read=main, main=main, other=before.other)
    lists = states.before(orders, last, now) or main
    volumes = {id: TypeOf(type=type) for id, type in before.volumes.items()}
    return replace(
        before,
        generation=before.generation + 1,
        specs=lists.specs,
        types=lists.types,
        other=other_of(orders, states, lists),
        orders=_returned(orders, last, states, lists, volumes, brake, now),
    )


def _returned(
    orders: Orders,
    last: Orders,
    states: States,
    publication: Lists,
    volumes: Mapping[str, TypeOf],
    brake: RegionBrake,
    now: datetime,
) -> Orders:
    """As ``with_returns``."""

    def lost(withdrawal: Withdrawal, to: str) -> frozenset[str]:
        there, back = states.of(withdrawal.digest), states.of(to)
        return judge(there, back, volumes, brake).removals if there and back else frozenset()

    return with_returns(orders, last, publication.digest, lost, now)


def _save(region: Region, key: PrivateKey, out: Path) -> None:
    content = key.seal(signed_file.encode(region))
    # For nodes with earlier releases. After a crash between the two writes they have no valid file until the next one
    # is written.
    _replace(_signature(out), key.sign(content))
    _replace(out, content)


def _published_before(out: Path, key: PrivateKey, stderr: TextIO) -> Region | None:
    """The file published before, if this key signed it: else its generation and approvals could be forged."""
    from plimsoll_agent.adapters.ed25519 import BadSignature, unsealed

    try:
        content, signature = unsealed(files.read_whole(out, signed_file.MOST_BYTES))
        if signature is None:
            signature = files.read_whole(_signature(out), LONGEST_SIGNATURE)
        key.public.verify(content, signature, str(out))
        return signed_file.decode(content, str(out))
    except FileNotFoundError:
        return None
    except (OSError, BadSignature, CatalogueError) as error:
        stderr.write(f"{error}\nThe existing file cannot be used; it is replaced once everything is read.\n")
        return None


def _volumes_and_servers(
    api: CloudApi, cloud: Lists, stderr: TextIO, *, nova: bool
) -> tuple[dict[str, TypeOf], dict[str, dict[str, str] | None], PlimsollError | None]:
    """Also Nova's failure: what is read of Cinder, and orders, are published all the same."""
    volumes: dict[str, TypeOf] = {}
    servers: dict[str, dict[str, str] | None] = {}
    with _progress(stderr) as tell:
        for page in VolumeReader(api, {type.name: type.id for type in cloud.types.values()}).pages():
            volumes |= {id: volume for id, volume in page.items() if volume is not None}
            tell("volumes", len(volumes))
        try:
            for guests in server_pages(api, None) if nova else ():
                servers |= dict(guests)
                tell("guests", len(servers))
        except PlimsollError as error:
            return volumes, servers, error
    return volumes, servers, None


@frozen(kw_only=True)
class _Choice:
    """The specs and types to publish, what the brake stops, and the types that an edit touches and removes."""

    lists: Lists
    stop: RegionJudgement | None = None
    touched: frozenset[str] = frozenset()
    removals: frozenset[str] = frozenset()


def _choice(
    cloud: Lists,
    earlier: Lists | None,
    last_reading: LastReading | None,
    orders: Orders,
    judgement: RegionJudgement,
    now: datetime,
) -> _Choice:
    """The earlier specs and types, where a stage or the brake stops an edit."""
    digest = cloud.digest
    if earlier is None:
        # Without the earlier file there is nothing to compare with: the brake stops any other state.
        is_known = last_reading is None or digest == last_reading.published
        is_good = is_known or orders.on_all.approve(Of.SPECS, digest, now)
        return _Choice(lists=cloud, stop=None if is_good else judgement)
    if earlier.digest == digest:
        return _Choice(lists=cloud)
    types, approval = frozenset(row.type.id for row in judgement.rows), in_stages(orders)
    if approval is not None and approval.digest == digest and not approval.complete:
        return _Choice(lists=earlier, touched=types, removals=judgement.removals)
    withdrawn = any(each.digest == digest for each in orders.withdrawn(Of.SPECS, now))
    if withdrawn or region_brake.stopped(judgement, orders.on_all, digest, now):
        # What was withdrawn stays so, also where fewer volumes are attached now.
        return _Choice(lists=earlier, stop=judgement, touched=types, removals=judgement.removals)
    return _Choice(lists=cloud, touched=types)


def _beside(state: RegionState, before: Region | None) -> tuple[LastReading | None, Orders, tuple[str, ...]]:
    """The last reading, the orders, and complaints about their files.

    If a file is lost or damaged, the orders published before stay in effect.
    """
    complaints: tuple[str, ...] = ()
    last_reading: LastReading | None = None
    try:
        last_reading = state.last()
    except CatalogueError as error:
        complaints += (f"{error}; a new one is written",)
    try:
        orders = state.orders()
    except CatalogueError as error:
        orders = None
        complaints += (
            f"{error}; the approvals, pause and holds published before stay in effect;"
            " repair the file, or remove it to keep them",
        )
    if orders is None:
        orders = (
            before.orders if before is not None else last_reading.orders if last_reading is not None else Orders()
        )
    return last_reading, orders, complaints


def _signature(out: Path) -> Path:
    return out.with_name(out.name + SIGNATURE)


def _replace(path: Path, content: bytes) -> None:
    files.save(path, content.decode("ascii"), CatalogueError, mode=0o644)


@contextmanager
def _progress(stderr: TextIO) -> Iterator[Callable[[str, int], None]]:
    """Shows the progress: a bar on a terminal, else a line for some of the pages."""
    if not stderr.isatty() or os.environ.get("TERM") == "dumb":
        pages = 0

        def line(what: str, count: int) -> None:
            nonlocal pages
            pages += 1
            if pages % _PAGES_A_LINE == 0:
                stderr.write(f"{count} {what} so far\n")
                stderr.flush()

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    # The total is unknown: the bar moves, and the number counts.
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}"),
        TimeElapsedColumn(),
        console=Console(file=stderr),
        transient=True,
    ) as progress:
        tasks = {what: progress.add_task(what, total=None) for what in ("volumes", "guests")}
        yield lambda what, count: progress.update(tasks[what], completed=count)


def compared(path: Path, before: Catalogue) -> Catalogue:
    """The catalogue in a file; of a region's file, only the volumes and guests that ``before`` has.

    Raises ``CatalogueError``.
    """
    try:
        content = files.read_whole(path, signed_file.MOST_BYTES, follow=True)
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        kind = json.loads(content)["kind"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CatalogueError(f"{path}: neither a catalogue nor a region file") from error
    if kind != signed_file.KIND:
        other = catalogue.read(path, follow=True)
        if other is None:
            raise CatalogueError(f"{path}: was removed just now")
        return other
    region = signed_file.decode(content, str(path))
    return Catalogue(
        region.generation,
        region.begun,
        str(path),
        region.specs,
        region.types,
        {
            id: Volume(
                type=region.volumes.get(id), marks=volume.marks, read=region.begun, missing=id not in region.volumes
            )
            for id, volume in before.volumes.items()
        },
        {
            uuid: Server(
                extra_specs=region.servers.get(uuid) or {},
                marks=server.marks,
                read=region.begun,
                missing=region.servers.get(uuid) is None,
            )
            if uuid in region.servers or region.has_all_servers
            else server
            for uuid, server in before.servers.items()
        },
    )
