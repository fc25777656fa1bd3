"""A QoS spec gives the limits that Cinder, Nova, libvirt and QEMU would make of it, or nobody knows them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.adapters.libvirt.domxml import parse
from plimsoll_agent.catalogue.qosspec import Evaluation, PerGb, QosSpec, evaluate
from plimsoll_agent.model.limits import Limits, LimitsError
from plimsoll_agent.model.reason import Code, Unknown
from tests import golden
from tests.unit.values import SIX, examples

DATA = Path(__file__).parents[2] / "data"

# The specs of the cloud whose Nova wrote the definitions in data/.
GOLD = {
    "read_iops_sec": "500",
    "write_iops_sec": "400",
    "read_iops_sec_max": "1000",
    "write_iops_sec_max": "800",
    "total_bytes_sec": "20971520",
}
PER_GB = {"total_iops_sec_per_gb": "30", "total_iops_sec_per_gb_min": "100", "total_bytes_sec_per_gb": "1048576"}


def a_spec(keys: Mapping[str, str | None], consumer: str = "front-end") -> QosSpec:
    return QosSpec(id="8b6f3a52-0d39-4a57-9a3e-4c1f3f6a2b10", name="gold", consumer=consumer, keys=keys)


def evaluated(keys: Mapping[str, str | None], gib: int = 1) -> Evaluation:
    found = evaluate(a_spec(keys), gib)
    assert isinstance(found, Evaluation), found
    return found


def limits(keys: Mapping[str, str | None], gib: int = 1) -> Limits:
    return evaluated(keys, gib).limits


def volumes(definition: str) -> list[Limits]:
    """What a real Nova wrote into the definition for the guest's volumes."""
    _, disks = parse((DATA / definition).read_text(encoding="utf-8"))
    return [disk.defined for disk in disks if disk.volume_id and isinstance(disk.defined, Limits)]


# --- against what a real Cinder and Nova did


def test_fixed_limits_and_bursts_are_those_that_nova_wrote() -> None:
    assert volumes("01-gold-baseline.live.xml") == [limits(GOLD)]


def test_limits_per_gb_are_those_that_nova_wrote_for_four_gib() -> None:
    assert volumes("attached/02-pergb-attached-4g.live.xml") == [limits(GOLD), limits(PER_GB, 4)]


def test_an_extended_volume_gets_the_limits_of_its_new_size() -> None:
    assert limits(PER_GB, 8) == Limits(total_iops_sec=240, total_bytes_sec=8388608)


def test_a_burst_length_is_honoured_on_top_of_what_nova_wrote() -> None:
    odd = {"read_iops_sec": "300", "read_iops_sec_max": "600", "size_iops_sec": "8192"}
    assert volumes("attached/32-odd-maxlen.live.xml")[-1] == limits(odd)
    longer = limits(odd | {"read_iops_sec_max_length": "30"})
    assert longer == Limits(read_iops_sec=300, read_iops_sec_max=600, read_iops_sec_max_length=30, size_iops_sec=8192)


# --- the arithmetic


def answer(gib: str, keys: str) -> str:
    found = evaluate(a_spec(json.loads(keys)), int(gib))
    if isinstance(found, Unknown):
        assert (found.reason.code, found.reason.facts["spec"]) == (Code.QOS_SPEC_UNREADABLE, "gold")
        return f"unknown: {found.reason.facts['detail']}"
    return f"{found.limits.in_effect()}{'' if found.said else ', of no key that Nova passes on'}"


def test_each_spec_gives_what_the_golden_file_has() -> None:
    golden.transcript("qos_spec_limits.txt", answer)


def test_the_arithmetic_is_told_for_each_limit_that_depends_on_the_size() -> None:
    keys = PER_GB | {"total_iops_sec_max": "20000", "size_iops_sec": "4096"}
    assert set(evaluated(keys, 1000).arithmetic) == {
        PerGb(parameter="total_iops_sec", per_gb=30, gib=1000, minimum=100, maximum=20000, result=20000),
        PerGb(parameter="total_bytes_sec", per_gb=1048576, gib=1000, minimum=None, maximum=None, result=1048576000),
    }
    assert evaluated(GOLD).arithmetic == ()


_texts = st.sampled_from(["0", "1", "7", "30", "500", "501", "20000", "-5"])
_keys = st.dictionaries(
    st.sampled_from([f"{base}{end}" for base in SIX for end in ("", "_max", "_per_gb", "_per_gb_min")]), _texts
)


def by_cinder_and_nova(keys: Mapping[str, str], gib: int) -> Limits:
    """The facts, straightforwardly: Cinder turns its own copy of the keys into others, Nova picks thirteen."""
    specs: dict[str, int] = {name: int(text) for name, text in keys.items()}
    for x in SIX:
        if f"{x}_per_gb" in specs:
            v = max(specs.pop(f"{x}_per_gb_min", 0), specs.pop(f"{x}_per_gb") * gib)
            specs[x] = min(v, specs.pop(f"{x}_max", v))
    thirteen = (*SIX, *(f"{base}_max" for base in SIX), "size_iops_sec")
    return Limits.from_mapping({name: number for name, number in specs.items() if name in thirteen})


