"""Slow requests that OSDs remember or have now, as JSON, and the checks of ``ceph health detail`` as JSON.

``dump_historic_slow_ops`` says its threshold, and all in it are slow. ``dump_historic_ops`` and
``dump_ops_in_flight`` have any requests: those that took 10 s count, which is what ``dump_historic_slow_ops`` has by
default; so too of requests by themselves, as of ``jq`` or of an answer that was cut. What a person saves has warnings
of the program ``ceph`` before the JSON, OSDs one after the other, errors in place of an answer, and other commands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.files.packed import UnreadableLog
from plimsoll_insight.slow.blame import Blame
from plimsoll_insight.slow.events import (
    LOCKS,
    REPLICAS,
    UNKNOWN,
    Event,
    LogClock,
    SlowRequest,
    event,
    operation,
    speaks_of_slow,
    state_in,
)
from plimsoll_insight.slow.wrapped import osd_of_file

_DESCRIPTION = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_WAITING = re.compile(r"waiting for subops from ([\d,]+)")
_ANSWERED = re.compile(r"sub_op_(?:commit|applied)_rec(?: from (\d+))?")
_LONGEST = 1e9
_THRESHOLD = 10.0
"""Seconds: osd_op_history_slow_op_threshold by default."""
_UNSET = "0.000000"
"""The time of ``throttled`` where no messenger has set it."""
OWN_DISK = "waiting for its own disk"
_BEGINS = re.compile(r"\{\s*(?:[\"}]|\Z)|\[\s*(?:\{|\Z)")
"""Not ``[WRN]``, nor ``[write 0~4096]``."""
_MOST_TRIES = 1000
_LONGEST_GAP = 64 << 10
"""Bytes before an answer that was cut, in which its OSD is named."""
_OPERATIONS = ("Ops", "ops", "ops_in_flight", "complaints")
_OF_OPERATION = {"description", "initiated_at", "type_data"}
_DUMPED = re.compile(
    rb'"(?:ops|Ops|num to keep|size|num_ops|num_blocked_ops|complaint_time|checks|threshold to keep|stamp|'
    rb'initiated_at)"\s*:'
)
_BEGUN = re.compile(rb"(?m)^(?:osd\.\d{1,5}: ?)?(?:\{|\[\s*(?:\{|$))")
_LABEL = re.compile(r"\bosd\.(\d{1,5})\b")
_COMMAND = re.compile(
    r"\b(?:daemon|tell)\b.{0,200}?\b(?:osd\.(\d{1,5})\b|(?:mon|mds|mgr)\.\S{1,100}).{0,40}?\b(?:dump_\w{0,20}|)ops"
    r"|^\W{0,20}osd\.(\d{1,5})\b\W{0,20}$|^osd\.(\d{1,5}): ?"
)
"""A line that names the OSD whose answer follows: a command, a heading, or ``osd.3:`` of ``ceph tell osd.*``."""
_NO_OSD = -1
"""A command asks another daemon, of whose requests none is to an OSD."""
_OF_LOG = re.compile(r"^\d{4}-\d\d-\d\d")
_TELLS = re.compile(r"\d slow (?:ops|requests)\b|slow request \S| blocked > ")
"""Not a heading about slow requests."""
_ANSWER = re.compile(r"^(?:osd\.\d{1,5}: ?)?\{", re.MULTILINE)
"""Where that of an OSD begins; what is in it is not at the begin of a line."""
_NO_ANSWER = re.compile(
    r"^(?:.*: )?Error E[A-Z]+\b.*|^.*problem getting command descriptions.*"
    r"|^admin_socket: .*|^Can't get admin socket path.*"
    r"|^(?:ERROR: \(\d+\).*\n)?(?:osd\.\d{1,5}: )?op_tracker tracking is not enabled.*|^ERROR: \(\d+\).*",
    re.MULTILINE,
)
"""Of an OSD, as ``ceph tell`` and ``ceph daemon`` say, the last two (``OSD.cc``) in place of JSON."""


@frozen
class Dump:
    """What one JSON document tells: requests of the OSD, or what monitors say of all."""

    requests: Sequence[SlowRequest] = ()
    events: Sequence[Event | UnreadWords] = ()
    is_full: bool = False
    """The OSD may have forgotten some."""


@frozen
class UnreadWords:
    """Words that are not understood."""

    text: str


class Nobodys(Exception):
    """A document does not tell of which OSD it is."""


def is_dump(begin: bytes) -> bool:
    """Whether a file that begins so has such JSON, and perhaps other lines before it."""
    return bool(_BEGUN.search(begin) and _DUMPED.search(begin))


def parse(text: bytes, osd: int | None, where: str, clock: LogClock) -> list[Dump]:
    """All documents in a file. ``osd`` is whose they are, where no line before them says so. Raises
    ``UnreadableLog``, and ``Nobodys``.
    """
    dumps: list[Dump] = []
    others: list[Event | UnreadWords] = []
    for label, document in _documents(text.decode("utf-8", "replace"), clock):
        if isinstance(document, UnreadWords | Event):
            others.append(document)
        else:
            dumps += _dumps(document, osd if label is None else label, where, clock)
    if not dumps and not others:
        raise UnreadableLog(
            f"{where}: JSON without requests of an OSD (ceph daemon osd.N dump_historic_slow_ops), checks"
            " (ceph health detail) or a log's lines as message or log"
        )
    return [*dumps, Dump(events=others)] if others else dumps


def _documents(text: str, clock: LogClock) -> Iterator[tuple[int | None, Any]]:
    """With the OSD that is named last before it. What other lines say of slow requests, and words that say so where
    an OSD has not answered, or its answer was cut.
    """
    decoder, place, tries, gap = json.JSONDecoder(), 0, 0, 0
    label: int | None = None
    cut: set[int] = set()
    """OSDs of which that is said."""
    while (begin := _BEGINS.search(text, place)) is not None and tries < _MOST_TRIES:
        tries += 1
        try:
            document, place = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            document, place = None, begin.start() + 1
        if document is None:
            if begin[0][0] == "{" and _ANSWER.search(text, max(begin.start() - 12, 0), place):
                label = _Gap(text[max(gap, begin.start() - _LONGEST_GAP) : begin.start()]).owner(label)
                cut |= set() if label is None else {label}
                whose = f" of osd.{label}" if label not in (None, _NO_OSD) else ""
                yield None, UnreadWords(f"an answer{whose} that was cut")
            continue
        before = _Gap(text[gap : begin.start()])
        label = before.owner(label)
        yield from ((None, each) for each in before.words(cut | {label}, clock))
        gap, cut = place, set()
        if isinstance(document, dict | list) and document:
            yield label, document
            tries = 0
    if begin is not None:
        yield None, UnreadWords(f"JSON after {_MOST_TRIES} places where none is whole")
    yield from ((None, each) for each in _Gap(text[gap:]).words(cut, clock))


class _Gap:
    """Text before, between or after JSON."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.splitlines()
        commands = (_COMMAND.search(line[:1000]) for line in self._lines)
        self._osds = [int(next(filter(None, each.groups()), _NO_OSD)) for each in commands if each]

    def owner(self, before: int | None) -> int | None:
        """Whose the JSON after it is; ``before``: that of the JSON before it."""
        if self._osds:
            return self._osds[-1]
        lines = [line for line in self._lines if not _OF_LOG.search(line) and not _TELLS.search(line)]
        names = _LABEL.findall("\n".join(lines))
        return int(names[-1]) if names else before

    def words(self, owners: Collection[int | None], clock: LogClock) -> Iterator[Event | UnreadWords]:
        """What it says of slow requests, and who has not answered, but for ``owners``."""
        errors = [each[0].replace("\n", " ") for each in _NO_ANSWER.finditer(self._text)]
        silent = [osd for osd in dict.fromkeys(self._osds) if osd not in (*owners, _NO_OSD)]
        for osd, error in zip_longest(silent, errors):
            if error is None or osd is None or _LABEL.search(error):
                yield UnreadWords(error or f"no answer of osd.{osd}")
            else:
                yield UnreadWords(f"osd.{osd}: {error}")
        for line in self._lines:
            words = line[:10_000].encode()
            if speaks_of_slow(words) and _TELLS.search(line):
                yield event(words, None, clock) or UnreadWords(line)


