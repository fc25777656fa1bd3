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
from plimsoll_agent.catalogue.orders import RegionApproval
from plimsoll_agent.catalogue.stages import ConditionFinding
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import ConfigError, DeadlineExceeded, PlimsollError, Unreachable, UsageError
from plimsoll_agent.messages import catalogue as catalogue_messages
from plimsoll_agent.messages.catalogue import keys_words, spec_name, type_name
from plimsoll_agent.monitor import textfile
from plimsoll_agent.store.refresh_state import RefreshDir, RefreshNotes
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
        present = catalogue.load(settings.catalogue.directory)
        if present is None:
            raise CatalogueError(
                f"{settings.catalogue.directory / catalogue.NAME}: does not exist yet; run plimsoll catalogue refresh"
            )
        return present


class CatalogueRefresh(_CatalogueCommand):
    """Update the catalogue from Cinder, Nova or region file.

    This is the only part of plimsoll on a node that talks to the control plane; passes only read the catalogue. Only
    what is due is fetched. After failures it waits, up to an hour, unless --now is given. On an error the old
    catalogue stays.

    With --region-file it writes the region file for all nodes instead, and no catalogue. If an edit of QoS specs or
    volume types would change more volumes than [region] allows, remove limits of any attached volume, or cut them to
    a tenth or less, the file keeps the specs and types from before until plimsoll region approve; the status is 4. An
    approval with stages goes on to the next one here, if the Prometheus of the settings has nothing against it. If
    Cinder cannot be read, the last file is written again with the present orders; the status is 1.

    Exit status:
        0   fetched
        3   fetched in part, or the next stage of an approval does not begin
        4   the region's brake deferred an edit
        1   nothing fetched
        64  usage

    Examples:
        plimsoll catalogue refresh
        plimsoll catalogue refresh --now
        plimsoll catalogue refresh --region-file /srv/www/region.json --signing-key region.key
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
        for option, seconds in (("--jitter", jitter), ("--spacing", spacing)):
            if seconds > 86400:
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
            result = write_region(
                settings.catalogue,
                settings.region.brake,
                settings.brake,
                parsed_args.region_file,
                parsed_args.signing_key,
                valid_for=valid_for,
                stderr=self.app.stderr,
                judge_stage=lambda approval: self.judged(settings, approval),
            )
            if result.said is not None:
                self.say(result.said)
            for complaint in result.complaints:
                LOG.error("%s", complaint)
            success = _told(settings, result)
            return result.status if success else result.status or 3
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

    def judged(self, settings: Settings, approval: RegionApproval) -> Iterable[ConditionFinding]:
        """The findings on the nodes that have the present stage of an approval; without Prometheus there are none."""
        return ()

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
            now, notes = datetime.now(UTC), directory.load_notes().ended
            if notes.pausing(now) and not at_once and notes.until is not None:
                LOG.error(
                    "not refreshed: waiting until %s after %s: %s; to refresh now: plimsoll catalogue refresh --now",
                    minute(notes.until),
                    plural(notes.failures, "failure"),
                    notes.trouble,
                )
                return 1
            before, damage = self._before(directory)
            attachments, complaint = load_attachments(settings)
            # Before the first request: if nothing can be saved, each run of a timer would fetch everything again.
            directory.save_notes(notes.beginning(now, random.random()))  # noqa: S311  # need not be unpredictable
            try:
                result = fetch(settings.catalogue, before, attachments, notes, now, at_once=at_once)
            except PlimsollError as error:
                directory.save_notes(_failed(notes, now, str(error)) if _is_outage(error, settings) else notes)
                raise
            try:
                if result.region_file is not None:  # first: the brake must not meet edits before their approvals
                    directory.save_region_file(result.region_file)
                if damage is not None:
                    LOG.warning("%s; moved to %s", damage, directory.set_aside().name)
                catalogue.save(directory.directory, result.catalogue)
            except CatalogueError as error:
                with suppress(CatalogueError):  # probably the same error; the notes already have a pause
                    directory.save_notes(_failed(notes, now, str(error)))
                raise
            directory.save_notes(_noted(notes, result, now))
        self.say(result.said)
        if attachments is None and complaint is None and settings.catalogue.source == "openstack":
            self.say(catalogue_messages.NOTHING_ATTACHED)
        remarks = [*result.remarks, *filter(None, [complaint, result.trouble and str(result.trouble)])]
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


def _told(settings: Settings, result: Written) -> bool:
    """Write metrics about the region file, if configured; False on failure."""
    if settings.metrics.textfile_dir is None:
        return True
    from plimsoll_agent.monitor import pass_metrics

    stop = result.stopped
    volumes = stop.number if stop is not None and result.compared else None
    families = [
        *pass_metrics.of_region(result.read, deferred=stop is not None, volumes=volumes),
        *pass_metrics.of_stages(result.staged, result.stops),
    ]
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


def _failed(notes: RefreshNotes, now: datetime, trouble: str) -> RefreshNotes:
    return notes.failed(now, trouble, random.random())  # noqa: S311  # need not be unpredictable


def _noted(notes: RefreshNotes, result: Fetched, now: datetime) -> RefreshNotes:
    notes = notes.asked(result.calls)
    if result.is_novas:
        return notes.nova_failed(now, str(result.trouble), random.random())  # noqa: S311  # need not be unpredictable
    if result.trouble is not None:
        return _failed(notes, now, str(result.trouble))
    if result.nova_waits:
        return notes.cinder_read
    return replace(notes.succeeded(), region=result.region)


class CatalogueShow(_CatalogueCommand, Listing):
    """List volume types, QoS specs or this node's volumes.

    Exit status:
        0   done
        1   no catalogue, or unreadable
        64  unknown NAME, or usage

    Examples:
        plimsoll catalogue show
        plimsoll catalogue show gold
        plimsoll catalogue show --volumes -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "what", metavar="NAME", nargs="?", help="only this volume, volume type or QoS spec, by its ID or name"
        )
        parser.add_argument("--volumes", action="store_true", help="list volumes instead of volume types")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        present, what = self.present(self.settings(parsed_args)), parsed_args.what
        if what is not None and what.lower() in present.volumes:
            return _VOLUME_COLUMNS, _volume_rows(present, {what.lower()})
        types = {id for id, type in present.types.items() if what in (None, id, type.name)}
        specs = {id for id, spec in present.specs.items() if what in (None, id, spec.name)}
        types |= {id for id, type in present.types.items() if type.qos_spec in specs}
        if what is not None and not types | specs:
            raise UsageError(
                f"{printable(what)}: no such volume, volume type or QoS spec in the catalogue;"
                " see: plimsoll catalogue show"
            )
        if parsed_args.volumes:
            return _VOLUME_COLUMNS, _volume_rows(
                present, {id for id, volume in present.volumes.items() if what is None or volume.type in types}
            )
        return _TYPE_COLUMNS, _type_rows(present, types, specs)


