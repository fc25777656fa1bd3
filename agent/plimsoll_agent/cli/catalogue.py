"""``plimsoll catalogue``: fetch the catalogue from Cinder and Nova, for this node or a region, and show it."""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plimsoll_agent.app.refresh import Fetched, check_source, fetch, follow, load_attachments
from plimsoll_agent.app.region_file import Written, compared, write_region
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.model import Catalogue, CatalogueError, CorruptCatalogue
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import ConfigError, DeadlineExceeded, PlimsollError, Unreachable, UsageError
from plimsoll_agent.messages import catalogue as catalogue_messages
from plimsoll_agent.messages.catalogue import keys_words, spec_name, type_name
from plimsoll_agent.monitor import textfile
from plimsoll_agent.store.refresh_state import Notes, RefreshDir
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.moments import seconds_of
from plimsoll_agent.util.frozen import replace
from plimsoll_agent.util.text import ago, minute, plural, printable

LOG = logging.getLogger(__name__)
_CENTURY = 100 * 365 * 86400


class _CatalogueCommand(LocalCommand):
    """A command about the catalogue."""

    def say(self, line: str) -> None:
        print(self.app.for_journal(line), file=self.app.stdout, flush=True)

    def present(self, settings: Settings) -> Catalogue:
        """The catalogue that passes use. Raises ``CatalogueError`` also if there is none."""
        found = catalogue.load(settings.catalogue.directory)
        if found is None:
            raise CatalogueError(
                f"{settings.catalogue.directory / catalogue.NAME}: does not exist yet; run plimsoll catalogue refresh"
            )
        return found