def _dumps(document: Any, osd: int | None, where: str, clock: LogClock) -> Iterator[Dump]:
    if isinstance(document, list):
        entries = [each for each in document if isinstance(each, dict) and "stamp" in each and "message" in each]
        if entries:
            yield Dump(events=tuple(_log_events(entries, clock)))
            return
        for each in document:
            if isinstance(each, dict):
                yield from _dumps(each, _osd_of(each, osd), where, clock)
        return
    if (messages := _messages(document) or _messages(document.get("health"))) is not None:
        yield Dump(events=tuple(_health_event(each, clock) for each in messages))
    elif any(name in document for name in _OPERATIONS) or document.keys() >= _OF_OPERATION:
        if osd is None:
            raise Nobodys
        if osd == _NO_OSD:
            return
        whole = document if not document.keys() >= _OF_OPERATION else {"ops": [document], "num_ops": 1}
        text = json.dumps(whole).encode()
        slow = requests(text, osd, where, clock)
        yield Dump(slow, is_full=len(slow) >= _most(whole))
    else:
        for name, each in document.items():
            if isinstance(each, dict | list) and (number := osd_of_file(str(name))) is not None:
                yield from _dumps(each, number, where, clock)


def _log_events(entries: Sequence[Mapping[str, Any]], clock: LogClock) -> Iterator[Event | UnreadWords]:
    """Of ``ceph log last`` as JSON."""
    for each in entries:
        line = f"{each['stamp']} {each.get('name')} (x) 0 : cluster [WRN] {each['message']}"[:10_000]
        yield event(line.encode("utf-8", "replace"), None, clock) or UnreadWords(line)