_SPEC_COLUMNS = (Column("qos_spec", most=24), Column("consumer", drop=2), Column("keys", wraps=True))
_TYPE_COLUMNS = (Column("type", most=24), *_SPEC_COLUMNS, Column("volumes", right=True))
_VOLUME_COLUMNS = (Column("volume"), Column("type", most=24), *_SPEC_COLUMNS, Column("read", drop=1))
_AGE_COLUMNS = (Column("part"), Column("entries", right=True), *map(Column, ("oldest", "newest", "source")))


def _type_rows(present: Catalogue, types: set[str], specs: set[str]) -> list[tuple[object, ...]]:
    """Types by name, then specs that no type has."""
    numbers = catalogue_messages.volumes_by_type(present)
    rows = []
    for id in sorted(types, key=lambda id: (present.types[id].name, id)):
        name = present.types[id].name
        rows.append((name, *_spec_cells(present, id), numbers[id]))
    alone = specs - {type.qos_spec for type in present.types.values()}
    for id in sorted(alone, key=lambda id: (present.specs[id].name, id)):
        spec = present.specs[id]
        rows.append((None, *_cells(spec.name, spec.consumer, spec.keys), None))
    return rows


def _volume_rows(present: Catalogue, ids: set[str]) -> list[tuple[object, ...]]:
    rows = []
    for id in sorted(ids):
        volume = present.volumes[id]
        volume_type = present.types.get(volume.type or "")
        name = volume_type.name if volume_type is not None else volume.type
        rows.append(
            (
                id,
                Shown(None if volume.missing else name, type_name(volume.type, volume.missing, present)),
                *_spec_cells(present, volume.type or ""),
                volume.read.isoformat(timespec="seconds"),
            )
        )
    return rows