@given(_keys, st.integers(1, 20000))
@examples
def test_any_spec_gives_what_the_formula_gives_or_nothing_where_qemu_would_refuse(
    keys: dict[str, str], gib: int
) -> None:
    found = evaluate(a_spec(keys), gib)
    try:
        desired = by_cinder_and_nova(keys, gib)
    except LimitsError:
        assert isinstance(found, Unknown)
    else:
        assert isinstance(found, Evaluation)
        assert found.limits == desired


# hypothesis takes texts from the code under test, too.
_strangers = st.text(max_size=20).filter(lambda key: not key.startswith((*SIX, "size_iops_sec")))


@given(_keys, st.integers(1, 1000), _strangers | st.just("group_name"), st.none() | st.text(max_size=5))
@examples
def test_an_unknown_key_never_changes_a_limit(
    keys: dict[str, str], gib: int, stranger: str, value: str | None
) -> None:
    assert evaluate(a_spec(keys | {stranger: value}), gib) == evaluate(a_spec(keys), gib)


@given(st.integers(0, 10**6), st.none() | st.integers(0, 10**6), st.none() | st.integers(1, 10**6), st.data())
@examples
def test_a_larger_volume_never_gets_less(
    per_gb: int, least: int | None, most: int | None, data: st.DataObject
) -> None:
    keys = {"total_iops_sec_per_gb": str(per_gb)}
    keys |= {} if least is None else {"total_iops_sec_per_gb_min": str(least)}
    keys |= {} if most is None else {"total_iops_sec_max": str(most)}
    small = data.draw(st.integers(1, 1000))
    large = data.draw(st.integers(small, 1000))
    before, after = limits(keys, small).total_iops_sec, limits(keys, large).total_iops_sec
    assert before <= after
    assert most is None or after <= most


# --- reading Cinder's answer


def told(**other: object) -> dict[str, object]:
    return {"id": "1", "name": "gold", "consumer": "both", "specs": {"read_iops_sec": "5"}} | other


def test_a_spec_is_read_with_nulls_kept_and_numbers_as_text() -> None:
    spec = QosSpec.read(told(specs={"read_iops_sec": 5, "write_iops_sec": None, "x": "y"}, links=[]))
    assert spec == QosSpec(
        id="1", name="gold", consumer="both", keys={"read_iops_sec": "5", "write_iops_sec": None, "x": "y"}
    )
    assert QosSpec.read(told(specs=None)).keys == {}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (None, "a QoS spec is an object, not None"),
        ([], "a QoS spec is an object, not []"),
        (told(id=None), "QoS spec 'gold': id must be text, not None"),
        (told(id=7), "QoS spec 'gold': id must be text, not 7"),
        (told(name=""), "QoS spec '1': name must be text, not ''"),
        (told(consumer=None), "QoS spec 'gold': consumer must be text, not None"),
        ({"id": "1", "name": "gold", "consumer": "both"}, "QoS spec 'gold': specs is missing"),
        (told(specs=["read_iops_sec"]), "QoS spec 'gold': specs must be an object, not ['read_iops_sec']"),
        (told(specs={"read_iops_sec": 5.0}), "QoS spec 'gold': read_iops_sec must be text or null, not 5.0"),
        (told(specs={"read_iops_sec": True}), "QoS spec 'gold': read_iops_sec must be text or null, not True"),
        (told(specs={"read_iops_sec": ["5"]}), "QoS spec 'gold': read_iops_sec must be text or null, not ['5']"),
        (told(specs={5: "5"}), "QoS spec 'gold': a key must be text, not 5"),
    ],
    ids=repr,
)
def test_what_is_no_spec_is_refused_by_name_and_not_read_as_one_without_keys(value: object, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(fault)}$"):
        QosSpec.read(value)


def test_a_value_is_shown_up_to_sixty_characters() -> None:
    with pytest.raises(ValueError, match=f"not '{'x' * 58}'$"):
        QosSpec.read(told(specs="x" * 58))
    with pytest.raises(ValueError, match=f"not '{'x' * 59}…$"):
        QosSpec.read(told(specs="x" * 59))


def test_only_front_end_and_both_are_for_nova() -> None:
    consumers = ("front-end", "both", "back-end", "Front-End", "frontend")
    assert [one for one in consumers if a_spec(GOLD, one).for_nova] == ["front-end", "both"]


def test_only_a_key_per_gb_makes_a_spec_depend_on_the_size() -> None:
    assert a_spec(PER_GB).per_gib
    assert not a_spec(GOLD | {"total_iops_sec_per_gb_min": "500", "iops_per_gb": "3"}).per_gib
