"""Faults of QoS specs as sentences: what, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from plimsoll_agent.messages.limits import lowest_words
from plimsoll_agent.qos.lint import LintCode, SpecFault
from plimsoll_agent.util.text import printable


def _by_librbd(facts: Mapping[str, Any]) -> str:
    without = f", without {' and '.join(facts['without'])}" if facts["without"] else ""
    return f"Cinder's RBD driver from 1.3.0 on{without}"


_SENTENCES: Mapping[LintCode, str | Callable[[Mapping[str, Any]], str]] = {
    LintCode.BACK_END: lambda facts: (
        "consumer back-end: Nova does not get it, so QEMU limits nothing"
        + (
            f"; set the consumer to front-end, unless librbd shall limit ({_by_librbd(facts)})"
            if facts["limits"]
            else ", nor does librbd: no key is a limit of Cinder's RBD driver; set the consumer to front-end"
        )
    ),
    LintCode.OTHER_BACK_END: (
        "consumer back-end, with keys of another storage than RBD: QEMU limits nothing; keep it if its volume types"
        " are of such a back end"
    ),
    LintCode.BOTH: lambda facts: (
        f"consumer both: QEMU limits, and librbd too with {_by_librbd(facts)}; set the consumer to front-end"
        if facts["limits"]
        else "consumer both: QEMU limits, and librbd does not: no key is a limit of Cinder's RBD driver;"
        " set the consumer to front-end"
    ),
    LintCode.UNKNOWN_CONSUMER: (
        "consumer {consumer}: Nova does not get it, so nothing is limited; set it to front-end"
    ),
    LintCode.NO_KEYS: "has no keys and limits nothing; give it limits or delete it",
    LintCode.UNKNOWN_KEY: lambda facts: (
        f"unknown key, it does nothing; did you mean {facts['nearest']}?"
        if facts["nearest"]
        else "unknown key, it does nothing; remove it"
    ),
    LintCode.OF_STORAGE: (
        "does nothing on RBD; with consumer both the driver of another storage may read it; keep it if it is that"
        " driver's"
    ),
    LintCode.GROUP_NAME: "Nova ignores it, and plimsoll does not read it from a spec; set the group in a rule",
    LintCode.NO_VALUE: lambda facts: (
        "has no value, and Cinder then fails to attach a volume; give a number or remove it"
        if facts["refused"]
        else "has no value and does nothing; give a number or remove it"
    ),
    LintCode.NOT_A_NUMBER: lambda facts: (
        f'"{facts["value"]}" is not a whole number; write '
        + (" or ".join(f"{number} for {printable(text)}" for text, number in facts["meant"]) or "plain digits")
    ),
    LintCode.NEGATIVE: '"{value}" is negative; write a number above zero, or remove the key for no limit',
    LintCode.TOO_LARGE: lambda facts: (
        f"{facts['value']} times {facts['times']} is more than QEMU's maximum of 10^15; lower one of the two"
        if facts.get("times")
        else f"{facts['value']} is more than QEMU's maximum of 10^15; lower it"
    ),
    LintCode.ZERO: "0 limits nothing; give a number or remove it",
    LintCode.ZERO_MAX: "a maximum of 0 beside a per-GB key means no limit at all; raise it or remove it",
    LintCode.TOTAL_AND_PART: "excludes {part}, and no volume can be attached with both; remove one",
    LintCode.ONE_DIRECTION: "without {other} the other direction is unlimited; add that, or a total for both",
    LintCode.MAX_WITHOUT_BASE: "needs {needs}, and no volume can be attached without; add it",
    LintCode.MAX_BELOW_BASE: (
        "{max} is below {base} ({limit}), and no volume can be attached with it; raise it or remove it"
    ),
    LintCode.MAX_IS_CEILING: (
        "with {by} it is the maximum of the limit per GiB, not a burst;"
        " keep it if that is intended, a burst is not possible there"
    ),
    LintCode.BASE_OVERWRITTEN: "{by} overwrites it; remove one of the two",
    LintCode.MIN_WITHOUT_PER_GB: "does nothing without {needs}; add it, or remove this one",
    LintCode.LENGTH_WITHOUT_MAX: lambda facts: (
        f"does nothing: with {facts['per_gb']} there is no burst; remove it"
        if facts["per_gb"]
        else f"does nothing without the burst {facts['needs']}; add that"
    ),
    LintCode.LENGTH_ONLY_HERE: ("Nova ignores it; only plimsoll applies it, with the first pass after an attach"),
    LintCode.SIZE_WITHOUT_IOPS: (
        "needs an iops limit, and no volume can be attached without;"
        " it is the request size above which one request counts as several, not a burst"
    ),
    LintCode.SIZE_IS_NO_SIZE: (
        "{value} is an unlikely request size (bytes above which one request counts as several, not a burst);"
        " write a multiple of 512 up to 4194304, or a key ending in _iops_sec_max"
    ),
    LintCode.CREDITS: "{detail}; volumes of this spec are left as they are until that is right",
    LintCode.TOO_LOW: lambda facts: (
        f"limits{f' even {gib} GiB' if (gib := facts['gib']) else ''} to less than"
        f" {lowest_words({facts['unit']: facts['lowest']})}; was a unit forgotten, or a zero?"
    ),
}


def fault_words(fault: SpecFault) -> str:
    """One line, without its severity; control characters are replaced."""
    sentence = _SENTENCES[fault.code]
    facts = {name: printable(fact) if isinstance(fact, str) else fact for name, fact in fault.facts.items()}
    message = sentence(facts) if callable(sentence) else sentence.format_map(facts)
    where = f'QoS spec "{printable(fault.spec)}"'
    return f"{where}: {message}" if fault.key is None else f"{where}, {printable(fault.key)}: {message}"
