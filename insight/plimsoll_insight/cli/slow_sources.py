"""Where ``plimsoll slow`` has requests and names from: logs, OSDs' dumps, the running cluster, files of names."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from plimsoll_agent.errors import PlimsollError, Unreachable, UsageError
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import plural, printable
from plimsoll_insight.files.packed import UnreadableLog, opened
from plimsoll_insight.slow import dumps, images, pools
from plimsoll_insight.slow.blocks import LARGEST
from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.events import Known, OfOthers, SlowRequest
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.messages import osds_words
from plimsoll_insight.slow.peers import settle
from plimsoll_insight.slow.reading import read
from plimsoll_insight.slow.tree import Tree, parse
from plimsoll_insight.slow.wrapped import form_of, osd_of_file

if TYPE_CHECKING:
    from plimsoll_insight.adapters.cluster import LiveCluster, OsdRequests

_AT_ONCE = 8
_ALL_OSDS = 120.0
"""Seconds for all OSDs of a cluster."""
_ALL_IMAGES = 30.0
_MOST_IMAGES = 100
_BEGIN = 64 << 10


@frozen(kw_only=True)
class Names:
    """What the options and the cluster say of places, pools and images."""

    tree: Tree | None
    pools: Mapping[int, str]
    images: Mapping[str, str]
    """Their names, or ``POOL/IMAGE``, by id."""
    erasure_coded: Mapping[str | int, bool]
    """Whether a pool is, by name and by number."""


def names_in(parsed_args: argparse.Namespace) -> Names:
    """Of the files that the options give. Raises ``PlimsollError``."""
    tree, pool_file, image_file = parsed_args.tree, parsed_args.pools, parsed_args.images
    pool_text = _text(pool_file, "--pools") if pool_file else ""
    return Names(
        tree=parse(_text(tree, "--tree"), str(tree)) if tree else None,
        pools=pools.parse(pool_text, str(pool_file)) if pool_text else {},
        images=images.parse(_text(image_file, "--images"), str(image_file)) if image_file else {},
        erasure_coded=pools.erasure_coded(pool_text) if pool_text else {},
    )


def read_logs(paths: Sequence[Path], reading: LogReading, say: Callable[[str], None]) -> None:
    """``say`` shows progress. Raises ``UsageError``, ``UnreadableLog``."""
    for path in paths:
        _must_be_there(path, "")
    _refuse_twice(paths)
    jsons = [path for path in paths if _is_json(path)]
    lines = [path for path in paths if path not in jsons]
    read(lines, lambda number: say(f"{number >> 20} MiB read"), reading)
    if len(reading.foreign) == len(paths):
        raise UnreadableLog(
            f"{reading.foreign[0]}: no line begins as in a log of Ceph; give ceph.log or ceph-osd.N.log"
        )
    requests: list[SlowRequest] = []
    for path in jsons:
        reading.clock.until = path.stat().st_mtime
        with opened(path) as stream:
            text = stream.read(LARGEST)
        try:
            for dump in dumps.parse(text, osd_of_file(path.name), printable(str(path)), reading.clock):
                requests += dump.requests
                if dump.is_full and all(_is_within(each, reading) for each in dump.requests):
                    reading.full.update(each.osd for each in dump.requests)
                for event in dump.events:
                    if isinstance(event, dumps.UnreadWords):
                        reading.miss(event.text)
                    elif isinstance(event, OfOthers):
                        reading.note(event)
                    elif isinstance(event, Known) or reading.is_asked(event.time):
                        reading.cluster.add(event)
        except dumps.Nobodys:
            raise UsageError(f"{path}: whose is it? its name must have osd.N") from None
        reading.telling += 1
    for request in settle(requests):
        if _is_within(request, reading):
            reading.dumped.add(request)
            reading.dumped.dumped.add(request.osd)
    say("")


def ask_osds(
    cluster: LiveCluster, reading: LogReading, since: datetime, say: Callable[[str], None]
) -> tuple[Tree, list[str], list[str]]:
    """The tree, of whom there is no answer, and what else is unknown. Raises ``PlimsollError``, also where no OSD
    answers.
    """
    map = cluster.map()
    errors: dict[int, PlimsollError] = {}
    requests: list[SlowRequest] = []
    end = time.monotonic() + _ALL_OSDS

    def ask(osd: int) -> OsdRequests | PlimsollError:
        try:
            return cluster.requests(osd, end, reading.clock)
        except PlimsollError as error:
            return error

    for number, (osd, answer) in enumerate(side_by_side(ask, map.up, _AT_ONCE), 1):
        if isinstance(answer, PlimsollError):
            errors[osd] = answer
        else:
            recent = [request for request in answer.requests if request.time + request.age >= since.timestamp()]
            requests += recent
            if answer.is_full and len(recent) == len(answer.requests):
                reading.full.add(osd)
        say(f"{number} of {len(map.up)} OSDs asked")
    say("")
    for request in settle(requests):
        reading.dumped.add(request)
        reading.dumped.dumped.add(request.osd)
    if len(errors) == len(map.up):
        why = "; ".join(f"osd.{osd}: {error}" for osd, error in sorted(errors.items())[:1])
        raise Unreachable(f"no OSD answered ({len(map.up)} up, {len(map.down)} down){why and f'; {why}'}")
    reading.telling += 1
    gaps, unknown = [], []
    if errors:
        osd, error = min(errors.items())
        gaps.append(f"No answer from, and not counted: {osds_words(errors)}; osd.{osd}: {error}.")
    if map.down:
        unknown.append(f"Down, and not asked: {osds_words(map.down)}.")
    return map.tree, gaps, unknown


def image_names(
    cluster: LiveCluster, counts: Counts, pool_names: Mapping[int, str], names: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """``POOL/IMAGE`` by id, of the images with most requests; and what is unknown."""
    paths, end = dict(names), time.monotonic() + _ALL_IMAGES
    ids = [id for id, _ in counts.images.most_common(_MOST_IMAGES) if id in counts.pool_of_image]
    ids = [id for id in ids if id not in paths and counts.pool_of_image[id] in pool_names]
    errors: list[PlimsollError] = []

    def ask(id: str) -> str | PlimsollError:
        pool = pool_names[counts.pool_of_image[id]]
        try:
            return f"{pool}/{cluster.image(pool, id, end)}"
        except PlimsollError as error:
            return error

    for id, answer in side_by_side(ask, ids, _AT_ONCE):
        if isinstance(answer, PlimsollError):
            errors.append(answer)
        else:
            paths[id] = answer
    return paths, [f"{plural(len(errors), 'image')} without a name: {errors[0]}."] if errors else []


def _must_be_there(path: Path, option: str) -> None:
    """Raises ``UsageError``; ``UnreadableLog`` where that cannot be found out."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"{option}{path}: no such file") from error
    except OSError as error:
        raise UnreadableLog(f"{option}{path}: {error.strerror}") from error


def _refuse_twice(paths: Sequence[Path]) -> None:
    """A file that is given by two names would count twice."""
    first: dict[tuple[int, int], Path] = {}
    for path in paths:
        status = path.stat()
        same = first.setdefault((status.st_dev, status.st_ino), path)
        if same is not path:
            raise UsageError(f"{path} is {same}, and would count twice; give one of the two")


def _is_json(path: Path) -> bool:
    with opened(path) as stream:
        begin = stream.read(_BEGIN)
    if form_of(begin) != "lines":
        return False
    return begin.lstrip().startswith(b"{") or dumps.is_dump(begin)


def _is_within(request: SlowRequest, reading: LogReading) -> bool:
    end = request.time + request.age
    return (reading.since is None or end >= reading.since) and (
        reading.until is None or request.time <= reading.until
    )


def _text(path: Path, option: str) -> str:
    _must_be_there(path, f"{option}: ")
    with opened(path) as stream:
        return stream.read(LARGEST).decode("utf-8", "replace")
