"""Answers of Prometheus as columns of NumPy: a value a step, NaN where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from plimsoll_agent.util.frozen import frozen

Floats = NDArray[np.float64]
Rows = list[tuple[Mapping[str, str], Floats]]


@frozen
class Steps:
    """Moments, evenly apart; seconds since 1970."""

    first: int
    seconds: int
    number: int

    @property
    def last(self) -> int:
        return self.first + (self.number - 1) * self.seconds

    def column(self, text: bytes) -> Floats:
        """Of ``[[1700000000,"1.5"],…]``, as in JSON. Raises ``ValueError``."""
        column = np.full(self.number, np.nan)
        plain = text.translate(None, b'[]" \n')
        if not plain:
            return column
        try:
            numbers = np.fromstring(plain, sep=",")
        except DeprecationWarning as error:  # where warnings are errors
            raise ValueError("no numbers") from error
        if len(numbers) % 2 or len(numbers) != plain.count(b",") + 1:
            raise ValueError("no pairs of numbers")
        places, apart = np.divmod(numbers[0::2] - self.first, self.seconds)
        if apart.any() or not ((places >= 0) & (places < self.number)).all():
            raise ValueError("times that were not asked for")
        values = numbers[1::2]
        column[places.astype(np.intp)] = np.where(np.isfinite(values) & (values >= 0), values, np.nan)
        return column


class SeriesSource(Protocol):
    """A range of PromQL, with each series' values as ``steps`` has them. Raises ``PlimsollError``."""

    def __call__(self, promql: str, steps: Steps, /) -> Rows: ...
