"""``plimsoll catalogue``: fetch what Cinder and Nova say, for this node or for a region, and look at it."""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cliff import lister

from plimsoll_agent import catalogue, catalogue_words
from plimsoll_agent.catalogue import Catalogue, CatalogueError, CorruptCatalogue
from plimsoll_agent.catalogue_words import keys_words, spec_name, type_name
from plimsoll_agent.cli.base import LocalCommand
from plimsoll_agent.cli.formats import Shown
from plimsoll_agent.cli.refreshing import Fetched, check_source, fetch, load_sightings
from plimsoll_agent.cli.regional import compared, write_region
from plimsoll_agent.config import Settings
from plimsoll_agent.errors import ConfigError, PlimsollError, Unanswered, Unreachable, UsageError
from plimsoll_agent.refreshdir import Notes, RefreshDir
from plimsoll_agent.report import ago, minute, printable

LOG = logging.getLogger(__name__)
_CENTURY = 100 * 365 * 86400


class _CatalogueCommand(LocalCommand):
    """A command about the catalogue of this node."""

    def say(self, line: str) -> None:
        print(self.app.for_journal(line), file=self.app.stdout, flush=True)

    def present(self, settings: Settings) -> Catalogue:
        """The catalogue that passes go by. Raises ``CatalogueError`` also when there is none."""
        found = catalogue.load(settings.catalogue.directory)
        if found is None:
            raise CatalogueError(
                f"{settings.catalogue.directory / catalogue.NAME}: is not there yet; see: plimsoll catalogue refresh"
            )
        return found


class CatalogueRefresh(_CatalogueCommand):
    """Fetch what Cinder and Nova say about this node's volumes and guests, or read it from the region's file.

    A process of its own, and the only part of plimsoll on a node that talks to the control plane; passes read what
    it keeps. What is not due yet is not asked for. After failures it asks nobody for a while, up to an hour, unless
    --now says so. Whatever goes wrong, what was known before stays.

    With --region-file it makes that file for all nodes of a region instead, and reads and writes no catalogue. If
    other QoS specs and types than it has would change the limits of more volumes than [region] allows, remove those
    of any attached volume, or cut them to a tenth or less, the file goes on with those that it has until plimsoll
    region approve, and the status is 4.

    Exit status: 0 fetched, 3 fetched in part, 4 the region's brake, 1 nothing fetched, 64 usage.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--now", action="store_true", help="ask now, whatever is due, and after failures too")
        parser.add_argument(
            "--jitter", metavar="SECONDS", type=float, default=0.0, help="first wait for a random time up to this"
        )
        region = parser.add_argument_group("the file for a region")
        region.add_argument("--region-file", metavar="OUT", type=Path, help="write it there, and OUT.sig beside it")
        region.add_argument("--signing-key", metavar="KEY", type=Path, help="the private ed25519 key (PEM) for it")
        region.add_argument(
            "--valid-for", metavar="SECONDS", type=int, help="nodes take the file for so long; default: for ever"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = self.settings(parsed_args)
        if not 0 <= parsed_args.jitter <= 86400:
            raise UsageError("--jitter: seconds from 0 to 86400")
        if parsed_args.region_file is None:
            for name in ("signing_key", "valid_for"):
                if getattr(parsed_args, name) is not None:
                    raise UsageError(f"--{name.replace('_', '-')} goes with --region-file")
        elif parsed_args.signing_key is None:
            raise UsageError("--region-file needs --signing-key: nodes take no file that is not signed")
        if parsed_args.valid_for is not None and not 1 <= parsed_args.valid_for <= _CENTURY:
            raise UsageError(f"--valid-for: seconds from 1 to {_CENTURY}, which is a century")
        if parsed_args.jitter:
            time.sleep(random.uniform(0, parsed_args.jitter))  # noqa: S311  # nobody must not guess it
        if parsed_args.region_file is not None:
            written = write_region(
                settings.catalogue,
                settings.region.brake,
                settings.brake.factor,
                parsed_args.region_file,
                parsed_args.signing_key,
                valid_for=parsed_args.valid_for,
                stderr=self.app.stderr,
            )
            if written.said is not None:
                self.say(written.said)
            for complaint in written.complaints:
                LOG.error("%s", complaint)
            return written.status
        return self._refresh(settings, at_once=parsed_args.now)

    def _refresh(self, settings: Settings, *, at_once: bool) -> int:
        directory = RefreshDir(settings.catalogue.directory)
        check_source(settings.catalogue)
        directory.prepare()
        with directory.locked():
            now, notes = datetime.now(UTC), directory.load_notes()
            if notes.waits(now) and not at_once and notes.until is not None:
                LOG.error(
                    "nobody is asked before %s, after %s: %s; at once: plimsoll catalogue refresh --now",
                    minute(notes.until),
                    catalogue_words.number(notes.failures, "failure"),
                    notes.trouble,
                )
                return 1
            before = self._before(directory)
            met, complaint = load_sightings(settings)
            # Before anybody is asked: where nothing can be kept, each run of a timer would ask for all of it again.
            directory.save_notes(_failed(notes, now, "that refresh did not come to its end"))
            try:
                fetched = fetch(settings.catalogue, before, met, notes, now, at_once=at_once)
            except PlimsollError as error:
                directory.save_notes(_failed(notes, now, str(error)) if _is_outage(error, settings) else notes)
                raise
            try:
                catalogue.save(directory.directory, fetched.catalogue)
            except CatalogueError as error:
                with suppress(CatalogueError):  # the same trouble, and noted is that there was some
                    directory.save_notes(_failed(notes, now, str(error)))
                raise
            directory.save_notes(_noted(notes, fetched, now))
        self.say(fetched.said)
        remarks = [*fetched.remarks, *filter(None, [complaint, fetched.trouble and str(fetched.trouble)])]
        for remark in remarks:
            LOG.error("%s", remark)
        return 3 if remarks else 0

    def _before(self, directory: RefreshDir) -> Catalogue | None:
        try:
            return catalogue.load(directory.directory)
        except CatalogueError as error:
            if not isinstance(error, CorruptCatalogue) and not directory.obstructed:
                raise
            LOG.warning("%s; it is set aside as %s, and fetched anew", error, directory.set_aside().name)
            return None


def _is_outage(error: PlimsollError, settings: Settings) -> bool:
    """Whether to leave the other side alone for a while. A region's file that is no good costs nobody anything."""
    if settings.catalogue.source == "region-file":
        return isinstance(error, Unreachable | Unanswered)
    return not isinstance(error, ConfigError | CatalogueError)


