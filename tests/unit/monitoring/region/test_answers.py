"""Values in answers of Prometheus."""

from __future__ import annotations

import pytest

from plimsoll_monitoring.region.answers import Series


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_unknown(value: float) -> None:
    assert Series({}, value).known is None
    assert Series({}, 0.0).known == 0.0
