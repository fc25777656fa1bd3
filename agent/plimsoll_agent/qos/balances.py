"""What is saved of the bursts of volumes, in their metadata in Cinder, where tenants can read it.

It is only shown there. What a volume has is read to save calls, so a tenant who writes it deceives only himself, and
for a day at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import inf

from plimsoll_agent.catalogue.api import Refused
from plimsoll_agent.errors import DeadlineExceeded, PlimsollError, Rejected
from plimsoll_agent.qos.apply import How
from plimsoll_agent.qos.cinder import Cinder, attached_metadata
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import minute

KEY = "plimsoll:burst_saved"
RENEWED_AFTER = timedelta(days=1)
"""A balance that did not move is written again, with its time."""
_SHOWN = re.compile(r"(\d{1,3}) % at (\d{4}-\d\d-\d\d \d\d:\d\d) UTC", re.ASCII)
# The others would be refused the same. After 500 they may not be.
_OF_ALL = frozenset({401, 403, 429, 502, 503, 504})


@frozen
class Balance:
    """In per cent of the whole burst, at a time."""

    percent: int
    at: datetime

    def __str__(self) -> str:
        return f"{self.percent} % at {minute(self.at)}"


@frozen
class BalanceChange:
    """Texts of a volume's metadata; None is none."""

    volume: str
    before: str | None
    after: str | None


@frozen(kw_only=True)
class BalanceResult:
    change: BalanceChange
    how: How
    detail: str = ""
    gone: bool = False
    """The volume was deleted since it was read, or what should be removed was removed."""


def shown(api: Cinder) -> dict[str, str | None]:
    """What attached volumes have now, by their ids: a call for each thousand. Raises what ``Cinder`` raises."""
    return {volume: metadata.get(KEY) for volume, metadata in attached_metadata(api)}


def plan(
    there: Mapping[str, str | None], current: Mapping[str, Balance | None], now: datetime, step: int
) -> list[BalanceChange]:
    """What to write, the largest moves first; ``current`` has None for a volume without a burst.

    A volume that is not in ``current`` keeps what it has.
    """
    moves: list[tuple[float, BalanceChange]] = []
    for volume in there.keys() & current.keys():
        before, balance = there[volume], current[volume]
        move = _move(before, balance, now)
        if move >= step:
            after = None if balance is None else str(balance)
            moves.append((move, BalanceChange(volume, before, after)))
    return [change for _, change in sorted(moves, key=lambda each: (-each[0], each[1].volume))]


def _move(before: str | None, balance: Balance | None, now: datetime) -> float:
    """In per cent; ``inf`` for what is written in any case."""
    if balance is None:
        return -inf if before is None else inf
    last = None if before is None else _read(before)
    if last is None or not last.at <= now < last.at + RENEWED_AFTER:
        return inf
    if last.at > balance.at:  # written by another run since Prometheus was asked
        return -inf
    return inf if balance.percent in {0, 100} - {last.percent} else abs(balance.percent - last.percent)


def _read(text: str) -> Balance | None:
    """None for what plimsoll does not write."""
    match = _SHOWN.fullmatch(text)
    try:
        return match and Balance(int(match[1]), datetime.strptime(match[2], "%Y-%m-%d %H:%M").replace(tzinfo=UTC))
    except ValueError:
        return None


def write(changes: Sequence[BalanceChange], api: Cinder) -> Iterator[BalanceResult]:
    """A call for each. No more are tried once Cinder is unreachable, overloaded, or refuses them all."""
    trouble = ""
    for change in changes:
        if trouble:
            yield BalanceResult(change=change, how=How.NOT_TRIED, detail=trouble)
            continue
        try:
            _write(change, api)
        except Rejected as error:
            status = error.status if isinstance(error, Refused) else None
            if status == 404:
                yield BalanceResult(change=change, how=How.DONE, gone=True)
                continue
            if status in _OF_ALL:
                trouble = str(error)
            yield BalanceResult(change=change, how=How.REFUSED, detail=str(error))
        except PlimsollError as error:
            trouble = str(error)
            yield BalanceResult(
                change=change,
                how=How.TIMED_OUT if isinstance(error, DeadlineExceeded) else How.REFUSED,
                detail=trouble,
            )
        else:
            yield BalanceResult(change=change, how=How.DONE)


def _write(change: BalanceChange, api: Cinder) -> None:
    if change.after is None:
        api.storage.delete_volume_metadata(change.volume, [KEY])
    else:  # beside the tenant's own keys, which stay
        api.storage.set_volume_metadata(change.volume, **{KEY: change.after})
