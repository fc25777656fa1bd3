"""What disks have saved of their bursts, to and from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from plimsoll_agent.credits.ledger import Account, Bucket
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.util.decoding import count, mapping, maybe, number, text
from plimsoll_agent.util.frozen import of_tuple

VERSION = 1


def encoded(accounts: Mapping[str, Account], boot: str) -> str:
    """The file's text; ``boot`` is the node's boot id, since times are those since it booted."""
    lines = ",".join(f"\n {json.dumps(key)}: {json.dumps(_data(each))}" for key, each in sorted(accounts.items()))
    return f'{{"version": {VERSION}, "boot": {json.dumps(boot)},\n"accounts": {{{lines}}}}}\n'


def decoded(envelope: dict[str, Any], boot: str) -> dict[str, Account]:
    """The reverse of ``encoded``. Raises what ``decoding.UNREADABLE`` names."""
    same_run = text(envelope["boot"]) == boot
    return mapping(lambda value: _account(value, same_run), envelope["accounts"])


def _data(account: Account) -> dict[str, object]:
    return {
        "at": account.at,
        "counters": {
            key: [attachment, stats.read_requests, stats.read_bytes, stats.write_requests, stats.write_bytes]
            for key, (attachment, stats) in account.counters.items()
        },
        "buckets": {
            base: {"spent": round(each.spent, 1), "held": round(each.held, 1), "room": each.room}
            for base, each in account.buckets.items()
        },
    }


def _account(value: Any, same_run: bool) -> Account:
    at = maybe(number, value["at"])
    counters = mapping(_counters, value["counters"])
    return Account(at=at if same_run else None, counters=counters, buckets=mapping(_bucket, value["buckets"]))


def _counters(value: Any) -> tuple[str, BlockStats]:
    attachment, *counts = value
    return text(attachment), of_tuple(BlockStats, [*map(count, counts)])


def _bucket(value: Any) -> Bucket:
    return Bucket(number(value["spent"]), number(value["held"]), number(value["room"]))
