"""What a disk has saved of its bursts, in words and as plain data."""

from __future__ import annotations

from plimsoll_agent.credits.ledger import Account, Burst, bursts
from plimsoll_agent.messages.limits import rate_words, short_size
from plimsoll_agent.model.limits import Limits, Unit

UNKNOWN = "unknown: its counters have not been read"


def saved_words(limits: Limits, account: Account | None) -> str:
    """``30000 of 60000 requests (35 s at 1000 IOPS)``; several bursts under their names."""
    if account is None:
        return UNKNOWN
    each = {base: _words(base, burst, account.balance(limits, base)) for base, burst in bursts(limits).items()}
    return ", ".join(words if len(each) == 1 else f"{base} {words}" for base, words in each.items())


def saved_data(limits: Limits, account: Account | None) -> dict[str, object] | None:
    """By the name of the limit; a negative balance is owed. None where it is unknown."""
    if account is None:
        return None
    return {
        base: {"balance": int(account.balance(limits, base)), "capacity": burst.capacity}
        for base, burst in bursts(limits).items()
    }


def _words(base: str, burst: Burst, balance: float) -> str:
    unit: Unit = "bytes" if "_bytes_" in base else "iops"
    if balance < 0:
        return f"nothing, {_amount(-balance, unit)}{_requests(unit)} owed"
    amount = f"{_amount(balance, unit)} of {_amount(burst.capacity, unit)}"
    seconds = balance / (burst.peak - burst.rate) if burst.peak > burst.rate else burst.length
    return f"{amount}{_requests(unit)} ({seconds:.0f} s at {rate_words(burst.peak, unit)})"


def _requests(unit: Unit) -> str:
    return " requests" if unit == "iops" else ""


def _amount(amount: float, unit: Unit) -> str:
    return short_size(int(amount)) if unit == "bytes" else str(int(amount))