def _osd_of(fields: Mapping[str, Any], osd: int | None) -> int | None:
    for name in ("osd", "daemon", "name", "id", "who"):
        value = fields.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and name in ("osd", "id"):
            return value
        if isinstance(value, str) and (match := _LABEL.search(value)):
            return int(match[1])
    return osd


def _messages(health: object) -> list[str] | None:
    """Of ``ceph health`` or that part of ``ceph status``, as ``ceph health detail`` has them as text: the summaries
    of all checks in a line, too. The dashboard has checks as a list. None of what is neither.
    """
    if not isinstance(health, dict):
        return None
    checks, sums, details = health.get("checks"), health.get("summary"), health.get("detail")
    if isinstance(checks, dict):
        checks = [*checks.values()]
    if isinstance(checks, list):
        each = [check for check in checks if isinstance(check, dict)]
        summaries = _words([check.get("summary") for check in each], "message")
        rest = [words for check in each for words in _words(check.get("detail") or (), "message")]
    elif isinstance(sums, list) and "overall_status" in health:  # until Jewel
        summaries, rest = _words(sums, "summary"), [words for words in details or () if isinstance(words, str)]
    else:
        return None
    return [f"HEALTH_WARN {'; '.join(summaries)}", *summaries, *rest]


def _words(parts: Sequence[object], name: str) -> list[str]:
    return [str(part.get(name)) for part in parts if isinstance(part, dict)]


def _health_event(message: str, clock: LogClock) -> Event | UnreadWords:
    words = message[:10_000]
    return event(words.encode("utf-8", "replace"), None, clock) or UnreadWords(words)


def requests(text: bytes, osd: int, where: str, clock: LogClock) -> list[SlowRequest]:
    """Those that are slow. Raises ``UnreadableLog``."""
    try:
        document = json.loads(text)
        operations = next(document[name] for name in _OPERATIONS if name in document)
        least = _least(document)
        return [each for each in (_request(one, osd, clock) for one in operations) if each.age >= least]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, StopIteration) as error:
        raise UnreadableLog(f"{where}: not the output of ceph daemon osd.N dump_historic_slow_ops") from error


def _least(document: Mapping[str, Any]) -> float:
    """Seconds that a request takes to be slow. What an OSD calls blocked, or slow, is that."""
    if "threshold to keep" in document or "complaint_time" in document or "num_blocked_ops" in document:
        return 0.0
    return (
        _THRESHOLD if any(name in document for name in ("size", "duration", "duration to keep", "num_ops")) else 0.0
    )


def is_full(text: bytes) -> bool:
    """Whether the OSD may have forgotten some: it remembers 20. Of text that ``requests`` has read."""
    document = json.loads(text)
    return bool(len(document.get("Ops", ())) >= _most(document))


def _most(document: Mapping[str, Any]) -> float:
    """As many as the OSD remembers: its last slow ones, or of ``dump_historic_ops`` its slowest ones."""
    most = document.get("num to keep", document.get("size"))
    return most if isinstance(most, int) and most > 0 else float("inf")


