"""Slow requests that an OSD remembers: ``dump_historic_slow_ops`` as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from plimsoll_insight.files.packed import UnreadableLog
from plimsoll_insight.slow.events import SlowRequest, operation

_DESCRIPTION = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_WAITING = re.compile(r"waiting for subops from ([\d,]+)")
_ANSWERED = re.compile(r"sub_op_(?:commit|applied)_rec(?: from (\d+))?")
_LOCKS = "waiting for rw locks"


def requests(text: bytes, osd: int, where: str) -> list[SlowRequest]:
    """Raises ``UnreadableLog``."""
    try:
        told = json.loads(text)
        operations = told["Ops"] if "Ops" in told else told["ops"]
        return [_request(each, osd) for each in operations]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableLog(f"{where}: not the output of ceph daemon osd.N dump_historic_slow_ops") from error


def _request(told: Mapping[str, Any], osd: int) -> SlowRequest:
    """``age`` grows after the request has ended; ``duration`` is how long it took."""
    kind, inside = ("", told["description"])
    if match := _DESCRIPTION.fullmatch(told["description"]):
        kind, inside = match[1], match[2]
    events = told["type_data"].get("events", ())
    begun = datetime.fromisoformat(told["initiated_at"]).timestamp()
    peers = tuple(_late(events))
    state = (
        "waiting for sub ops" if peers else _slowest(events) or str(told["type_data"].get("flag_point", "unknown"))
    )
    one = operation(kind.encode(), inside.encode())
    return SlowRequest(begun, osd, state, float(told["duration"]), peers, one)


def _late(events: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    """The replicas that answered after the primary had committed, and made up most of the time; or did not answer.

    Where an answer does not name who gave it, the only replica is meant; of several, none is blamed.
    """
    asked: list[int] = []
    when: dict[str, float] = {}
    answers: list[tuple[int | None, float]] = []
    for each in events:
        time, text = datetime.fromisoformat(each["time"]).timestamp(), str(each["event"])
        if waiting := _WAITING.search(text):
            asked = [int(number) for number in waiting[1].split(",") if number]
            when["asked"] = time
        elif answered := _ANSWERED.match(text):
            answers.append((int(answered[1]) if answered[1] else None, time))
        elif text in ("op_commit", "commit_sent", "done"):
            when.setdefault(text, time)
    if not asked:
        return
    own = when.get("op_commit", when["asked"]) - when["asked"]
    open_ = len(answers) < len(asked)
    for peer in asked:
        took = [time - when["asked"] for who, time in answers if who == peer or (who is None and len(asked) == 1)]
        named = any(who is not None for who, _ in answers) or len(asked) == 1
        if (took and took[0] > max(2 * own, 1.0)) or (not took and open_ and named):
            yield peer


def _slowest(events: Sequence[Mapping[str, Any]]) -> str:
    """The event after which most time went by; ``throttled`` can be a wrapped number, so times are compared."""
    times = [datetime.fromisoformat(each["time"]).timestamp() for each in events]
    steps = [
        (later - earlier, str(each["event"])) for earlier, later, each in zip(times, times[1:], events, strict=False)
    ]
    _, name = max(steps, default=(0.0, ""))
    return _LOCKS if "rw locks" in name else name
