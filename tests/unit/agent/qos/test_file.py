"""The file of QoS specs and volume types: what it may say, what is wrong with it and where, and back to text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.qos.file import Declaration, DeclaredType, Spec, parse, read, text_of
from plimsoll_agent.qos.review import review
from plimsoll_agent.util.schema import LARGEST, decoded
from tests import golden
from tests.unit.values import examples

FULL = """\
qos_specs:
  gold-iops:
    consumer: front-end
    keys:
      total_iops_sec_per_gb: 30
      total_iops_sec_per_gb_min: "0500"
      total_bytes_sec: null
      note: ""
  idle:
    consumer: both
    keys: {}
volume_types:
  gold:
    description: fast
    public: false
    qos_spec: gold-iops
    extra_specs: {volume_backend_name: rbd, "RESKEY:availability_zones": az1}
  bare:
    qos_spec: none
"""


def declared(text: str) -> Declaration:
    return parse(text, "qos.yaml").declared


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        parse(text, "qos.yaml")
    return str(error.value).splitlines()


def spec(body: str) -> str:
    """A file with the one spec s."""
    return f"qos_specs:\n  s:\n    {body}\nvolume_types: {{}}\n"


def keys(body: str) -> str:
    return spec(f"consumer: both\n    keys:\n      {body}")


def type_(body: str) -> str:
    """A file with the spec gold and the one type t."""
    return f"qos_specs:\n  gold: {{consumer: both, keys: {{}}}}\nvolume_types:\n  t:\n    {body}\n"


# --- what a file may say


def test_a_file_is_read_as_it_stands() -> None:
    assert declared(FULL) == Declaration(
        specs={
            "gold-iops": Spec(
                "gold-iops",
                "front-end",
                {
                    "total_iops_sec_per_gb": "30",
                    "total_iops_sec_per_gb_min": "0500",
                    "total_bytes_sec": None,
                    "note": "",
                },
            ),
            "idle": Spec("idle", "both", {}),
        },
        types={
            "gold": DeclaredType(
                name="gold",
                qos_spec="gold-iops",
                description="fast",
                public=False,
                extra_specs={"volume_backend_name": "rbd", "RESKEY:availability_zones": "az1"},
            ),
            "bare": DeclaredType(name="bare", qos_spec=None),
        },
    )


def test_what_a_type_does_not_say_is_left_as_it_is() -> None:
    bare = declared(FULL).types["bare"]
    assert (bare.description, bare.public, bare.extra_specs) == (None, None, None)


def test_no_extra_specs_is_something_else_than_none_said() -> None:
    assert declared(type_("qos_spec: gold\n    extra_specs: {}")).types["t"].extra_specs == {}


def test_a_limit_with_a_unit_is_declared_in_the_digits_that_cinder_needs() -> None:
    body = "total_bytes_sec_per_gb: 1.5MiB\n      total_iops_sec: 2k\n      total_iops_sec_max: 100m\n      note: 2k"
    assert declared(keys(body)).specs["s"].keys == {
        "total_bytes_sec_per_gb": "1572864",
        "total_iops_sec": "2000",
        "total_iops_sec_max": "100m",  # lint asks what is meant
        "note": "2k",
    }


def test_a_limit_with_a_unit_in_cinder_is_exported_as_it_stands_there_for_plan_to_correct() -> None:
    text = text_of(Declaration({"s": Spec("s", "both", {"total_bytes_sec": "100MiB"})}))
    assert "total_bytes_sec: 100MiB\n" in text
    assert declared(text).specs["s"].keys == {"total_bytes_sec": "104857600"}


# --- what is wrong with it, and where


def faults_of(kind: str, text: str) -> str:
    return "\n".join(faults({"spec": spec, "keys": keys, "type": type_}.get(kind, "{}\n".format)(text)))


def test_each_file_has_the_faults_of_the_golden_file() -> None:
    golden.transcript("qos_file_faults.txt", faults_of)


def test_thousands_of_faults_are_cut_short() -> None:
    told = faults("qos_specs: {}\nvolume_types:\n" + "".join(f"  t{n}: {{qos_spec: x}}\n" for n in range(3000)))
    assert (len(told), told[-1]) == (201, "qos.yaml:203: and 2800 more faults")


def test_a_file_that_cannot_be_one_is_refused_with_its_name(tmp_path: Path) -> None:
    for content in (b"\xff", b"x" * (LARGEST + 1)):
        with pytest.raises(ConfigError, match=r"qos\.yaml:1: "):
            decoded(content, "qos.yaml")
    with pytest.raises(ConfigError, match=r"not-there: no such file"):
        read(tmp_path / "not-there")


# --- and back


def test_an_export_has_numbers_as_numbers_and_one_order() -> None:
    specs = {
        "b": Spec("b", "both", {"z": "010", "a": "100", "m": None, "n": "-5"}),
        "a": Spec("a", "front-end", {}),
    }
    assert text_of(
        Declaration(
            specs,
            {
                "t": DeclaredType(
                    name="t", qos_spec="a", description="on", public=True, extra_specs={"k": "<is> True"}
                )
            },
        )
    ) == (
        "qos_specs:\n  a:\n    consumer: front-end\n    keys: {}\n  b:\n    consumer: both\n    keys:\n"
        "      a: 100\n      m: null\n      n: -5\n      z: '010'\n"
        "volume_types:\n  t:\n    qos_spec: a\n    description: 'on'\n    public: true\n    extra_specs:\n"
        "      k: <is> True\n"
    )


# Cinder takes almost anything in names, keys and values.
_WORD = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]), min_size=1, max_size=12)
_PRINTABLE = _WORD.filter(lambda word: word.isprintable() and word == word.strip() and word != "none")
_ODD = st.sampled_from(
    ["yes", "null", "~", "1e3", "0x1F", "1_000", "1:30", "2026-01-01", "=", "<<", "- a", "#", "", "é\U0001f600"]
)
_VALUE = st.none() | st.integers(-(10**20), 10**20).map(str) | st.text(max_size=20) | _ODD
_KEYS = st.dictionaries(
    (_PRINTABLE | _ODD.filter(bool)).filter(lambda key: key not in ("consumer", "updated_at")), _VALUE, max_size=4
)


@st.composite
def _anything(draw: st.DrawFn) -> Declaration:
    names = draw(st.lists(_PRINTABLE | st.sampled_from(["yes", "1", "null"]), max_size=3, unique=True))
    consumers = st.sampled_from(["front-end", "back-end", "both"])
    specs = {name: Spec(name, draw(consumers), draw(_KEYS)) for name in names}
    types = draw(st.lists(_PRINTABLE | st.sampled_from(["no", "2", "~"]), max_size=3, unique=True))
    desired = st.sampled_from([*names, None])
    public, description = st.none() | st.booleans(), st.none() | st.text(max_size=20)
    extra = st.none() | _KEYS
    return Declaration(
        specs,
        {
            name: DeclaredType(
                name=name,
                qos_spec=draw(desired),
                description=draw(description),
                public=draw(public),
                extra_specs=draw(extra),
            )
            for name in types
        },
    )


@examples
@given(_anything())
def test_what_is_exported_is_read_back_as_it_was_or_refused(before: Declaration) -> None:
    try:
        text = text_of(before)
    except ConfigError:  # control characters and the like
        text = ""
        texts = [value for spec in before.specs.values() for value in spec.keys.values()]
        texts += [type.description for type in before.types.values()]
        texts += [value for type in before.types.values() for value in (type.extra_specs or {}).values()]
        assert not all(value is None or value.isprintable() for value in texts)
    if text:
        assert declared(text) == before


def test_a_name_that_the_file_uses_for_nothing_is_not_exported_as_such() -> None:
    with pytest.raises(ConfigError, match="none stands for no QoS spec"):
        text_of(Declaration({"none": Spec("none", "both", {})}, {"t": DeclaredType(name="t", qos_spec="none")}))


def test_the_sample_declares_nothing_until_its_signs_are_removed_and_good_things_then() -> None:
    sample = (Path(__file__).parents[4] / "etc/qos.yaml.sample").read_text(encoding="utf-8")
    assert not [line for line in sample.splitlines() if line and not line.startswith("#")]
    said = declared(re.sub(r"^#(?! ?$| \S)", "", sample, flags=re.MULTILINE))
    assert (list(said.specs), list(said.types)) == (["gold-iops", "standard"], ["gold", "standard", "scratch"])
    assert [finding for finding in review(said) if finding.severity == "error"] == []
