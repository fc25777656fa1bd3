"""What is around a line of Ceph: of journald, syslog, containers and Kubernetes, and of a daemon that crashes.

Ceph's own text begins with its time, or, as journald's native format and ``-o cat`` have it, with the words of an
OSD. What is before tells the time where Ceph's text does not, and whose log it is: the daemon in a unit's, a
container's or a pod's name. A host may be named ``osd-3``, so a host's name tells nothing: ``osd-3: `` at the begin
of a line, as pdsh has it, is one's, and ``osd01`` is no OSD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from plimsoll_agent.util.frozen import frozen

_STAMP = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_DATED = re.compile(
    rb"(?:^|(?<=[\s|:\"',;\xbf-]))"
    + _STAMP
    + rb" (?:[0-9a-f]{5,16} +-?\d{1,2} |(?:osd|mon|mgr|mds|client)\.\S{1,200} "
    rb"(?:\(|\[(?:INF|WRN|ERR|DBG|SEC)|- |(?:\w{3,6}\.\S{1,200} )?[\w.:,\[\]]{3,120}/\d))"
)
"""Ceph's text with its time: ``TIME THREAD LEVEL``, or ``TIME DAEMON``; after ``FILE:``, too, as grep prints it."""
_UNDATED = re.compile(
    rb"\(mds\.\d{1,5}\): \d|log_channel\(\w+\) log |"
    rb"\bosd\.\d{1,6} \d{1,9} (?!: )|\bbluestore\(|\bbdev\(|\bmon\.\S{1,100}@\d|\b\d{1,9} slow requests |"
    rb"\bslow requests? (?!\d)|\bget_health_metrics reporting "
)
"""Ceph's words without a time."""
_IDENT = re.compile(rb"(\S{1,255}?)(\[\d{1,9}\])?: (?:debug |cluster |audit )?(?: *-?\d{1,5}> )?$")
_GREP = re.compile(rb"^(\S{1,255}?)[:-](?:\d{1,9}[:-])?(?:debug |cluster |audit )?$")
"""``FILE:`` or ``FILE:LINE:`` of grep, ``FILE-`` of its context."""
_COLOUR = re.compile(rb"\x1b\[[\d;]{0,20}[A-Za-z]")
_EPOCH_FRACTION = re.compile(
    rb"\.(?:(?<=[\s:]\d{10}\.)|(?<=^\d{10}\.))\d{1,9}(?= (?:osd|mon|mgr|mds|client)\.\S{1,200} \()"
)
"""In the cluster's log: what follows the ten digits of seconds since the epoch, as Ceph wrote them before its pull
request 51892, of Reef. Each line is searched: one that begins with a dot is searched 13 times as fast as with digits.
"""
_CLOG = re.compile(rb"(?:^|\s)osd\.(\d{1,5}) \S{1,200} \d{1,19} : $")
"""``NAME ADDRESS NUMBER : `` before what a daemon says in the cluster's log, as syslog has it (clog_to_syslog)."""
_NUMBER = r"(0|[1-9]\d{0,4})(?!\d)"
_POD_DIRECTORY = re.compile(r"ceph-(?:osd-\d{1,5}|mds-\S{1,200})-[0-9a-z]{5,10}-[0-9a-z]{5}(?:_|$)")
_POD = re.compile(rb"\bceph-osd-" + _NUMBER.encode() + rb"-")
OF_MDS = re.compile(rb"\bceph-mds|\bmds[.@-]|-mds[.@-]")
_POD_OF_MDS = re.compile(rb"-mds-\S{1,200}-[0-9a-z]{5}(?![\w.:-])")
_OSD_IN = re.compile(
    rb"osd[.@_-](?!\d{4}[-._]?\d\d[-._]?\d\d(?!\d))(?!\d\d[-._]\d\d[-._]\d\d)"
    + _NUMBER.encode()
    + rb"(?![0-9A-Za-z])",  # the id of a container: rook-ceph_osd-1a2b…
    re.IGNORECASE,
)
_OF_ANOTHER = re.compile(
    r"\bceph-(?:mon|mgr|mds|client\.\w+)[.@]|^(?:ceph-(?:mon|mgr|mds|rgw)-|(?:mon|mgr|mds)\.)(?!.*ceph-osd[.@])|"
    r"\bceph-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}[@-](?!osd[.-])"
)
"""In the name of a unit, a container or a file of another daemon, on a host that may be named ``osd-3``."""
_MONITOR = re.compile(rb"(?:^|[.@-])mon(?:[.@-]|$)")
"""In the name of a process. Of the cluster's log it has the words, and in a field of journald whose they are."""
_OF_AN_OSD = re.compile(rb"slow request |\d{1,9} slow requests \(")
REPEATED = re.compile(rb"(?:^|(?<= )) *-?\d{1,5}> ")
"""Before a line that an OSD that crashes prints again: the last 10,000 ones."""
_ISO = re.compile(
    rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? ?(Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d\b|[A-Z]{2,5}\b)?"
)
_SYSLOG = re.compile(
    rb"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) ([ \d]\d) (\d\d):(\d\d):(\d\d)(\.\d{1,9})?"
)
_KIBANA = re.compile(rb"\b([A-Z][a-z]{2}) (\d\d?), (\d{4}) @ (\d\d:\d\d:\d\d(?:\.\d{1,6})?)")
"""``Mar 27, 2024 @ 18:29:18.120``, in the time of the browser."""
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_UNIX = re.compile(rb"(?:^|(?<=[ \[]))(\d{10}\.\d{1,9})\b")
_PARTIAL = re.compile(rb"^" + _STAMP + rb" (?:stdout|stderr) P ")
_WHOLE = re.compile(rb"^" + _STAMP + rb" (?:stdout|stderr) F ")
_EXPORTED = re.compile(rb"__(?:CURSOR|REALTIME_TIMESTAMP)=")
_VERBOSE = re.compile(rb"\w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\n]{0,60}\[s=[0-9a-f]")
_FIELD = re.compile(rb"    ([A-Z0-9_]{1,64})=(.*)", re.DOTALL)
_MOST = 1 << 16
"""Bytes of one message."""
_BY_NAME = (
    "_SYSTEMD_UNIT", "UNIT", "CONTAINER_NAME", "container_name", "SYSLOG_IDENTIFIER", "ident", "unit", "pod",
    "podName",
)  # fmt: skip
_TIMES = ("__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "time", "@timestamp", "timestamp", "ts")
_SECOND = {13: 1e3, 16: 1e6, 19: 1e9}
"""By the number of digits."""
_LABELS = ("labels", "fields")
"""What Loki's ``logcli`` and Grafana have of a stream: its unit or pod."""
_ARRAY = re.compile(rb'\[\s*(?=\{)|\{.{0,2000}?"hits"\s*:\s*\[\s*(?=\{)', re.DOTALL)
"""Of entries, as Grafana and ``jq -s`` write them in one line; of Elasticsearch what a search answers."""
_BETWEEN = tuple(", \t\r\n")
_MESSAGES = ("MESSAGE", "log", "message", "msg", "line", "body", "short_message", "_msg")


@frozen
class WrappedEntry:
    """``text`` is Ceph's. ``time`` is that of what is around it, where Ceph's text has none; in seconds."""

    text: bytes
    is_dated: bool
    """Ceph's text has its time."""
    head: bytes
    osd: int | None
    """By the name of a unit, a container or a pod."""
    who: bytes
    """The process, ``NAME[PID]``, or thread that said it."""
    is_repeated: bool
    is_retold: bool
    """A monitor has it from an OSD that the line does not name."""
    is_of_mds: bool | None
    """By the name of a process or a pod; None where that does not tell. A host may be named so, and a file by it."""


_STAMPED = re.compile(_STAMP + rb" ")
_AROUND = re.compile(
    rb"(?:.{0,160}?(?:" + _ISO.pattern + rb"|" + _SYSLOG.pattern + rb")|\[? *\d{10}\.\d{1,9}\b)"
    rb"(?:(?: \S{1,255}){0,3}? \S{1,255}\[\d{1,9}\]: )?"
)
"""A time, and the process: the cluster's log has neither a time nor a level in a monitor's journal and in syslog."""
_OWN_TIME = re.compile(rb"slow request|stuck request|slow op| blocked > |received at")
"""The time that follows is within Ceph's words: when a request was received."""
_THREAD = re.compile(_STAMP.replace(rb"(?:\.", rb"(?:[.,]") + rb" ([0-9a-f]{5,16}) ")


def uncoloured(text: bytes) -> bytes:
    """Without what a terminal takes for colours, as ``grep --color=always`` and logs of containers have them."""
    return _COLOUR.sub(b"", text) if b"\x1b" in text else text


def unwrap(line: bytes) -> WrappedEntry:
    """A line of any form."""
    begin = line[:600]
    if fraction := _EPOCH_FRACTION.search(begin):
        first, end = fraction.start() - 10, fraction.end()
        time = datetime.fromtimestamp(float(line[first:end]), UTC).isoformat(timespec="microseconds").encode()
        line = line[:first] + time + line[end:]
        begin = line[:600]
    stamp = _DATED.search(begin)
    is_dated = stamp is not None
    if stamp is None:
        stamp = _UNDATED.search(begin)
        is_dated = stamp is None and _STAMPED.match(line) is not None
    around = None if stamp or is_dated else _AROUND.match(begin)
    if around and _OWN_TIME.search(begin, 0, around.end()):
        around = None
    start = stamp.start() if stamp else around.end() if around else 0
    head = line[:start]
    text = line[start:]
    ident = _IDENT.search(head)
    if ident and not ident[2] and not head[: ident.start()].strip():
        ident = None  # a host's name
    file, pod = (None, None) if ident else (_GREP.search(head), _POD.search(head))
    osd = _osd_of(ident[1]) if ident else int(pod[1]) if pod else None
    if clog := _CLOG.search(head):
        osd = int(clog[1])
    if file and osd is None:
        osd = osd_of_file(file[1].rpartition(b"/")[2].decode("utf-8", "replace"))
    thread = _THREAD.match(text) if is_dated and not (ident and ident[2]) else None
    who = ident[1] + ident[2] if ident and ident[2] else (file[1] if file else b"") + (thread[1] if thread else b"")
    is_retold = bool(ident and osd is None and _MONITOR.search(ident[1]) and _OF_AN_OSD.match(text))
    is_of_mds = bool(OF_MDS.search(ident[1]) if ident else _POD_OF_MDS.search(head))
    tells = is_of_mds or bool(ident and b"osd" in ident[1])
    is_repeated = bool(head and REPEATED.search(head))
    return WrappedEntry(text, is_dated, head, osd, who, is_repeated, is_retold, is_of_mds if tells else None)


def _osd_of(name: bytes) -> int | None:
    numbers = _OSD_IN.findall(name)
    return int(numbers[-1]) if numbers and not _OF_ANOTHER.search(name.decode("utf-8", "replace")) else None


def name_of(path: Path) -> str:
    """What tells whose a file is: its name and, last, that of the pod whose directory it is in."""
    pods = [part for part in path.absolute().parts[:-1] if _POD_DIRECTORY.search(part)]
    return " ".join([path.name, *pods[-1:]])


def osd_of_file(name: str) -> int | None:
    """``ceph-osd.5.log``; not the year of ``osd-2024-08-20.log``, and not the host of ``ceph-mds.osd-3.log``."""
    match = re.search(
        r"osd[.@_-]?(?!\d{4}[-._]?\d\d[-._]?\d\d(?!\d))(?!\d\d[-._]\d\d[-._]\d\d)" + _NUMBER, name, re.IGNORECASE
    )
    return int(match[1]) if match and not _OF_ANOTHER.search(name) else None


def time_around(head: bytes, zone: Any, until: float | None) -> tuple[float, bool]:
    """Seconds of the time in ``head``, and whether it has no zone. A time without a year is the last such one before
    ``until``. Raises ``ValueError``.
    """
    iso = _ISO.search(head)
    if iso:
        part = f"{iso[1].decode()}T{iso[2].decode()}"
        fraction = float(b"0." + iso[3]) if iso[3] else 0.0
        word = iso[4] or b""
        if word in (b"Z", b"UTC", b"GMT"):
            return datetime.fromisoformat(part).replace(tzinfo=UTC).timestamp() + fraction, False
        if word[:1] in (b"+", b"-"):
            return datetime.fromisoformat(part + word.decode()).timestamp() + fraction, False
        return datetime.fromisoformat(part).replace(tzinfo=zone).timestamp() + fraction, True
    syslog = _SYSLOG.search(head)
    if syslog and until is not None:
        month, day = _MONTHS.index(syslog[1]) + 1, int(syslog[2])
        last = datetime.fromtimestamp(until, zone) + timedelta(days=1)
        for year in range(last.year, last.year - 9, -1):
            try:
                time = datetime(year, month, day, int(syslog[3]), int(syslog[4]), int(syslog[5]), tzinfo=zone)
            except ValueError:
                continue  # the 29th of February
            if time <= last:
                return time.timestamp() + float(syslog[6] or 0), True
    kibana = _KIBANA.search(head)
    if kibana and kibana[1] in _MONTHS:
        date = f"{kibana[3].decode()}-{_MONTHS.index(kibana[1]) + 1:02}-{int(kibana[2]):02}"
        return datetime.fromisoformat(f"{date}T{kibana[4].decode()}").replace(tzinfo=zone).timestamp(), True
    unix = _UNIX.search(head)
    if unix:
        return float(unix[1]), False
    raise ValueError("no time")


# --- forms of several lines, and JSON


def form_of(begin: bytes) -> str:
    """Of a file that begins so: ``export``, ``verbose``, ``pretty``, ``json``, ``array``, ``cri`` or ``lines``."""
    text = begin.lstrip(b"\x1e \n\r\t\xef\xbb\xbf")
    if _EXPORTED.match(text):
        return "export"
    if any(_VERBOSE.match(line) for line in text.split(b"\n", 4)[:4]):
        return "verbose"
    first = text.partition(b"\n")[0].strip()
    if first in (b"{", b"[") and any(b'"%s"' % name.encode() in text[:8000] for name in ("MESSAGE", "__CURSOR")):
        return "pretty"
    if _of_json(first.removeprefix(b"data:").strip()) is not None:
        return "json"
    if (array := _ARRAY.match(text)) and isinstance(next(_entries(text[array.end() :]), None), dict):
        return "array"
    return "cri" if _PARTIAL.search(begin) or re.search(rb"(?m)" + _PARTIAL.pattern, begin) else "lines"


def plain(lines: Iterable[bytes], form: str) -> Iterator[bytes]:
    """The entries of a journal or a container as lines ``TIME - NAME[PID]: MESSAGE``."""
    if form == "cri":
        yield from _join(lines)
    elif form == "array":
        text = b"".join(lines)
        array = _ARRAY.search(text)
        for entry in _entries(text[array.end() :]) if array else ():
            yield from (entry,) if isinstance(entry, bytes) else _entry(entry)
    elif form == "json":
        for line in lines:
            fields = _of_json(line.strip(b"\x1e \r\n").removeprefix(b"data:").strip())
            if fields is not None:
                yield from _entry(fields)
            elif line.strip():
                yield line
    elif form == "pretty":
        yield from _pretty(lines)
    else:
        yield from _fields(lines, form)


def _join(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Parts of lines that are too long for a container's log (CRI's ``P``) as one."""
    parts: list[bytes] = []
    for line in lines:
        if _PARTIAL.match(line):
            line = line.rstrip(b"\r\n")
            parts.append(line if not parts else _PARTIAL.sub(b"", line, count=1))
            if sum(map(len, parts)) > _MOST:
                parts = parts[:1]
            continue
        whole = _WHOLE.sub(b"", line, count=1) if parts else line
        yield b"".join([*parts, whole])
        parts = []
    if parts:
        yield b"".join(parts)


def _of_json(line: bytes) -> Mapping[str, Any] | None:
    if not line.startswith(b"{") or not line.endswith((b"}", b"},")):
        return None
    try:
        fields = json.loads(line.rstrip(b","))
    except (ValueError, RecursionError):
        return None
    return _with_message(fields)


def _with_message(fields: object) -> Mapping[str, Any] | None:
    if not isinstance(fields, dict):
        return None
    fields = fields["_source"] if isinstance(fields.get("_source"), dict) else fields  # of Elasticsearch
    return fields if any(not isinstance(fields.get(name, {}), dict) for name in _MESSAGES) else None


def _entries(text: bytes) -> Iterator[Mapping[str, Any] | bytes]:
    """Those of an array with messages, and the rest where one is cut; none of ``ceph log last``, with ``stamp``."""
    decoder, words, place = json.JSONDecoder(), text.decode("utf-8", "replace"), 0
    while words.startswith("{", place):
        try:
            document, place = decoder.raw_decode(words, place)
        except (ValueError, RecursionError):
            yield words[place:].replace("\n", " ").encode()
            return
        fields = _with_message(document)
        if fields is not None and "stamp" in fields:
            return
        if fields is not None:
            yield fields
        while words[place : place + 1] in _BETWEEN:
            place += 1


def _file_of(fields: Mapping[str, Any]) -> str:
    """Its name, without folders: these may be named by a host."""
    log = fields.get("log")
    file = log.get("file") if isinstance(log, dict) else fields.get("file")
    path = file.get("path") if isinstance(file, dict) else file
    return path.rpartition("/")[2] if isinstance(path, str) else ""


def _pretty(lines: Iterable[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    for line in lines:
        if line.startswith(b"{"):
            parts = []
        parts.append(line)
        if line.startswith(b"}"):
            fields = _of_json(b"".join(parts).strip())
            if fields is not None:
                yield from _entry(fields)
            parts = []
        elif sum(map(len, parts[-2:])) > _MOST or len(parts) > 1000:
            parts = []


def _fields(lines: Iterable[bytes], form: str) -> Iterator[bytes]:
    """Of ``journalctl -o export`` and ``-o verbose``. A message of several lines is cut to its first one."""
    fields: dict[str, Any] = {}
    for line in lines:
        line = line.rstrip(b"\r\n")
        if form == "verbose":
            if _VERBOSE.match(line):
                yield from _entry(fields)
                fields = {"head": line}
            elif (field := _FIELD.fullmatch(line)) is not None:
                fields.setdefault(field[1].decode(), field[2][:_MOST].decode("utf-8", "replace"))
        elif not line:
            yield from _entry(fields)
            fields = {}
        else:
            name, equals, value = line.partition(b"=")
            if equals and len(name) <= 64:
                fields.setdefault(name.decode("utf-8", "replace"), value[:_MOST].decode("utf-8", "replace"))
    yield from _entry(fields)


def _entry(fields: Mapping[str, Any]) -> Iterator[bytes]:
    # Of Filebeat's, ``log`` is the file that the entry is of.
    messages = (fields.get(name) for name in _MESSAGES)
    message = next((each for each in messages if each and not isinstance(each, dict)), None)
    if isinstance(message, list):  # as journald writes what is no UTF-8
        try:
            message = bytes(message).decode("utf-8", "replace")
        except (ValueError, TypeError):
            return
    if not isinstance(message, str):
        return
    text = message.strip("\n")[:_MOST].replace("\n", " ").encode("utf-8", "replace")
    time = _time(fields)
    speaker = fields.get("CEPH_NAME")
    if isinstance(speaker, str) and fields.get("CEPH_CHANNEL") and re.fullmatch(r"\w{1,20}\.[\w.-]{1,200}", speaker):
        # Of the cluster's log: a monitor wrote it, and whose words they are has a field.
        name = speaker.encode()
        yield b"%s %s (%s) 0 : %s [WRN] %s\n" % (time, name, name, str(fields["CEPH_CHANNEL"])[:20].encode(), text)
        return
    names = [str(fields[name]) for name in _BY_NAME if isinstance(fields.get(name), str)]
    of_stream = (fields[each] for each in _LABELS if isinstance(fields.get(each), dict))
    names += [str(labels[name]) for labels in of_stream for name in _BY_NAME if name in labels]
    if file := _file_of(fields):
        names.append(file)
    kubernetes = fields.get("kubernetes")
    if isinstance(kubernetes, dict):
        pod = kubernetes.get("pod")
        names.insert(0, str(kubernetes.get("pod_name", pod.get("name", "") if isinstance(pod, dict) else "")))
    who = next((name for name in names if _osd_of(name.encode()) is not None), names[0] if names else "-")
    pid = str(fields.get("_PID", fields.get("SYSLOG_PID", "")))
    head = re.sub(r"\s", "_", who[:200]) + (f"[{pid}]" if pid.isdigit() else "")
    yield b"%s - %s: %s\n" % (time, head.encode("utf-8", "replace"), text)


def _time(fields: Mapping[str, Any]) -> bytes:
    """As ISO 8601; of ``-o verbose`` the line above the entry."""
    if "head" in fields:
        return bytes(fields["head"]).partition(b"[")[0].strip()
    for name in _TIMES:
        value = str(fields.get(name, ""))
        if value.isdigit() and len(value) in _SECOND:
            return datetime.fromtimestamp(int(value) / _SECOND[len(value)], UTC).isoformat().encode()
        if _ISO.match(value.encode("utf-8", "replace")):
            return value[:40].encode("ascii", "replace")
    return b"-"
