"""Slow requests that an OSD remembers: ``dump_historic_slow_ops`` as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plimsoll_insight.files.packed import UnreadableLog
from plimsoll_insight.slow.events import LOCKS, REPLICAS, UNKNOWN, Clock, SlowRequest, operation

_DESCRIPTION = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_WAITING = re.compile(r"waiting for subops from ([\d,]+)")
_ANSWERED = re.compile(r"sub_op_(?:commit|applied)_rec(?: from (\d+))?")
_LONGEST = 1e9


def requests(text: bytes, osd: int, where: str, clock: Clock) -> list[SlowRequest]:
    """Raises ``UnreadableLog``."""
    try:
        told = json.loads(text)
        operations = told["Ops"] if "Ops" in told else told["ops"]
        return [_request(each, osd, clock) for each in operations]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise UnreadableLog(f"{where}: not the output of ceph daemon osd.N dump_historic_slow_ops") from error


def is_full(text: bytes) -> bool:
    """Whether the OSD may have forgotten some: it remembers 20. Of text that ``requests`` has read."""
    told = json.loads(text)
    return bool(len(told.get("Ops", ())) >= told.get("num to keep", float("inf")))


def _request(told: Mapping[str, Any], osd: int, clock: Clock) -> SlowRequest:
    """``age`` grows after the request has ended; ``duration`` is how long it took."""
    kind, inside = ("", told["description"])
    if match := _DESCRIPTION.fullmatch(told["description"]):
        kind, inside = match[1], match[2]
    events = [(clock.time(each["time"].encode()), str(each["event"])) for each in told["type_data"].get("events", ())]
    begun, duration = clock.time(told["initiated_at"].encode()), float(told["duration"])
    if not 0 <= duration < _LONGEST:
        raise ValueError("no duration")
    peers = tuple(_late(events, begun + duration))
    state = REPLICAS if peers else _slowest(events, begun + duration) or UNKNOWN
    one = operation(kind.encode(), inside.encode())
    return SlowRequest(begun, osd, state[:100], duration, peers, one, tells_locks=True)


def _late(events: Sequence[tuple[float, str]], end: float) -> Iterator[int]:
    """The replicas that answered after the primary had committed, and made up most of the time; or did not answer.
    Before the primary has committed, who has not answered yet is not late.

    Where an answer does not name who gave it, the only replica is meant; of several, none is blamed.
    """
    asked: list[int] = []
    when: dict[str, float] = {}
    answers: list[tuple[int | None, float]] = []
    for time, text in events:
        if waiting := _WAITING.search(text):
            asked = [int(number) for number in waiting[1].split(",") if number]
            when["asked"] = time
        elif answered := _ANSWERED.match(text):
            answers.append((int(answered[1]) if answered[1] else None, time))
        elif text == "op_commit":
            when.setdefault(text, time)
    if not asked:
        return
    own = when.get("op_commit", end) - when["asked"]
    open_ = len(answers) < len(asked) and "op_commit" in when
    for peer in asked:
        took = [time - when["asked"] for who, time in answers if who == peer or (who is None and len(asked) == 1)]
        named = any(who is not None for who, _ in answers) or len(asked) == 1
        if (took and took[0] > max(2 * own, 1.0)) or (not took and open_ and named and end - when["op_commit"] > own):
            yield peer


def _slowest(events: Sequence[tuple[float, str]], end: float) -> str:
    """The event after which most time went by; ``throttled`` can be a wrapped number, so times are compared.

    A primary that has asked its replicas waits for them once its own disk has committed. Before, it is unknown for
    which of them where neither has answered to the end.
    """
    steps: list[tuple[float, str]] = []
    asked = answers = 0
    committed = False
    commits = any(text == "op_commit" for _, text in events)
    times = [*(time for time, _ in events[1:]), end]
    for (time, text), later in zip(events, times, strict=True):
        if waiting := _WAITING.search(text):
            asked = len([number for number in waiting[1].split(",") if number])
        answers += bool(_ANSWERED.match(text))
        committed |= text == "op_commit"
        if asked and text not in ("commit_sent", "done") and (answers < asked or not committed):
            own = "waiting for its own disk" if commits or answers >= asked else UNKNOWN
            name = REPLICAS if committed else own
            steps.append((later - time, name))
        else:
            steps.append((later - time, LOCKS if "rw locks" in text else text))
    return max(steps, default=(0.0, ""))[1]