class CatalogueRefresh(_CatalogueCommand):
    """Update the catalogue of this node from Cinder and Nova, or from the region file.

    This is the only part of plimsoll on a node that talks to the control plane; passes only read the catalogue. Only
    what is due is fetched. After failures it waits, up to an hour, unless --now is given. On an error the old
    catalogue stays.

    With --region-file it writes the region file for all nodes instead, and no catalogue. If an edit of QoS specs or
    volume types would change more volumes than [region] allows, remove limits of any attached volume, or cut them to
    a tenth or less, the file keeps the specs and types from before until plimsoll region approve; the status is 4.

    Exit status: 0 fetched, 3 fetched in part, 4 the region's brake deferred an edit, 1 nothing fetched, 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--now", action="store_true", help="fetch everything now, even if not due or after failures"
        )
        parser.add_argument(
            "--jitter", metavar="SECONDS", default="0", help="first wait a random time, at most this long"
        )
        parser.add_argument(
            "--spacing",
            metavar="SECONDS",
            default="0",
            help="wait until SECONDS after the last refresh with --spacing began, and leave a file (again, in the"
            " catalogue's directory) if attachments changed since: for plimsoll-catalogue.path",
        )
        region = parser.add_argument_group("region file")
        region.add_argument(
            "--region-file",
            metavar="OUT",
            type=Path,
            help="write the region file to OUT, and its signature to OUT.sig",
        )
        region.add_argument(
            "--signing-key", metavar="KEY", type=Path, help="sign it with this private ed25519 key (PEM)"
        )
        region.add_argument(
            "--valid-for", metavar="SECONDS", help="how long nodes accept the file (86400, or 1d); default: forever"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = self.settings(parsed_args)
        jitter = seconds_of("--jitter", parsed_args.jitter)
        spacing = seconds_of("--spacing", parsed_args.spacing)
        for option, given in (("--jitter", jitter), ("--spacing", spacing)):
            if given > 86400:
                raise UsageError(f"{option}: must be at most 86400 seconds, which is a day")
        if parsed_args.region_file is None:
            for name in ("signing_key", "valid_for"):
                if getattr(parsed_args, name) is not None:
                    raise UsageError(f"--{name.replace('_', '-')} needs --region-file")
        elif parsed_args.signing_key is None:
            raise UsageError("--region-file needs --signing-key: nodes accept only a signed file")
        valid_for = None if parsed_args.valid_for is None else seconds_of("--valid-for", parsed_args.valid_for)
        if valid_for is not None and not 1 <= valid_for <= _CENTURY:
            raise UsageError(f"--valid-for: must be from 1 to {_CENTURY} seconds, which is a century")
        if jitter:
            time.sleep(random.uniform(0, jitter))  # noqa: S311  # need not be unpredictable
        if parsed_args.region_file is not None:
            written = write_region(
                settings.catalogue,
                settings.region.brake,
                settings.brake,
                parsed_args.region_file,
                parsed_args.signing_key,
                valid_for=valid_for,
                stderr=self.app.stderr,
            )
            if written.said is not None:
                self.say(written.said)
            for complaint in written.complaints:
                LOG.error("%s", complaint)
            told = _told(settings, written)
            return written.status if told else written.status or 3
        if not spacing:
            return self._refresh(settings, at_once=parsed_args.now)
        check_source(settings.catalogue)
        directory = RefreshDir(settings.catalogue.directory)
        self._wait(directory, spacing)
        return follow(
            lambda: self._refresh(settings, at_once=parsed_args.now),
            lambda: load_attachments(settings)[0],
            directory.ask_again,
        )

    def _wait(self, directory: RefreshDir, spacing: float) -> None:
        """Also before a refresh that requests nothing: systemd gives up on a unit that starts too often."""
        directory.prepare()
        time.sleep(directory.load_notes().wait(datetime.now(UTC), spacing))
        with directory.locked():
            directory.save_notes(replace(directory.load_notes(), begun=datetime.now(UTC)))

    def _refresh(self, settings: Settings, *, at_once: bool) -> int:
        directory = RefreshDir(settings.catalogue.directory)
        check_source(settings.catalogue)
        directory.prepare()
        with directory.locked():
            now, notes = datetime.now(UTC), directory.load_notes()
            if notes.pausing(now) and not at_once and notes.until is not None:
                LOG.error(
                    "not refreshed: waiting until %s after %s: %s; to refresh now: plimsoll catalogue refresh --now",
                    minute(notes.until),
                    plural(notes.failures, "failure"),
                    notes.trouble,
                )
                return 1
            before, damaged = self._before(directory)
            met, complaint = load_attachments(settings)
            # Before the first request: if nothing can be saved, each run of a timer would fetch everything again.
            directory.save_notes(_failed(notes, now, "the last refresh was interrupted"))
            try:
                fetched = fetch(settings.catalogue, before, met, notes, now, at_once=at_once)
            except PlimsollError as error:
                directory.save_notes(_failed(notes, now, str(error)) if _is_outage(error, settings) else notes)
                raise
            try:
                if fetched.region_file is not None:  # first: the brake must not meet edits before their approvals
                    directory.save_region_file(fetched.region_file)
                if damaged is not None:
                    LOG.warning("%s; moved to %s", damaged, directory.set_aside().name)
                catalogue.save(directory.directory, fetched.catalogue)
            except CatalogueError as error:
                with suppress(CatalogueError):  # probably the same error; the notes already have a failure
                    directory.save_notes(_failed(notes, now, str(error)))
                raise
            directory.save_notes(_noted(notes, fetched, now))
        self.say(fetched.said)
        if met is None and complaint is None and settings.catalogue.source == "openstack":
            self.say(catalogue_messages.NOTHING_ATTACHED)
        remarks = [*fetched.remarks, *filter(None, [complaint, fetched.trouble and str(fetched.trouble)])]
        for remark in remarks:
            LOG.error("%s", remark)
        return 3 if remarks else 0

    def _before(self, directory: RefreshDir) -> tuple[Catalogue | None, CatalogueError | None]:
        """The catalogue, and what is wrong with it if it is to be set aside: once there is another one."""
        try:
            return catalogue.load(directory.directory), None
        except CatalogueError as error:
            if not isinstance(error, CorruptCatalogue) and not directory.obstructed:
                raise
            return None, error


def _told(settings: Settings, written: Written) -> bool:
    """Write metrics about the region file, if configured; False on failure."""
    if settings.metrics.textfile_dir is None:
        return True
    from plimsoll_agent.monitor import pass_metrics

    stop = written.stopped
    volumes = stop.number if stop is not None and written.compared else None
    families = pass_metrics.of_region(written.read, deferred=stop is not None, volumes=volumes)
    try:
        textfile.write(settings.metrics.textfile_dir, "region", families)
    except textfile.TextfileError as error:
        LOG.error("%s", error)
        return False
    return True


def _is_outage(error: PlimsollError, settings: Settings) -> bool:
    """Whether to wait before the next request. A bad region file is no reason to wait."""
    if settings.catalogue.source == "region-file":
        return isinstance(error, Unreachable | DeadlineExceeded)
    return not isinstance(error, ConfigError | CatalogueError)


def _failed(notes: Notes, now: datetime, trouble: str) -> Notes:
    return notes.failed(now, trouble, random.random())  # noqa: S311  # need not be unpredictable


def _noted(notes: Notes, fetched: Fetched, now: datetime) -> Notes:
    notes = notes.asked(fetched.calls)
    if fetched.trouble is not None:
        return _failed(notes, now, str(fetched.trouble))
    return replace(notes.succeeded(), region=fetched.region)


class CatalogueShow(_CatalogueCommand, Listing):
    """List the volume types with their QoS specs, or this node's volumes, as in the catalogue.

    Exit status: 0; 1 no catalogue, or unreadable; 64 unknown NAME, or usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "what", metavar="NAME", nargs="?", help="only this volume, volume type or QoS spec, by its ID or name"
        )
        parser.add_argument("--volumes", action="store_true", help="list volumes instead of volume types")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        found, what = self.present(self.settings(parsed_args)), parsed_args.what
        if what is not None and what.lower() in found.volumes:
            return _VOLUME_COLUMNS, _volume_rows(found, {what.lower()})
        types = {id for id, type in found.types.items() if what in (None, id, type.name)}
        specs = {id for id, spec in found.specs.items() if what in (None, id, spec.name)}
        types |= {id for id, type in found.types.items() if type.qos_spec in specs}
        if what is not None and not types | specs:
            raise UsageError(
                f"{printable(what)}: no such volume, volume type or QoS spec in the catalogue;"
                " see: plimsoll catalogue show"
            )
        if parsed_args.volumes:
            return _VOLUME_COLUMNS, _volume_rows(
                found, {id for id, volume in found.volumes.items() if what is None or volume.type in types}
            )
        return _TYPE_COLUMNS, _type_rows(found, types, specs)


