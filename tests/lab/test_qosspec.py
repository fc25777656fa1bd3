"""Cinder's arithmetic: what we make of a spec and a size is what the real Cinder hands out at an attachment."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import openstack.exceptions
import pytest

from lab.cloud import OpenStack
from plimsoll_agent.catalogue.qosspec import Evaluation, QosSpec, evaluate, libvirts_number
from plimsoll_agent.model.limits import PARAMETERS, Limits, LimitsError
from plimsoll_agent.model.reason import Unknown
from tests import depth

pytestmark = [pytest.mark.shared, pytest.mark.timeout(1200 if depth.DEPTH is depth.Depth.SOAK else 300)]

SIZES = (1, 3, 10, 27)
# Of the first 52 seeds twelve that hold every kind of spec that all of them do: each ending among what Cinder hands
# out and libvirt takes, each number, each rubbish, each clash. Nine errors in our arithmetic, one of each step of it,
# were tried: these see them all.
TWELVE = (0, 8, 9, 13, 16, 25, 26, 28, 34, 46, 49, 50)
SEEDS = tuple(range(52)) if depth.DEPTH is depth.Depth.SOAK else TWELVE
BASES = [f"{scope}_{unit}_sec" for scope in ("total", "read", "write") for unit in ("bytes", "iops")]
# What people write, and what Python, libvirt and Cinder read differently.
NUMBERS = ["0", "1", "7", "30", "250", "500", "3000", "1048576", "104857600", "1_000", "+5", "010", "999999999999999"]
ENDINGS: list[list[str]] = [
    [""],
    ["", "_max"],
    ["", "_max", "_max_length"],
    ["_per_gb"],
    ["_per_gb", "_max"],
    ["_per_gb", "_per_gb_min"],
    ["_per_gb", "_per_gb_min", "_max"],
    ["_per_gb_min"],
    ["", "_per_gb"],
]
RUBBISH = ["5.0", "1k", "-1", "none", "0x10", "10000000000000000"]


def generated(seed: int) -> dict[str, str]:
    """A spec as somebody might have written it: possible ones mostly, and some that nobody can keep."""
    draw = random.Random(seed)  # to be the same in every run
    keys: dict[str, str] = {}
    for unit in ("bytes", "iops"):
        scopes = draw.choice([[], ["total"], ["read"], ["read", "write"], ["total", "read"] if seed % 9 == 0 else []])
        for scope in scopes:
            base = f"{scope}_{unit}_sec"
            for ending in draw.choice(ENDINGS):
                keys[base + ending] = draw.choice(NUMBERS)
    if draw.random() < 0.2:
        keys["size_iops_sec"] = draw.choice(["4096", "16384"])
    if draw.random() < 0.2:
        keys[draw.choice(["total_iop_sec", "group_name", "iops"])] = "5"
    if draw.random() < 0.15 and keys:
        keys[draw.choice(sorted(keys))] = draw.choice(RUBBISH)
    return keys


@pytest.fixture(scope="module")
def handed_out(openstack: OpenStack) -> list[tuple[dict[str, str], int, dict[str, object] | None]]:
    """Keys, size and what Cinder handed out for them; None where it would not attach."""
    return list(_handed_out(openstack))


def _handed_out(cloud: OpenStack) -> Iterator[tuple[dict[str, str], int, dict[str, object] | None]]:
    blocks, tag = cloud.connection.block_storage, uuid4().hex[:8]
    qos = cloud.create_qos(f"generated-{tag}", {})
    kind = cloud.create_volume_type(f"generated-{tag}", qos)
    volumes = {size: cloud.create_volume(kind, size_gib=size) for size in SIZES}
    for seed in SEEDS:
        had = blocks.get(f"/qos-specs/{qos.id}").json()["qos_specs"]["specs"]
        if had:
            assert blocks.put(f"/qos-specs/{qos.id}/delete_keys", json={"keys": list(had)}).status_code == 202
        keys = generated(seed)
        if keys:
            assert blocks.put(f"/qos-specs/{qos.id}", json={"qos_specs": keys}).status_code == 200, keys
        with ThreadPoolExecutor(len(SIZES)) as side_by_side:  # each asks ceph on its way, which takes its time
            answers = side_by_side.map(lambda volume: _answer(cloud, volume.id), volumes.values())
            yield from ((keys, size, answer) for size, answer in zip(SIZES, answers, strict=True))


def _answer(cloud: OpenStack, volume_id: str) -> dict[str, object] | None:
    try:
        attachment = cloud.attach(volume_id, str(uuid4()))
    except openstack.exceptions.HttpException:
        _forget(cloud, volume_id)
        return None
    cloud.detach(attachment)
    return dict(attachment.qos_specs)


def _forget(cloud: OpenStack, volume_id: str) -> None:
    for one in cloud.connection.block_storage.attachments(volume_id=volume_id):
        cloud.connection.block_storage.delete(f"/attachments/{one.id}", microversion="3.27")
    cloud.wait_for_volume(volume_id, "available")


def novas(specs: dict[str, object]) -> Limits | None:
    """What Nova and libvirt make of it; None where they refuse the disk."""
    try:
        return Limits.from_mapping(
            {
                parameter.name: libvirts_number(parameter.name, str(specs[parameter.name])) or 0
                for parameter in PARAMETERS
                if parameter.nova and specs.get(parameter.name) is not None
            }
        )
    except (LimitsError, ValueError):
        return None


def test_our_limits_are_those_that_cinder_hands_out(
    handed_out: list[tuple[dict[str, str], int, dict[str, object] | None]],
) -> None:
    assert len(handed_out) == len(SEEDS) * len(SIZES)
    kinds: Counter[str] = Counter()
    for keys, size, told in handed_out:
        # A length is ours alone: Nova drops it.
        ours = evaluate(QosSpec(id="id", name="spec", consumer="front-end", keys=_without_lengths(keys)), size)
        theirs = None if told is None else novas(told)
        kinds["refused by Cinder" if told is None else "refused after it" if theirs is None else "limits"] += 1
        if theirs is None:
            assert isinstance(ours, Unknown), (keys, size, told)
        else:
            assert isinstance(ours, Evaluation), (keys, size, told, ours)
            assert ours.limits == theirs, (keys, size, told)
    assert kinds["limits"] > len(handed_out) / 2, kinds
    assert kinds["refused by Cinder"] > 0, kinds
    assert kinds["refused after it"] > 0, kinds


def _without_lengths(keys: dict[str, str]) -> dict[str, str | None]:
    return {name: value for name, value in keys.items() if not name.endswith("_length")}
