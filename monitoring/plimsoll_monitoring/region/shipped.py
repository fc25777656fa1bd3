"""Entries of nodes' records in logs that a site has collected, and in the values of limits over time.

Lines are those of ``journalctl -o json`` and ``-o short-iso``, of syslog (RFC 3164 and 5424, or with ISO times), and
of containers: fields as JSON, alone, behind any prefix, or as docker's ``json-file`` has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from plimsoll_agent.messages.limits import listed, short_change
from plimsoll_agent.messages.record import time_words
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import plural, printable
from plimsoll_monitoring.region.answers import TimeSeries, label

_TAG = "plimsoll"
_ISO = r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d))"
_REST = r" (?P<node>\S+) (?P<tag>[^\s:\[]+)(?:\[\d+\])?: (?P<message>.*)"
_FORMS = [
    re.compile(rf"(?:<\d+>)?{_ISO}{_REST}", re.ASCII),
    re.compile(rf"(?:<\d+>)?(?P<at>[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d){_REST}", re.ASCII),
    re.compile(rf"<\d+>1 {_ISO} (?P<node>\S+) (?P<tag>\S+) \S+ \S+ (?:-|\[.*?\]) (?P<message>.*)", re.ASCII),
]
_ENTRY = re.compile(r"(?P<subject>this node|\S.*? \S+)  (?P<body>.+)   by (?P<by>\S.*)")
_LONGEST = 4096
"""Of a message: a pattern takes long for one without an end."""
_CONTAINER = '{"MESSAGE_ID"'
_LATE = timedelta(minutes=15)
"""How much later than a change metrics may have it: a pass, and a scrape."""
_DAY = timedelta(days=1)
_NAMED = 10
"""How many gaps are listed."""


class RowOrigin(StrEnum):
    """What a row was read from, and so what it proves."""

    FIELDS = "fields"
    """All that plimsoll logs of an entry."""
    TEXT = "text"
    """Its message alone: no volume, no project."""
    METRICS = "metrics"
    """Limits over time: not who changed them, nor why."""


@frozen(kw_only=True)
class ShippedRow:
    """An entry of a node's record, or a change of limits in metrics; None is unknown."""

    at: datetime | None
    """In metrics the first time with the new limits."""
    not_before: datetime | None = None
    """In metrics the last time with those before."""
    node: str | None
    guest: str | None = None
    guest_uuid: str | None = None
    project: str | None = None
    disk: str | None = None
    volume: str | None = None
    what: str | None = None
    """An action of an operator; None for a change."""
    change: str
    """In words."""
    before: Mapping[str, Any] | None = field(default=None, hash=False)
    after: Mapping[str, Any] | None = field(default=None, hash=False)
    reason: str | None = None
    cause: str | None = None
    why: str | None = None
    """In words, with the result."""
    result: str | None = None
    by: str | None = None
    record_id: int | None = None
    message: str = ""
    origin: RowOrigin


@frozen(kw_only=True)
class ShippedSelection:
    """What to show; an empty field selects everything."""

    volume: str | None = None
    server: str | None = None
    """Its UUID or libvirt name."""
    project: str | None = None
    nodes: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


