"""Makes a region's file, and compares with one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

from plimsoll_agent import catalogue, catalogue_words, files, regionfile
from plimsoll_agent.catalogue import Catalogue, CatalogueError, Server, Volume
from plimsoll_agent.cli.cloud import connected
from plimsoll_agent.cli.refreshing import LONGEST_SIGNATURE, SIGNATURE
from plimsoll_agent.config import CatalogueSettings
from plimsoll_agent.errors import UsageError
from plimsoll_agent.gather import VolumeReader, lists, server_pages
from plimsoll_agent.refresh import Lists
from plimsoll_agent.refreshdir import locked
from plimsoll_agent.regionfile import Region

_PAGES_A_LINE = 10


def write_region(
    settings: CatalogueSettings,
    out: Path,
    signing_key: Path,
    *,
    approve: str | None,
    valid_for: int | None,
    stderr: TextIO,
) -> str:
    """Read the whole cloud, and replace the file, which has its signature in it; returns the line that tells it.

    Each call may take the deadline of the settings. Raises ``PlimsollError``, and the old file stays.
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

    key = read_private(signing_key)
    with locked(out.parent):
        files.sweep(out.parent, (out.name, _signature(out).name))
        begun, started = datetime.now(UTC), time.monotonic()
        api = connected(settings, deadline=settings.deadline)
        before = last(key)
        known = lists(api, None if before is None else Lists(before.specs, before.types))
        volumes: dict[str, str | None] = {}
        servers: dict[str, dict[str, str] | None] = {}
        with _progress(stderr) as tell:
            for page in VolumeReader(api, {type.name: type.id for type in known.types.values()}).pages():
                volumes |= {id: told.type for id, told in page.items() if told is not None}
                tell("volumes", len(volumes))
            if settings.nova:
                for guests in server_pages(api, None):
                    servers |= dict(guests)
                    tell("guests", len(servers))
        edition = Catalogue(0, begun, api.name, known.specs, known.types).edition
        if approve not in (None, edition):
            raise UsageError(
                f"--approve: {approve} does not stand for the specs and types there are now, {edition} does;"
                " nothing was written"
            )
        # An approval is for these specs and types, and goes along for as long as they are the same.
        approved = ({approve} if approve else set()) | (before.approved if before is not None else frozenset())
        issued = datetime.now(UTC)
        region = Region(
            generation=max(before.generation + 1 if before is not None else 0, int(begun.timestamp())),
            issued=issued,
            begun=begun,
            source=api.name,
            specs=known.specs,
            types=known.types,
            volumes=volumes,
            servers=servers,
            approved=frozenset(approved & {edition}),
            valid_until=None if valid_for is None else issued + timedelta(seconds=valid_for),
        )
        content = key.seal(regionfile.encode(region))
        # For nodes of before, which know it only there. A crash between the two leaves these without a file until the
        # next one is made.
        _replace(_signature(out), key.sign(content))
        _replace(out, content)
    return catalogue_words.written_line(region, edition, sum(api.calls.values()), time.monotonic() - started, out)


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
        region.approved,
    )
