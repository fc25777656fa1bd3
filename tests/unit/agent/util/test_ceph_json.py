"""JSON of Ceph that no other reader takes."""

from __future__ import annotations

import math

import pytest

from plimsoll_agent.util import ceph_json


def test_numbers_that_are_none_are_read_and_words_in_strings_left_alone() -> None:
    text = '{"score":inf,"low": -inf,"var":-nan,"mean":nan,"name":"inf, \\"nan\\" and -nan","n":1}'
    for each in (text, text.encode()):
        document = ceph_json.parse(each)
        assert (document["score"], document["low"], document["n"]) == (math.inf, -math.inf, 1)
        assert [math.isnan(document[name]) for name in ("var", "mean", "n")] == [True, True, False]
        assert document["name"] == 'inf, "nan" and -nan'


@pytest.mark.parametrize("text", ["", "Error EACCES: access denied", '{"a": infinite}', '{"a": nano}', '{"a":'])
def test_what_is_no_json_stays_none(text: str) -> None:
    with pytest.raises(ValueError, match="line 1 column"):
        ceph_json.parse(text)