@dataclass(slots=True)
class Logs:
    """Reads lines, one after the other. ``now`` gives syslog's times without a year theirs."""

    now: datetime
    rows: list[ShippedRow] = field(default_factory=list)
    spans: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    """The first and the last line of each node, of any program."""
    lines: int = 0
    """How many had one of the forms."""
    zoneless: int = 0
    """How many times had no zone, and were read as UTC."""

    def read(self, line: str) -> None:
        line = line.strip("\r\n")
        if line.startswith("{"):
            self._read_json(line)
        elif any((parts := form.fullmatch(line)) for form in _FORMS) and parts is not None:
            self.lines += 1
            at = self._time(parts["at"])
            self._see(parts["node"], at)
            if _CONTAINER in parts["message"]:
                self._container(parts["message"], at, parts["node"])
            elif parts["tag"] == _TAG:
                self._text(parts["message"], at, parts["node"])
        elif _CONTAINER in line:
            self.lines += 1
            self._container(line, None, None)

    def _read_json(self, line: str) -> None:
        fields = _object(line)
        if fields is None:
            return
        self.lines += 1
        if isinstance(fields.get("log"), str):  # docker's json-file
            self._container(fields["log"], _iso(str(fields.get("time", ""))), None)
            return
        at, node = _micros(fields.get("__REALTIME_TIMESTAMP")), _text_of(fields, "_HOSTNAME")
        if node is not None and at is not None:
            self._see(node, at)
        message = _text_of(fields, "MESSAGE") or ""
        if _CONTAINER in message:  # docker's or podman's journald driver
            self._container(message, at, node)
        elif any(name.startswith("PLIMSOLL_") for name in fields):
            self._add(_row_of(fields, at, node))

    def _container(self, text: str, at: datetime | None, node: str | None) -> None:
        fields = _object(text[max(text.find(_CONTAINER), 0) :])
        if fields is not None and "MESSAGE" in fields:
            self._add(_row_of(fields, at, node))

    def _text(self, message: str, at: datetime | None, node: str) -> None:
        message = printable(message)
        parts = _parts(message)
        if parts is None:
            return
        guest, _, disk = parts["subject"].rpartition(" ")
        here = parts["subject"] == "this node"
        change, why, is_change = _words(message)
        self._add(
            ShippedRow(
                at=at,
                node=node,
                guest=None if here else guest,
                disk=None if here else disk,
                what=None if is_change else change.partition(":")[0].replace(" ", "-"),
                change=change.partition(":")[0] if not is_change else change,
                why=why,
                by=parts["by"],
                message=message,
                origin=RowOrigin.TEXT,
            )
        )

    def _add(self, row: ShippedRow | None) -> None:
        if row is not None:
            self.rows.append(row)

    def _see(self, node: str, at: datetime | None) -> None:
        if at is not None:
            first, last = self.spans.get(node, (at, at))
            self.spans[node] = min(first, at), max(last, at)

    def _time(self, text: str) -> datetime | None:
        if text[0].isdigit():
            return _iso(text)
        self.zoneless += 1
        for year in (self.now.year, self.now.year - 1):
            try:
                at = datetime.strptime(f"{year} {text}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
            except ValueError:  # the 29th of February
                continue
            if at <= self.now + _DAY:
                return at
        return None


def _row_of(fields: Mapping[str, Any], at: datetime | None, node: str | None) -> ShippedRow | None:
    """None for what plimsoll did not log."""
    message = _text_of(fields, "MESSAGE") or ""
    if _text_of(fields, "PLIMSOLL_WHO") is None:
        return None
    change, why, is_change = _words(message)
    what = _text_of(fields, "PLIMSOLL_WHAT")
    number = _text_of(fields, "PLIMSOLL_RECORD_ID") or ""
    return ShippedRow(
        at=at,
        node=node,
        guest=_text_of(fields, "PLIMSOLL_GUEST"),
        guest_uuid=_text_of(fields, "PLIMSOLL_GUEST_UUID"),
        project=_text_of(fields, "PLIMSOLL_PROJECT"),
        disk=_text_of(fields, "PLIMSOLL_DISK"),
        volume=_text_of(fields, "PLIMSOLL_VOLUME"),
        what=what,
        change=change if is_change else (what or "").replace("-", " "),
        before=_object(_text_of(fields, "PLIMSOLL_BEFORE") or ""),
        after=_object(_text_of(fields, "PLIMSOLL_AFTER") or ""),
        reason=_text_of(fields, "PLIMSOLL_REASON"),
        cause=_text_of(fields, "PLIMSOLL_CAUSE"),
        why=why or _text_of(fields, "PLIMSOLL_WHY"),
        result=_text_of(fields, "PLIMSOLL_RESULT"),
        by=_text_of(fields, "PLIMSOLL_WHO"),
        record_id=int(number) if number.isdecimal() else None,
        message=message,
        origin=RowOrigin.FIELDS,
    )


def _words(message: str) -> tuple[str, str | None, bool]:
    """What a message says happened, why, and whether it is a change, as ``messages.record.entry_words`` writes it."""
    parts = _parts(message)
    if parts is None:
        return message, None, False
    limits, gap, how = parts["body"].partition("   ")
    if gap and " → " in limits:
        return limits, how, True
    what, _, why = parts["body"].partition(": ")
    return what, why or None, False


def _parts(message: str) -> re.Match[str] | None:
    return _ENTRY.fullmatch(message) if len(message) <= _LONGEST else None


def _text_of(fields: Mapping[str, Any], name: str) -> str | None:
    """Journald gives what is no UTF-8 as a list of bytes, and a field that came twice as a list."""
    value = fields.get(name)
    if isinstance(value, list) and all(isinstance(one, int) and 0 <= one < 256 for one in value):
        value = bytes(value).decode("utf-8", "replace")
    return printable(value) if isinstance(value, str) else None


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _iso(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(re.sub(r"([.]\d{6})\d+", r"\1", text.replace(",", ".")))
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _micros(value: object) -> datetime | None:
    try:
        return datetime.fromtimestamp(int(str(value)) / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return None


# --- limits over time


def changes_of(
    infos: Iterable[TimeSeries], limits: Iterable[TimeSeries], flags: Iterable[TimeSeries]
) -> list[ShippedRow]:
    """Changes of limits of the disks in ``infos`` (``plimsoll_disk_info``), between two values of the same node.

    By ``flags`` (``plimsoll_disk_unlimited``) a disk is unlimited: one with neither them nor a limit is unknown.
    """
    values: dict[tuple[str, ...], dict[float, dict[str, int]]] = {}
    for line in flags:
        values.setdefault(_disk_of(line), {}).update({at: {} for at, flag in line.values.items() if flag == 1})
    for line in limits:
        for at, value in line.values.items():
            parameters = values.setdefault(_disk_of(line), {}).setdefault(at, {})
            parameters[label(line, "parameter")] = int(value)
    rows = []
    for info in infos:
        by_time, before, earlier = values.get(_disk_of(info), {}), None, None
        for at in sorted(info.values.keys() & by_time.keys()):
            after = by_time[at]
            if before is not None and after != before:
                rows.append(_metrics_row(info, before, after, earlier, at))
            before, earlier = after, at
    return rows


def _disk_of(line: TimeSeries) -> tuple[str, ...]:
    return tuple(label(line, name) for name in ("region", "instance", "uuid", "target_device"))


def _metrics_row(
    info: TimeSeries, before: Mapping[str, int], after: Mapping[str, int], earlier: float | None, at: float
) -> ShippedRow:
    try:
        change = short_change(*(Limits(**numbers) for numbers in (dict[str, Any](before), dict[str, Any](after))))
    except (TypeError, ValueError):  # a parameter of another version
        change = f"{listed(before) or 'unlimited'} → {listed(after) or 'unlimited'}"
    return ShippedRow(
        at=datetime.fromtimestamp(at, UTC),
        not_before=None if earlier is None else datetime.fromtimestamp(earlier, UTC),
        node=label(info, "instance"),
        guest=label(info, "domain"),
        guest_uuid=label(info, "uuid"),
        project=label(info, "project") or None,
        disk=label(info, "target_device"),
        volume=label(info, "volume") or None,
        change=change,
        before=before,
        after=after,
        origin=RowOrigin.METRICS,
    )


# --- which rows


def once(rows: Iterable[ShippedRow]) -> list[ShippedRow]:
    """Each entry once, sorted by time, those without a time first; of several sources the one that proves most."""
    entries: dict[tuple[object, ...], ShippedRow] = {}
    fields: set[tuple[object, ...]] = set()
    rows = list(rows)
    for row in (row for row in rows if row.origin is RowOrigin.FIELDS):
        entries.setdefault((row.node, row.at, row.record_id, row.message), row)
        fields.add(_second(row))
    for row in (row for row in rows if row.origin is RowOrigin.TEXT and _second(row) not in fields):
        entries.setdefault(_second(row), row)
    for row in (row for row in rows if row.origin is RowOrigin.METRICS):
        if not any(_same(row, entry) for entry in entries.values()):
            entries.setdefault((row.node, row.at, row.guest_uuid, row.disk), row)
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(entries.values(), key=lambda row: row.at or oldest)


def _second(row: ShippedRow) -> tuple[object, ...]:
    """As a log by text has it; a node's name with or without its domain."""
    at = None if row.at is None else row.at.replace(microsecond=0)
    return (row.node or "").partition(".")[0], at, row.message


def _same(row: ShippedRow, entry: ShippedRow) -> bool:
    """Whether an entry of a log is the change that metrics have."""
    if entry.at is None or row.at is None or row.not_before is None or entry.what is not None:
        return False
    if (entry.guest, entry.disk) != (row.guest, row.disk) or not row.not_before - _LATE <= entry.at <= row.at:
        return False
    return entry.after == row.after if entry.after is not None else entry.change == row.change


def selected(rows: Iterable[ShippedRow], selection: ShippedSelection) -> tuple[list[ShippedRow], int]:
    """The rows of the selection, and how many may belong to it: they do not say so."""
    sure, unsure = [], 0
    for row in rows:
        answers = _answers(row, selection)
        if False in answers:
            continue
        if None in answers:
            unsure += 1
        else:
            sure.append(row)
    return sure, unsure


def _answers(row: ShippedRow, selection: ShippedSelection) -> Sequence[bool | None]:
    """By what the selection has; None where the row does not have it."""
    node_wide = row.guest is None
    pairs = ((selection.volume, row.volume), (selection.project, row.project))
    has_all = row.origin is not RowOrigin.TEXT
    answers: list[bool | None] = [
        (choice == value if value is not None or has_all else None) for choice, value in pairs if choice is not None
    ]
    if selection.server is not None:
        names = (row.guest, row.guest_uuid)
        unknown = row.guest_uuid is None and row.guest is not None and _is_uuid(selection.server)
        answers.append(None if unknown else selection.server in names)
    if selection.nodes:
        short = None if row.node is None else row.node.partition(":")[0]
        answers.append(None if short is None else any(_is_node(short, node) for node in selection.nodes))
    if selection.since is not None or selection.until is not None:
        answers.append(_is_within(row.at, selection))
    return [False] if node_wide and (selection.volume or selection.server or selection.project) else answers


def _is_within(at: datetime | None, selection: ShippedSelection) -> bool | None:
    if at is None:
        return None
    return (selection.since is None or at >= selection.since) and (selection.until is None or at < selection.until)


def _is_node(name: str, node: str) -> bool:
    node = node.partition(":")[0]
    return name == node or name.startswith(f"{node}.") or node.startswith(f"{name}.")


def _is_uuid(text: str) -> bool:
    return len(text) == 36 and text.count("-") == 4


def gaps(
    spans: Mapping[str, tuple[datetime, datetime]], nodes: Iterable[str], selection: ShippedSelection, now: datetime
) -> list[str]:
    """Of which nodes no log has lines, or none of a part of the time that was asked for.

    ``nodes`` are those that are known from elsewhere.
    """
    sentences = []
    for node in sorted({*(short for name in nodes if (short := name.partition(":")[0])), *spans, *selection.nodes}):
        if selection.nodes and not any(_is_node(node, one) for one in selection.nodes):
            continue
        if node not in spans:
            if not any(_is_node(name, node) for name in spans):
                sentences.append(f"no log has lines of {printable(node)}")
            continue
        first, last = spans[node]
        if selection.since is not None and first > selection.since:
            sentences.append(f"no log has lines of {printable(node)} before {time_words(first)} UTC")
        if last < (selection.until or now) - _LATE:
            sentences.append(f"no log has lines of {printable(node)} after {time_words(last)} UTC")
    more = len(sentences) - _NAMED
    return sentences if more <= 0 else [*sentences[:_NAMED], f"and {plural(more, 'more such gap')}"]