_SPEC_COLUMNS = (Column("qos_spec", most=24), Column("consumer", drop=2), Column("keys", wraps=True))
_TYPE_COLUMNS = (Column("type", most=24), *_SPEC_COLUMNS, Column("volumes", right=True))
_VOLUME_COLUMNS = (Column("volume"), Column("type", most=24), *_SPEC_COLUMNS, Column("read", drop=1))
_AGE_COLUMNS = (Column("part"), Column("entries", right=True), *map(Column, ("oldest", "newest", "source")))


def _type_rows(found: Catalogue, types: set[str], specs: set[str]) -> list[tuple[object, ...]]:
    """Types by name, then specs that no type has."""
    numbers = catalogue_messages.volumes_by_type(found)
    rows = []
    for id in sorted(types, key=lambda id: (found.types[id].name, id)):
        name = found.types[id].name
        rows.append((name, *_spec_cells(found, id), numbers[id]))
    alone = specs - {type.qos_spec for type in found.types.values()}
    for id in sorted(alone, key=lambda id: (found.specs[id].name, id)):
        spec = found.specs[id]
        rows.append((None, *_cells(spec.name, spec.consumer, spec.keys), None))
    return rows


def _volume_rows(found: Catalogue, ids: set[str]) -> list[tuple[object, ...]]:
    rows = []
    for id in sorted(ids):
        volume = found.volumes[id]
        known = found.types.get(volume.type or "")
        name = known.name if known is not None else volume.type
        rows.append(
            (
                id,
                Shown(None if volume.missing else name, type_name(volume.type, volume.missing, found)),
                *_spec_cells(found, volume.type or ""),
                volume.read.isoformat(timespec="seconds"),
            )
        )
    return rows


