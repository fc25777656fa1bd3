"""The fake stands by the contract that a real QEMU stands by (tests/lab/test_hypervisor.py)."""

import pytest

from tests.contract import HypervisorContract
from tests.fakes import FakeDisk, FakeGuest, FakeHypervisor, volume

UUID = "1ebc1454-0d31-4367-8c90-06e18daa66f9"


class TestFakeHypervisor(HypervisorContract):
    @pytest.fixture
    def uuid(self) -> str:
        return UUID

    @pytest.fixture
    def hypervisor(self) -> FakeHypervisor:
        own = FakeDisk(image=f"{UUID}_disk", pool="vms")
        return FakeHypervisor(FakeGuest("instance-00000001", UUID, {"vda": own, "vdb": volume()}, paused=True))
