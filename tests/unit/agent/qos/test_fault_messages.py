"""What is wrong with a QoS spec is said in one line that names the spec, the key and what to do."""

from __future__ import annotations

import pytest

from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.qos.fault_messages import fault_words
from plimsoll_agent.qos.lint import LintCode, lint

_SPECS: list[dict[str, str | None]] = [
    {"total_iops_sec": "500", "total_iop_sec": "5", "maxIOPS": "5", "group_name": "g", "size_iops_sec": "1000"},
    {"total_iops_sec_per_gb": "3", "total_iops_sec_max": "0", "total_iops_sec": "5", "read_iops_sec": "-5"},
    {"read_iops_sec_per_gb": "3", "read_iops_sec_max": "900", "read_iops_sec_max_length": "9"},
    {"read_iops_sec": "9", "read_iops_sec_max": "8", "write_iops_sec_max": "8", "read_bytes_sec_per_gb_min": "9"},
    {"read_iops_sec": "9", "read_iops_sec_max_length": "9", "write_iops_sec": "0", "write_bytes_sec": "x"},
    {"read_iops_sec": "9", "read_iops_sec_max": "9", "read_iops_sec_max_length": "9", "write_iops_sec": "9" * 17},
    {"read_iops_sec": "9", "read_iops_sec_max": "9", "read_iops_sec_max_length": "9" * 15},
    {"read_bytes_sec": None, "write_bytes_sec_per_gb": None, "size_iops_sec": "512"},
    {"total_iops_sec": "9", "read_iops_sec_per_gb": "9"},
    {"read_iops_sec": "9", "plimsoll:capacity": "9"},
    {},
]
FAULTS = [
    *(fault for keys in _SPECS for fault in lint(QosSpec(id="1", name="gold", consumer="both", keys=keys))),
    *lint(QosSpec(id="1", name="gold", consumer="back-end", keys={})),
    *lint(QosSpec(id="1", name="gold", consumer="back-end", keys={"maxIOPS": "5"})),
    *lint(QosSpec(id="1", name="gold", consumer="both", keys={"maxIOPS": "5"})),
    *lint(QosSpec(id="1", name="gold", consumer="front-end", keys={"maxIOPS": "5"})),
    *lint(QosSpec(id="1", name="gold", consumer="sideways", keys={})),
]


def test_every_fault_is_said_in_one_line_with_its_spec_and_key() -> None:
    assert {fault.code for fault in FAULTS} == set(LintCode)
    for fault in FAULTS:
        said = fault_words(fault)
        assert said.isprintable()
        assert said.startswith('QoS spec "gold"' if fault.key is None else f'QoS spec "gold", {fault.key}: ')
        assert "{" not in said
        assert "None" not in said


@pytest.mark.parametrize(
    ("consumer", "keys", "words"),
    [
        ("back-end", {"total_iops_sec": "500"}, "unless librbd shall limit (Cinder's RBD driver from 1.3.0 on)"),
        (
            "back-end",
            {"total_iops_sec": "500", "total_iops_sec_max": "900", "size_iops_sec": "4096"},
            "unless librbd shall limit"
            " (Cinder's RBD driver from 1.3.0 on, without size_iops_sec and total_iops_sec_max)",
        ),
        (
            "back-end",
            {"total_iops_sec_per_gb": "30", "total_iops_sec_max": "900"},
            "so QEMU limits nothing, nor does librbd: no key is a limit of Cinder's RBD driver; set the consumer to"
            " front-end",
        ),
        (
            "both",
            {"total_iops_sec": "500", "total_iops_sec_max": "900"},
            "librbd too with Cinder's RBD driver from 1.3.0 on, without total_iops_sec_max; set",
        ),
        (
            "both",
            {"total_iops_sec_per_gb": "30"},
            "and librbd does not: no key is a limit of Cinder's RBD driver; set",
        ),
    ],
)
def test_of_librbd_is_said_what_cinders_driver_sets_there(consumer: str, keys: dict[str, str], words: str) -> None:
    fault = lint(QosSpec(id="1", name="gold", consumer=consumer, keys=keys))[0]
    assert words in fault_words(fault)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"total_iop_sec": "5"},
            'QoS spec "gold", total_iop_sec: unknown key, it does nothing; did you mean total_iops_sec?',
        ),
        (
            {"total_iops_sec": "500", "total_iops_sec_max": "400"},
            'QoS spec "gold", total_iops_sec_max: 400 is below total_iops_sec (500),'
            " and no volume can be attached with it; raise it or remove it",
        ),
        (
            {"total_iops_sec_per_gb": "5 k"},
            'QoS spec "gold", total_iops_sec_per_gb: "5 k" is not a whole number; write 5000 for 5 k',
        ),
        (
            {"total_bytes_sec": "100m"},
            'QoS spec "gold", total_bytes_sec: "100m" is not a whole number;'
            " write 100000000 for 100MB or 104857600 for 100MiB",
        ),
        (
            {"total_bytes_sec": "1e9"},
            'QoS spec "gold", total_bytes_sec: "1e9" is not a whole number; write plain digits',
        ),
    ],
)
def test_a_line_says_what_is_wrong_and_what_to_do(keys: dict[str, str], line: str) -> None:
    assert [fault_words(fault) for fault in lint(QosSpec(id="1", name="gold", consumer="front-end", keys=keys))] == [
        line
    ]


def test_what_an_operator_wrote_cannot_break_the_line() -> None:
    for fault in lint(
        QosSpec(id="1", name="go\nld", consumer="front-end", keys={"read\x1b[2J": "5", "read_iops_sec": "{x}\n"})
    ):
        assert fault_words(fault).isprintable()
