"""Makes a region's file, and compares with one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

from plimsoll_agent import catalogue, catalogue_words, files, regionbrake, regionfile
from plimsoll_agent.catalogue import Catalogue, CatalogueError, Server, Volume
from plimsoll_agent.cli.cloud import connected
from plimsoll_agent.cli.refreshing import LONGEST_SIGNATURE, SIGNATURE
from plimsoll_agent.config import CatalogueSettings
from plimsoll_agent.gather import VolumeReader, lists, server_pages
from plimsoll_agent.refresh import Lists, TypeOf
from plimsoll_agent.refreshdir import locked
from plimsoll_agent.regionbrake import Judgement, RegionBrake, judge
from plimsoll_agent.regionfile import Region
from plimsoll_agent.regionorders import Of, Orders
from plimsoll_agent.regionstate import LastReading, RegionState

_PAGES_A_LINE = 10
BRAKED = 4
"""The exit status where the brake stopped something."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of making a region's file: the line that tells it, complaints, and the exit status."""

    said: str | None
    complaints: tuple[str, ...] = ()
    status: int = 0


def write_region(
    settings: CatalogueSettings,
    brake: RegionBrake,
    factor: int,
    out: Path,
    signing_key: Path,
    *,
    valid_for: int | None,
    stderr: TextIO,
) -> Written:
    """Read the whole cloud, and replace the file, which has its signature in it.

    A state of specs and types that the brake stops is not published (``factor`` is that of [brake]): the one before
    goes on, with the volumes and guests as they are now. Each call may take the deadline of the settings. Raises
    ``PlimsollError``, and the old file stays.
    """
    from plimsoll_agent.adapters.ed25519 import BadSignature, PrivateKey, read_private, unsealed

    def last(key: PrivateKey) -> Region | None:
        """What was published before. What we did not sign could bring a generation or an approval from others."""
        try:
            content, signature = unsealed(files.read_whole(out, regionfile.MOST_BYTES))
            if signature is None:
                signature = files.read_whole(_signature(out), LONGEST_SIGNATURE)
            key.public.verify(content, signature, str(out))
            return regionfile.decode(content, str(out))
        except FileNotFoundError:
            return None
        except (OSError, BadSignature, CatalogueError) as error:
            stderr.write(f"{error}\nWhat is there cannot be gone by, and is replaced once all is read.\n")
            return None

    key, state = read_private(signing_key), RegionState(out)
    with locked(out.with_name(f"{out.name}.lock")):
        files.sweep(out.parent, (out.name, _signature(out).name, state.last_file.name))
        begun, started = datetime.now(UTC), time.monotonic()
        api = connected(settings, deadline=settings.deadline)
        before = last(key)
        earlier = None if before is None else Lists(before.specs, before.types)
        known = lists(api, earlier)
        volumes: dict[str, TypeOf] = {}
        servers: dict[str, dict[str, str] | None] = {}
        with _progress(stderr) as tell:
            for page in VolumeReader(api, {type.name: type.id for type in known.types.values()}).pages():
                volumes |= {id: told for id, told in page.items() if told is not None}
                tell("volumes", len(volumes))
            if settings.nova:
                for guests in server_pages(api, None):
                    servers |= dict(guests)
                    tell("guests", len(servers))
        issued = datetime.now(UTC)
        noted, orders, complaints = _beside(state, before)
        orders = orders.standing(issued)
        digest = catalogue.digest_of(known.specs, known.types)
        published, stop = known, None
        if earlier is not None:
            found = judge(earlier, known, volumes, brake, factor)
            if regionbrake.stopped(found, orders, digest, issued):
                published, stop = earlier, found
        elif noted is not None and digest != noted.published and not orders.approve(Of.SPECS, digest, issued):
            # A file that was lost must not take the brake along.
            stop = Judgement(brake=brake, factor=factor)
        reading = LastReading(
            issued,
            digest,
            catalogue.digest_of(published.specs, published.types),
            types={id: type.name for id, type in {**published.types, **known.types}.items()},
            orders=orders,
        )
        if stop is not None:
            lines = catalogue_words.stop_lines(stop, digest, compared=earlier is not None)
            same = noted is not None and noted.read == digest
            since = noted.since if noted is not None and same and noted.since is not None else issued
            reading = replace(reading, since=since, lines=lines, removals=stop.removals)
            complaints += lines
            if earlier is None and noted is not None:
                state.save_last(replace(reading, published=noted.published, orders=noted.orders))
                return Written(None, complaints, BRAKED)
        region = Region(
            generation=max(before.generation + 1 if before is not None else 0, int(begun.timestamp())),
            issued=issued,
            begun=begun,
            source=api.name,
            specs=published.specs,
            types=published.types,
            volumes={id: told.type for id, told in volumes.items()},
            servers=servers,
            orders=orders,
            valid_until=None if valid_for is None else issued + timedelta(seconds=valid_for),
        )
        content = key.seal(regionfile.encode(region))
        # For nodes of before, which know it only there. A crash between the two leaves these without a file until the
        # next one is made.
        _replace(_signature(out), key.sign(content))
        _replace(out, content)
        state.save_last(reading)
    said = catalogue_words.written_line(
        region, reading.published, sum(api.calls.values()), time.monotonic() - started, out
    )
    return Written(said, complaints, BRAKED if stop is not None else 3 if complaints else 0)


def _beside(state: RegionState, before: Region | None) -> tuple[LastReading | None, Orders, tuple[str, ...]]:
    """What was read last, what is decided, and what is wrong with that: then what was published before goes on.

    Nothing that was decided ends because a file was lost.
    """
    complaints: tuple[str, ...] = ()
    noted: LastReading | None = None
    try:
        noted = state.last()
    except CatalogueError as error:
        complaints += (f"{error}; it is written new",)
    try:
        orders = state.orders()
    except CatalogueError as error:
        orders = None
        complaints += (
            f"{error}; the approvals, pause and holds that were published before go on;"
            " repair the file, or remove it and they stay",
        )
    if orders is None:
        orders = before.orders if before is not None else noted.orders if noted is not None else Orders()
    return noted, orders, complaints


def _signature(out: Path) -> Path:
    return out.with_name(out.name + SIGNATURE)


def _replace(path: Path, content: bytes) -> None:
    try:
        files.write_whole(path, content.decode("ascii"), mode=0o644)
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be written: {error.strerror}") from error


@contextmanager
def _progress(stderr: TextIO) -> Iterator[Callable[[str, int], None]]:
    """Tells how far it is: as a bar on a terminal, else in a line each so many pages."""
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

    # How many there will be is what nobody says: the bar moves, and the number counts.
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
    """A catalogue, or of a region's file what it says about the volumes and guests of ``before``.

    Raises ``CatalogueError``.
    """
    try:
        content = files.read_whole(path, regionfile.MOST_BYTES, follow=True)
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        kind = json.loads(content)["kind"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CatalogueError(f"{path}: is neither a catalogue nor a region file") from error
    if kind != regionfile.KIND:
        found = catalogue.read(path, follow=True)
        if found is None:
            raise CatalogueError(f"{path}: was removed just now")
        return found
    region = regionfile.decode(content, str(path))
    return Catalogue(
        region.generation,
        region.begun,
        str(path),
        region.specs,
        region.types,
        {
            id: Volume(region.volumes.get(id), volume.marks, region.begun, missing=id not in region.volumes)
            for id, volume in before.volumes.items()
        },
        {
            uuid: Server(region.servers.get(uuid) or {}, server.marks, region.begun, region.servers.get(uuid) is None)
            for uuid, server in before.servers.items()
        },
        region.orders,
    )
