"""Factors as the publisher makes them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from plimsoll_agent.congestion.law import Action
from plimsoll_agent.congestion.published import Factor, FactorFile
from tests.unit.node import FSID
from tests.unit.values import NOON


def a_factor(x: float = 0.73, device_class: str = "ssd", **other: Any) -> Factor:
    action = Action.FULL if x == 1 else Action.LOWERED
    values = {"cluster": FSID, "device_class": device_class, "x": x, "action": action.value}
    return Factor(**values | {"latency": 0.0091, "target": 0.006} | other)


def a_factor_file(*factors: Factor, **other: Any) -> FactorFile:
    """Of noon, about pools of one class and of two."""
    return FactorFile(
        **{
            "generation": 7,
            "issued": NOON,
            "valid_until": NOON + timedelta(seconds=90),
            "factors": factors or (a_factor(),),
            "pools": {(FSID, "volumes"): ("ssd",), (FSID, "mixed"): ("ssd", "hdd"), (FSID, "odd"): ()},
        }
        | other
    )
