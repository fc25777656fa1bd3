"""Names of pools, as each command prints them."""

from __future__ import annotations

import pytest

from plimsoll_insight.slow.pools import UnreadablePools, erasure_coded, parse


@pytest.mark.parametrize(
    "text",
    [
        "1 volumes\n7 my vms\n\n",
        "1 volumes,7 my vms,",
        '[{"poolnum":1,"poolname":"volumes"},{"poolnum":7,"poolname":"my vms"}]\n',
        '{"epoch":9,"pools":[{"pool":1,"pool_name":"volumes","size":3},{"pool":7,"pool_name":"my vms"}]}',
        "epoch 14\npool 1 'volumes' replicated size 2 min_size 1\npool 7 'my vms' erasure size 4\nmax_osd 3\n",
    ],
    ids=["lspools", "before Nautilus", "lspools as JSON", "dump as JSON", "dump"],
)
def test_each_form_has_the_names_by_number(text: str) -> None:
    assert parse(text, "here") == {1: "volumes", 7: "my vms"}


@pytest.mark.parametrize(
    "text",
    [
        '[{"pool_id":1,"pool_name":"volumes","type":1},{"pool_id":7,"pool_name":"my vms","type":3}]',
        '{"epoch":9,"pools":[{"pool":1,"pool_name":"volumes","type":1},{"pool":7,"pool_name":"my vms","type":3}]}',
        "pool 1 'volumes' replicated size 2 min_size 1\npool 7 'my vms' erasure profile p21 size 3 min_size 2\n",
    ],
    ids=["pool ls detail as JSON", "dump as JSON", "pool ls detail"],
)
def test_which_pools_are_erasure_coded_is_told_by_those_forms_that_have_it(text: str) -> None:
    assert parse(text, "here") == {1: "volumes", 7: "my vms"}
    assert erasure_coded(text) == {1: False, "volumes": False, 7: True, "my vms": True}


def test_a_list_of_names_tells_no_kind() -> None:
    assert erasure_coded('[{"pool_id":1,"pool_name":"volumes","type":[]}]') == {}
    assert erasure_coded("1 volumes\n") == erasure_coded('[{"poolnum":1,"poolname":"volumes"}]') == {}


@pytest.mark.parametrize("text", ["", "no pools", "{}", "[1]", '{"pools": 3}', "[" * 100_000, '[{"poolnum":"x"}]'])
def test_what_is_none_is_one_line(text: str) -> None:
    with pytest.raises(UnreadablePools, match=r"^here: not the output of ceph osd pool ls detail, osd lspools"):
        parse(text, "here")
