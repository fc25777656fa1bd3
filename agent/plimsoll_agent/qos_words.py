"""The words for what is wrong with a QoS spec: what, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from plimsoll_agent.qoslint import Fault, LintCode
from plimsoll_agent.report import printable

_SENTENCES: Mapping[LintCode, str | Callable[[Mapping[str, Any]], str]] = {
    LintCode.BACK_END: (
        "consumer back-end: Nova never sees it and QEMU limits nothing; set the consumer to front-end,"
        " unless librbd is meant to limit (Cinder's RBD driver from 1.3.0 on)"
    ),
    LintCode.BOTH: (
        "consumer both: QEMU limits, and librbd too with Cinder's RBD driver from 1.3.0 on;"
        " set the consumer to front-end"
    ),
    LintCode.UNKNOWN_CONSUMER: (
        "consumer {consumer} is none that Nova is told of, so nothing is limited; set it to front-end"
    ),
    LintCode.NO_KEYS: "has no keys and limits nothing; give it limits or delete it",
    LintCode.UNKNOWN_KEY: lambda facts: (
        f"nobody knows this key, so it does nothing; write {facts['nearest']}"
        if facts["nearest"]
        else "nobody knows this key, so it does nothing; remove it"
    ),
    LintCode.GROUP_NAME: "Nova drops it and plimsoll does not take it from a spec; give the group in a rule",
    LintCode.NO_VALUE: lambda facts: (
        "has no value, and Cinder then fails to attach a volume; give a number or remove it"
        if facts["refused"]
        else "has no value and does nothing; give a number or remove it"
    ),
    LintCode.NOT_A_NUMBER: '"{value}" is no whole number; write plain digits',
    LintCode.NEGATIVE: '"{value}" is negative; write a number above zero, or remove the key for no limit',
    LintCode.TOO_LARGE: lambda facts: (
        f"{facts['value']} times {facts['times']} is more than the 10^15 that QEMU takes; lower one of the two"
        if facts.get("times")
        else f"{facts['value']} is more than the 10^15 that QEMU takes; lower it"
    ),
    LintCode.ZERO: "0 limits nothing; give a number or remove it",
    LintCode.ZERO_MAX: "a maximum of 0 beside a per-GB key means no limit at all; raise it or remove it",
    LintCode.TOTAL_AND_PART: "excludes {part}, and no volume can be attached with both; remove one",
    LintCode.MAX_WITHOUT_BASE: "needs {needs}, and no volume can be attached without; add it",
    LintCode.MAX_BELOW_BASE: (
        "{max} is below {base} ({limit}), and no volume can be attached with it; raise it or remove it"
    ),
    LintCode.MAX_IS_CEILING: (
        "beside {by} it is a ceiling of what comes of the size, and no burst;"
        " keep it if a ceiling is meant, a burst cannot be had there"
    ),
    LintCode.BASE_OVERWRITTEN: "{by} overwrites it; remove one of the two",
    LintCode.MIN_WITHOUT_PER_GB: "does nothing without {needs}; add it, or remove this one",
    LintCode.LENGTH_WITHOUT_MAX: lambda facts: (
        f"does nothing, since beside {facts['per_gb']} there is no burst; remove it"
        if facts["per_gb"]
        else f"does nothing without {facts['needs']}; add the burst whose length it is"
    ),
    LintCode.LENGTH_ONLY_HERE: (
        "Nova drops it and only plimsoll honours it, from its first pass after an attach; nothing to do where it runs"
    ),
    LintCode.SIZE_WITHOUT_IOPS: (
        "needs an iops limit, and no volume can be attached without;"
        " it is the request size from which one request counts as several, and no burst"
    ),
    LintCode.SIZE_IS_NO_SIZE: (
        "{value} is no likely request size: it is the bytes from which one request counts as several, and no burst;"
        " write a multiple of 512 up to 4194304, or a key ending in _iops_sec_max"
    ),
}


def fault_words(fault: Fault) -> str:
    """One line, without its severity; what an operator of Cinder wrote has its odd characters escaped."""
    sentence = _SENTENCES[fault.code]
    facts = {name: printable(fact) if isinstance(fact, str) else fact for name, fact in fault.facts.items()}
    said = sentence(facts) if callable(sentence) else sentence.format_map(facts)
    where = f'QoS spec "{printable(fault.spec)}"'
    return f"{where}: {said}" if fault.key is None else f"{where}, {printable(fault.key)}: {said}"