def _failed(notes: Notes, now: datetime, trouble: str) -> Notes:
    return notes.failed(now, trouble, random.random())  # noqa: S311  # nobody must not guess it


def _noted(notes: Notes, fetched: Fetched, now: datetime) -> Notes:
    notes = notes.asked(fetched.calls)
    if fetched.trouble is not None:
        return _failed(notes, now, str(fetched.trouble))
    return replace(notes.succeeded(), region=fetched.region)


class CatalogueShow(_CatalogueCommand, lister.Lister):
    """List the volume types with their QoS specs, or this node's volumes with their types, as they were fetched.

    Exit status: 0, 1 there is no catalogue or it cannot be read, 64 when nothing is called so.
    """

    @property
    def formatter_namespace(self) -> str:
        return "plimsoll.formatter.list"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "what", metavar="NAME", nargs="?", help="only this volume, volume type or QoS spec, by its id or name"
        )
        parser.add_argument("--volumes", action="store_true", help="list volumes, not types")
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
                f"{printable(what)}: no volume of this node, type or QoS spec is called so;"
                " see: plimsoll catalogue show"
            )
        if parsed_args.volumes:
            return _VOLUME_COLUMNS, _volume_rows(
                found, {id for id, volume in found.volumes.items() if what is None or volume.type in types}
            )
        return _TYPE_COLUMNS, _type_rows(found, types, specs)


_TYPE_COLUMNS = ("type", "qos_spec", "consumer", "keys", "volumes")
_VOLUME_COLUMNS = ("volume", "type", "qos_spec", "consumer", "keys", "read")


def _type_rows(found: Catalogue, types: set[str], specs: set[str]) -> list[tuple[object, ...]]:
    """Types by name, then specs that no type has."""
    numbers = catalogue_words.volumes_by_type(found)
    rows = []
    for id in sorted(types, key=lambda id: (found.types[id].name, id)):
        name = found.types[id].name
        rows.append((Shown(name, printable(name)), *_spec_cells(found, id), numbers[id]))
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
                Shown(id, printable(id)),
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
        Shown(name, printable(name)),
        Shown(consumer, printable(consumer)),
        Shown(dict(keys) or None, keys_words(keys)),
    )


class CatalogueAge(_CatalogueCommand, lister.Lister):
    """Tell how long ago each part of the catalogue was read, and from whom.

    Exit status: 0 fresh, 1 older than [catalogue] old_after, or there is none.
    """

    @property
    def formatter_namespace(self) -> str:
        return "plimsoll.formatter.list"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings, now = self.settings(parsed_args), datetime.now(UTC)
        found = self.present(settings)
        if found.age(now).total_seconds() > settings.catalogue.old_after:
            self.status = 1
            LOG.error(
                "nothing new from %s since %s (old_after is %d s)",
                printable(found.source),
                minute(found.issued),
                settings.catalogue.old_after,
            )
        parts: list[tuple[str, list[datetime]]] = [
            ("QoS specs", [found.issued] * len(found.specs)),
            ("volume types", [found.issued] * len(found.types)),
            ("volumes", [volume.read for volume in found.volumes.values()]),
            ("guests", [server.read for server in found.servers.values()]),
        ]
        return ("part", "entries", "oldest", "newest", "source"), [
            (
                name,
                len(read),
                _moment(min(read, default=None), now),
                _moment(max(read, default=None), now),
                Shown(found.source, printable(found.source)),
            )
            for name, read in parts
        ]


def _moment(moment: datetime | None, now: datetime) -> object:
    if moment is None:
        return None
    return Shown(moment.isoformat(timespec="seconds"), ago(moment, now))


class CatalogueDiff(_CatalogueCommand):
    """Say what a refresh would change, or what is different in another catalogue or region file.

    Without FILE the source is asked now, and nothing is kept. With FILE the differences are those from this node's
    catalogue to that one; of a region file, whose signature is not looked at, for this node's volumes and guests.

    Exit status: 0 nothing different, 2 differences, 1 trouble.
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
        met, complaint = load_sightings(settings)
        notes = RefreshDir(settings.catalogue.directory).load_notes()
        fetched = fetch(settings.catalogue, present, met, notes, datetime.now(UTC), at_once=True)
        remarks = [*fetched.remarks, *filter(None, [complaint, fetched.trouble and str(fetched.trouble)])]
        for remark in remarks:
            LOG.error("%s", remark)
        nothing = Catalogue(0, fetched.catalogue.issued, fetched.catalogue.source)
        return self._tell(present or nothing, fetched.catalogue, trouble=fetched.trouble is not None)

    def _tell(self, before: Catalogue, after: Catalogue, *, trouble: bool) -> int:
        lines = list(catalogue_words.diff_lines(before, after))
        for line in lines:
            self.say(line)
        if trouble:
            return 1
        if not lines:
            self.say("Nothing is different.")
        return 2 if lines else 0