def _spec_cells(present: Catalogue, type: str) -> tuple[object, ...]:
    volume_type = present.types.get(type)
    spec = present.specs.get(volume_type.qos_spec or "") if volume_type is not None else None
    if spec is None:
        words = "-" if volume_type is None else spec_name(volume_type, present)
        return Shown(volume_type.qos_spec if volume_type else None, words), None, Shown(None, "-")
    return _cells(spec.name, spec.consumer, spec.keys)


def _cells(name: str, consumer: str, keys: Any) -> tuple[object, ...]:
    return (
        name,
        consumer,
        Shown(dict(keys) or None, keys_words(keys)),
    )


class CatalogueAge(_CatalogueCommand, Listing):
    """Show when the catalogue was read, and from where.

    Exit status:
        0   fresh
        1   stale (older than [catalogue] stale_after), or no catalogue

    Examples:
        plimsoll catalogue age
        plimsoll catalogue age -f json
        plimsoll catalogue age -f value
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        settings, now = self.settings(parsed_args), datetime.now(UTC)
        present = self.present(settings)
        if present.age(now).total_seconds() > settings.catalogue.stale_after:
            self.status = 1
            LOG.error(
                "the catalogue is stale: not refreshed from %s since %s (stale_after is %d s)",
                printable(present.source),
                minute(present.issued),
                settings.catalogue.stale_after,
            )
        parts: list[tuple[str, list[datetime]]] = [
            ("QoS specs", [present.issued] * len(present.specs)),
            ("volume types", [present.issued] * len(present.types)),
            ("volumes", [volume.read for volume in present.volumes.values()]),
            ("guests", [server.read for server in present.servers.values()]),
        ]
        return _AGE_COLUMNS, [
            (
                name,
                len(read),
                _moment(min(read, default=None), now),
                _moment(max(read, default=None), now),
                present.source,
            )
            for name, read in parts
        ]


def _moment(moment: datetime | None, now: datetime) -> object:
    if moment is None:
        return None
    return Shown(moment.isoformat(timespec="seconds"), ago(moment, now))


class CatalogueDiff(_CatalogueCommand):
    """Show what a refresh would change.

    Without FILE the source is read now, and nothing is saved. With FILE it is compared with this node's catalogue; of
    a region file only this node's volumes and guests, without checking its signature.

    Exit status:
        0   no differences
        2   differences
        1   error

    Examples:
        plimsoll catalogue diff
        plimsoll catalogue diff region.json
        plimsoll catalogue diff /srv/backup/catalogue.json
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
        attachments, complaint = load_attachments(settings)
        notes = RefreshDir(settings.catalogue.directory).load_notes()
        result = fetch(settings.catalogue, present, attachments, notes, datetime.now(UTC), at_once=True)
        remarks = [*result.remarks, *filter(None, [complaint, result.trouble and str(result.trouble)])]
        for remark in remarks:
            LOG.error("%s", remark)
        nothing = Catalogue(0, result.catalogue.issued, result.catalogue.source)
        return self._tell(present or nothing, result.catalogue, trouble=result.trouble is not None)

    def _tell(self, before: Catalogue, after: Catalogue, *, trouble: bool) -> int:
        lines = list(catalogue_messages.diff_lines(before, after))
        for line in lines:
            self.say(line)
        if trouble:
            return 1
        if not lines:
            self.say("No differences.")
        return 2 if lines else 0
