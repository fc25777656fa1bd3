"""Values in answers of Prometheus, and which of Ceph's metrics may be of a region."""

from __future__ import annotations

import pytest

from plimsoll_monitoring.region.answers import Series, may_be_of

FSID = "00000000-1111-4222-8333-444444444444"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_unknown(value: float) -> None:
    assert Series({}, value).known is None
    assert Series({}, 0.0).known == 0.0


@pytest.mark.parametrize(
    ("of_ceph", "region", "may_be"),
    [
        ("", "north", True),  # no label of a region
        ("north", "north", True),
        ("south", "north", False),
        (FSID, "north", True),  # a label cluster, with which the site names regions
        ("dc1/", "dc1/north", True),  # one label of two
        ("/north", "dc1/north", True),
        (f"dc1/{FSID}", "dc1/north", True),
        (f"/{FSID}", "dc1/north", True),
        ("dc2/", "dc1/north", False),
        (f"dc2/{FSID}", "dc1/north", False),
        ("dc1", "dc1/north", False),
    ],
)
def test_cephs_targets_may_have_some_labels_of_a_region_or_the_fsid_in_one(
    of_ceph: str, region: str, may_be: bool
) -> None:
    assert may_be_of(of_ceph, ["elsewhere", region], [FSID]) is may_be
