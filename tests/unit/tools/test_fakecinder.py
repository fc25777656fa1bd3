"""The fake stands by the contract that a real Cinder stands by (tests/lab/test_qos.py)."""

from collections.abc import Callable

import pytest

from tests.cindercontract import CinderContract
from tests.fakecinder import FakeCinder


class TestFakeCinder(CinderContract):
    @pytest.fixture
    def word(self) -> str:
        return "x"

    @pytest.fixture
    def cinder(self) -> FakeCinder:
        cinder = FakeCinder()
        cinder.default = cinder.type("__DEFAULT__")
        return cinder

    @pytest.fixture
    def volume(self, cinder: FakeCinder) -> Callable[[str], str]:
        return lambda type: cinder.volume(type, 1, status="available")