def _spec_cells(found: Catalogue, type: str) -> tuple[object, ...]:
    known = found.types.get(type)
    spec = found.specs.get(known.qos_spec or "") if known is not None else None
    if spec is None:
        words = "-" if known is None else spec_name(known, found)
        return Shown(known.qos_spec if known else None, words), None, Shown(None, "-")
    return _cells(spec.name, spec.consumer, spec.keys)


def _cells(name: str, consumer: str, keys: Any) -> tuple[object, ...]:
    return (
        name,
        consumer,
        Shown(dict(keys) or None, keys_words(keys)),
    )


class CatalogueAge(_CatalogueCommand, Listing):
    """Show when each part of the catalogue was read, and from which source.

    Exit status: 0 fresh, 1 stale (older than [catalogue] stale_after), or no catalogue.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings, now = self.settings(parsed_args), datetime.now(UTC)
        found = self.present(settings)
        if found.age(now).total_seconds() > settings.catalogue.stale_after:
            self.status = 1
            LOG.error(
                "the catalogue is stale: not refreshed from %s since %s (stale_after is %d s)",
                printable(found.source),
                minute(found.issued),
                settings.catalogue.stale_after,
            )
        parts: list[tuple[str, list[datetime]]] = [
            ("QoS specs", [found.issued] * len(found.specs)),
            ("volume types", [found.issued] * len(found.types)),
            ("volumes", [volume.read for volume in found.volumes.values()]),
            ("guests", [server.read for server in found.servers.values()]),
        ]
        return _AGE_COLUMNS, [
            (
                name,
                len(read),
                _moment(min(read, default=None), now),
                _moment(max(read, default=None), now),
                found.source,
            )
            for name, read in parts
        ]


def _moment(moment: datetime | None, now: datetime) -> object:
    if moment is None:
        return None
    return Shown(moment.isoformat(timespec="seconds"), ago(moment, now))


class CatalogueDiff(_CatalogueCommand):
    """Show what a refresh would change, or how another catalogue or region file differs.

    Without FILE the source is read now, and nothing is saved. With FILE it is compared with this node's catalogue; of
    a region file only this node's volumes and guests, without checking its signature.

    Exit status: 0 no differences, 2 differences, 1 error.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help="a catalogue.json, or a region file")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = self.settings(parsed_args)
        if parsed_args.file is not None:
            before = self.present(settings)
            return self._tell(before, compared(parsed_args.file, before), trouble=False)
        present = catalogue.load(settings.catalogue.directory)
        met, complaint = load_attachments(settings)
        notes = RefreshDir(settings.catalogue.directory).load_notes()
        fetched = fetch(settings.catalogue, present, met, notes, datetime.now(UTC), at_once=True)
        remarks = [*fetched.remarks, *filter(None, [complaint, fetched.trouble and str(fetched.trouble)])]
        for remark in remarks:
            LOG.error("%s", remark)
        nothing = Catalogue(0, fetched.catalogue.issued, fetched.catalogue.source)
        return self._tell(present or nothing, fetched.catalogue, trouble=fetched.trouble is not None)

    def _tell(self, before: Catalogue, after: Catalogue, *, trouble: bool) -> int:
        lines = list(catalogue_messages.diff_lines(before, after))
        for line in lines:
            self.say(line)
        if trouble:
            return 1
        if not lines:
            self.say("No differences.")
        return 2 if lines else 0
