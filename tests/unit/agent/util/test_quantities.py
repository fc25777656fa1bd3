"""Numbers with units, as people write them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.util import quantities
from plimsoll_agent.util.quantities import Quantity
from tests import golden
from tests.unit.values import examples

SIZE, BYTES, REQUESTS, SECONDS = Quantity


def reading(kind: str, text: str) -> str:
    try:
        if kind == "time":
            return str(quantities.read_time(text))
        quantity = Quantity[kind.upper()]
        number = str(quantities.read(text, quantity))
        return f"{number}, by its unit" if quantities.has_unit(text, quantity) else number
    except ValueError as error:
        assert kind == "time" or not quantities.has_unit(text, quantity)
        return str(error)


def test_each_number_is_what_the_golden_file_has() -> None:
    golden.transcript("quantities.txt", reading)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 5",
        "5 ",
        "-1",
        "+5",
        "0250",
        "1_000",
        "1e3",
        "0x10",
        ".5",
        "5.",
        "٢k",
        "5  k",
        "5k\n",
        "9" * 19,
        "1" * 10**6,
    ],
)
@pytest.mark.parametrize("quantity", Quantity)
def test_what_python_would_take_for_a_number_is_refused(text: str, quantity: Quantity) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        quantities.read(text, quantity)


POWERS = {"k": 3, "M": 6, "G": 9}


@examples
@given(
    digits=st.integers(0, 10**12),
    letter=st.sampled_from(["", "k", "M", "G"]),
    space=st.sampled_from(["", " "]),
)
def test_a_number_times_its_unit_is_exact_or_refused(digits: int, letter: str, space: str) -> None:
    """No float is involved: 0.1 + 0.2 of anything is not 0.30000000000000004."""
    exact = Fraction(digits, 10**6) * 10 ** POWERS.get(letter, 0)
    text = f"{digits // 10**6}.{digits % 10**6:06}{space * bool(letter)}{letter}"
    if exact.denominator == 1:
        assert quantities.read(text, REQUESTS) == exact
    else:
        with pytest.raises(ValueError, match="is no whole number"):
            quantities.read(text, REQUESTS)


@examples
@given(number=st.integers(1, 999), letter=st.sampled_from("KMGTP"))
def test_binary_and_decimal_units_of_bytes_differ(number: int, letter: str) -> None:
    decimal = letter.lower() if letter == "K" else letter
    binary, power = quantities.read(f"{number}{letter}iB", BYTES), 1 + "KMGTP".index(letter)
    assert binary == number * 1024**power
    assert quantities.read(f"{number}{decimal}B", BYTES) == number * 1000**power < binary


@examples
@given(text=st.text(max_size=12), quantity=st.sampled_from(Quantity))
def test_any_text_is_a_number_or_a_message_in_one_line(text: str, quantity: Quantity) -> None:
    said = ""
    try:
        assert quantities.read(text, quantity) >= 0
    except ValueError as error:
        said = str(error)
    assert said.isprintable()
    if said:
        for other, number in quantities.candidates(text, quantity):
            assert quantities.read(other, quantity) == number, "what it tells to write is accepted"


@examples
@given(number=st.integers(0, 10**15), quantity=st.sampled_from([SIZE, BYTES, REQUESTS]))
def test_how_to_write_a_number_is_read_as_that_number(number: int, quantity: Quantity) -> None:
    assert quantities.read(quantities.written(number, quantity), quantity) == number


def test_bytes_are_written_with_the_largest_binary_unit_that_is_exact() -> None:
    numbers = [0, 1000, 1536, 104857600, 1536 * 2**20, 2**50]
    assert [quantities.written(number, BYTES) for number in numbers] == [
        "0",
        "1000",
        "1536",
        "100MiB",
        "1536MiB",
        "1PiB",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.5, "0.5s"), (90, "90s"), (900.0, "15m"), (7200, "2h"), (172800, "2d")]
)
def test_seconds_are_written_in_the_largest_unit_that_is_exact_and_read_as_the_same(
    seconds: float, text: str
) -> None:
    assert quantities.with_unit(seconds, Quantity.SECONDS) == text
    assert quantities.read_time(text) == seconds
