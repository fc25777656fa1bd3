"""What Prometheus answers: series of nodes, at one time or over some."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field

from plimsoll_agent.monitor.site_labels import BETWEEN
from plimsoll_agent.util.frozen import frozen


@frozen
class Series:
    """One series at one time; tenants may have chosen values of its labels."""

    labels: Mapping[str, str]
    value: float

    @property
    def known(self) -> float | None:
        """The value, None where it is not a number, as a quantile of no requests."""
        return self.value if math.isfinite(self.value) else None


@frozen
class TimeSeries:
    """One series over time: values by their times (seconds since 1970)."""

    labels: Mapping[str, str]
    values: Mapping[float, float] = field(hash=False)


Answers = Mapping[str, Sequence[Series]]
"""The answer to each query, by its name."""
NodeKey = tuple[str, str]
"""Region and instance: two regions may have nodes of the same name."""
Ask = Callable[[str], Sequence[Series]]
"""An instant query; all of a command are as of one time. Raises ``PlimsollError``."""


def key_of(series: Series | TimeSeries) -> NodeKey:
    return label(series, "region"), label(series, "instance")


def label(series: Series | TimeSeries, name: str) -> str:
    return series.labels.get(name, "")


def may_be_of(region: str, regions: Collection[str], fsids: Collection[str]) -> bool:
    """Whether Ceph's metrics of this region may be of one of ``regions``.

    Its targets may have none of the labels of a region, or some, or in one named ``cluster`` the fsid.
    """

    def is_part(of: str) -> bool:
        parts, others = region.split(BETWEEN), of.split(BETWEEN)
        return len(parts) == len(others) and all(
            part in ("", other, *fsids) for part, other in zip(parts, others, strict=True)
        )

    return not region or any(map(is_part, regions))
