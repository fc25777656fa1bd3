"""Parts of sentences: what the facts of a reason say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from plimsoll_agent.messages.limits import lowest_words, short_limits
from plimsoll_agent.model.clusters import short_fsid
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.origin import origin_of
from plimsoll_agent.util.text import minute, plural, printable, second


def stage_words(facts: Mapping[str, object]) -> str:
    return f" for the region, stage {facts['stage']} of {facts['stages']}" if facts.get("stage") else ""


def origin_words(facts: Mapping[str, Any]) -> str:
    if "type" in facts:
        return f"volume type {facts['type']}, which sets none now"
    if "rule" in facts:
        return f'rule "{facts["rule"]}", which sets none now'
    name = origin_of(str(facts.get("source"))).name
    return "a source that is gone" if name is None else f"the {name}, which sets none now"


def per_gib_words(facts: Mapping[str, Any]) -> str:
    rows = facts.get("arithmetic") or ()
    if not rows:
        return ""
    each = [f"{row['parameter']} {row['per_gb']}" if len(rows) > 1 else f"{row['per_gb']}" for row in rows]
    return f": {' and '.join(each)} per GiB × {facts['gib']} GiB"


def arithmetic_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """``total_iops_sec = max(500, 30 × 100 GiB), at most 2000 = 2000``: how limits follow from a size."""
    for row in rows:
        product = f"{row['per_gb']} × {row['gib']} GiB"
        least = product if row["minimum"] is None else f"max({row['minimum']}, {product})"
        most = "" if row["maximum"] is None else f", at most {row['maximum']}"
        yield f"{row['parameter']} = {least}{most} = {row['result']}"


def minute_words(time: object) -> str:
    try:
        return minute(datetime.fromisoformat(str(time)))
    except (ValueError, OverflowError):  # from a record that was edited
        return str(time)


def second_words(time: object) -> str:
    try:
        return second(datetime.fromisoformat(str(time)))
    except (ValueError, OverflowError):  # as above
        return str(time)


def pause_words(facts: Mapping[str, Any]) -> str:
    if not facts.get("region"):
        return str(facts["file"])
    until = f" until {minute_words(facts['until'])}" if facts.get("until") else ""
    return f"{facts['by']} in the whole region{until}"


def filter_words(groups: Mapping[str, Mapping[str, Any] | None]) -> str:
    """``guest-total (3000 IOPS), disk (unknown)``."""
    limits = {name: "unknown" if of is None else short_limits(Limits.from_mapping(of)) for name, of in groups.items()}
    return ", ".join(f"{printable(name)} ({of})" for name, of in limits.items())


def times_words(number: object) -> str:
    return "once" if number == 1 else f"{number} times"


def large_words(facts: Mapping[str, Any]) -> str:
    """Why a change is large alone: ``cut to 1 % from 2026-11-22T06:00+00:00 on``."""
    if facts["percent"] is None:
        what = "removal"
    elif "below" in facts:
        what = f"limit below {lowest_words(facts['below'])}"
    elif "times" in facts:
        times = facts["times"]
        what = "removal of one limit" if times is None else f"raise to {times:g} times as much"
    else:
        what = f"cut to {facts['percent']:g} %"
    return f"{what} from {minute_words(facts['from'])} on" if "from" in facts else what


def ceiling_words(facts: Mapping[str, Any]) -> str:
    """``4 disks, project_ceiling of rule "databases": reduced``."""
    disks = facts.get("members")
    number = "" if disks is None else f"{plural(len(disks), 'disk')}, "
    rules = dict.fromkeys((printable(each["whose"]), printable(each["rule"])) for each in facts["ceilings"])
    names = ", ".join(f'{whose}_ceiling of rule "{rule}"' for whose, rule in rules)
    if facts.get("failed"):
        return f"{number}{names}: not changed, as before"
    if facts["ends"]:
        return f"{number}{names}: not reduced any more"
    x = f", and x is {facts['x']:.2g}" if facts["x"] < 1 else ""
    return f"{number}{names}: reduced{x}"


def congestion_words(facts: Mapping[str, Any]) -> str:
    place = f"{facts['class'] or 'unknown class'} of cluster {short_fsid(facts['cluster'])}"
    disks = facts.get("members")
    number = "" if disks is None else f"{plural(len(disks), 'disk')}, "
    if facts.get("failed"):
        return f"{number}{place}: not changed, as before"
    if facts["x"] >= 1:
        return f"{number}{place}: not reduced any more"
    return f"{number}{place}: reduced, x is {facts['x']:.2g}"
