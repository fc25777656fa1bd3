"""What oslo.config imports and plimsoll has no use for comes when it is asked for."""

from __future__ import annotations

import pytest

from plimsoll_agent.config import oslo


def test_an_option_that_needs_one_of_them_works() -> None:
    assert oslo.types.IPAddress()("192.0.2.1") == "192.0.2.1"
    assert oslo.types.URI()("https://cinder.example.org") == "https://cinder.example.org"
    with pytest.raises(ValueError, match="host was required"):
        oslo.types.URI()("https://")