def _request(entry: Mapping[str, Any], osd: int, clock: LogClock) -> SlowRequest:
    """``age`` grows after the request has ended; ``duration`` is how long it took."""
    kind, inside = ("", entry["description"])
    if match := _DESCRIPTION.fullmatch(entry["description"]):
        kind, inside = match[1], match[2]
    of_type = entry["type_data"]
    # Until Jewel a list: the flag, the client, and the events.
    steps = of_type.get("events", ()) if isinstance(of_type, dict) else next(
        (each for each in reversed(of_type) if isinstance(each, list)), ()
    )  # fmt: skip
    events = [(clock.time(each["time"].encode()), str(each["event"])) for each in steps if each["time"] != _UNSET]
    begin, duration = clock.time(entry["initiated_at"].encode()), float(entry.get("duration", entry.get("age")))
    if not 0 <= duration < _LONGEST:
        raise ValueError("no duration")
    peers = tuple(_late(events, begin + duration))
    state = REPLICAS if peers else _slowest(events, begin + duration) or UNKNOWN
    one = operation(kind.encode(), inside.encode())
    # Here waits for replicas are those after the OSD's own commit.
    blame = Blame.REPLICA if state == REPLICAS else None
    return SlowRequest(begin, osd, state_in(one, state[:100]), duration, peers, one, tells_locks=True, blame=blame)


def _late(events: Sequence[tuple[float, str]], end: float) -> Iterator[int]:
    """The replicas that answered after the primary had committed, and made up most of the time; or did not answer.
    Before the primary has committed, who has not answered yet is not late.

    Where an answer does not name who gave it, the only replica is meant; of several, none is blamed.
    """
    wait = _wait(events)
    if not wait.peers:
        return
    is_alone = len(wait.peers) == 1
    own = (end if wait.committed is None else wait.committed) - wait.asked
    tells_who = is_alone or any(who is not None for who, _ in wait.answers)
    is_open = len(wait.answers) < len(wait.peers) and tells_who
    for peer in wait.peers:
        took = [time - wait.asked for who, time in wait.answers if who == peer or (who is None and is_alone)]
        if took:
            is_late = took[0] > max(2 * own, 1.0)
        else:
            is_late = is_open and wait.committed is not None and end - wait.committed > own
        if is_late:
            yield peer


@dataclass
class _Wait:
    """What a primary waited for."""

    peers: list[int] = field(default_factory=list)
    asked: float = 0.0
    answers: list[tuple[int | None, float]] = field(default_factory=list)
    committed: float | None = None
    """The primary itself."""


def _wait(events: Sequence[tuple[float, str]]) -> _Wait:
    wait = _Wait()
    for time, text in events:
        if waiting := _WAITING.search(text):
            wait.peers = [int(number) for number in waiting[1].split(",") if number]
            wait.asked = time
        elif answer := _ANSWERED.match(text):
            wait.answers.append((int(answer[1]) if answer[1] else None, time))
        elif text == "op_commit" and wait.committed is None:
            wait.committed = time
    return wait


def _slowest(events: Sequence[tuple[float, str]], end: float) -> str:
    """The event after which most time went by; ``throttled`` can be a wrapped number, so times are compared.

    A primary that has asked its replicas waits for them once its own disk has committed. Before, it is unknown for
    which of them where neither has answered to the end.
    """
    steps: list[tuple[float, str]] = []
    replicas = answers = 0
    is_committed = False
    commits, has_committed = (any(text == each for _, text in events) for each in ("op_commit", "sub_op_committed"))
    times = [*(time for time, _ in events[1:]), end]
    for (time, text), later in zip(events, times, strict=True):
        if waiting := _WAITING.search(text):
            replicas = len([number for number in waiting[1].split(",") if number])
        answers += bool(_ANSWERED.match(text))
        is_committed |= text == "op_commit"
        if replicas and text not in ("commit_sent", "done") and (answers < replicas or not is_committed):
            own = OWN_DISK if commits or answers >= replicas else UNKNOWN
            name = REPLICAS if is_committed else own
            steps.append((later - time, name))
        else:
            is_own = text == "sub_op_started" and has_committed  # its shard of an erasure-coded pool
            steps.append((later - time, LOCKS if "rw locks" in text else OWN_DISK if is_own else text))
    return max(steps, default=(0.0, ""))[1]
