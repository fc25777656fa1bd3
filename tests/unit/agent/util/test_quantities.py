"""Numbers with units, as people write them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.util import quantities
from plimsoll_agent.util.quantities import Quantity
from tests.unit.values import examples

SIZE, BYTES, REQUESTS, SECONDS = Quantity


@pytest.mark.parametrize(
    ("text", "quantity", "number"),
    [
        ("0", REQUESTS, 0),
        ("500", REQUESTS, 500),
        ("2k", REQUESTS, 2000),
        ("1.5k", REQUESTS, 1500),
        ("10M", REQUESTS, 10_000_000),
        ("250 IOPS", REQUESTS, 250),
        ("3k iops", REQUESTS, 3000),
        ("250/s", REQUESTS, 250),
        ("104857600", BYTES, 104857600),
        ("100MiB", BYTES, 104857600),
        ("100MB", BYTES, 100_000_000),
        ("100 MiB/s", BYTES, 104857600),
        ("1.5GiB", BYTES, 1610612736),
        ("0.5KiB", SIZE, 512),
        ("64kB", SIZE, 64000),
        ("512 B", SIZE, 512),
        ("60", SECONDS, 60),
        ("60s", SECONDS, 60),
        ("10m", SECONDS, 600),
        ("1h30m", SECONDS, 5400),
        ("1.5m", SECONDS, 90),
        ("5.0s", SECONDS, 5),
        ("60 s", SECONDS, 60),
    ],
)
def test_a_number_may_have_the_unit_of_what_it_counts(text: str, quantity: Quantity, number: int) -> None:
    assert quantities.read(text, quantity) == number
    assert quantities.has_unit(text, quantity) == (not text.isdigit())


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5.0),
        ("0.5", 0.5),
        (" 2 ", 2.0),
        ("10s", 10.0),
        ("1m30s", 90.0),
        ("500ms", 0.5),
        ("500 ms", 0.5),
        ("5.0s", 5.0),
        ("60 s", 60.0),
        ("1.5m", 90.0),
        ("0.5h", 1800.0),
        # As Python writes floats, which settings of before may have.
        ("5.", 5.0),
        (".5", 0.5),
        ("+5", 5.0),
        ("1e1", 10.0),
        ("5E-1", 0.5),
    ],
)
def test_a_time_may_be_seconds_or_a_duration(text: str, number: float) -> None:
    assert quantities.read_time(text) == number


@pytest.mark.parametrize(
    "text", ["five", "nan", "inf", "", ".", "5 s s", "5  s", "1_0", "-1", "1e999", "e1", "10w", "٣"]
)
def test_what_is_no_time_is_told_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be seconds, such as 10, 0\.5, 500ms, 10s or 1m, not "):
        quantities.read_time(text)


@pytest.mark.parametrize(
    ("text", "quantity", "message"),
    [
        ("100m", BYTES, "'100m' is ambiguous; write 100MB (100000000) or 100MiB (104857600)"),
        ("100M", BYTES, "'100M' is ambiguous; write 100MB (100000000) or 100MiB (104857600)"),
        ("100Mb/s", BYTES, "'100Mb/s' is ambiguous; write 100MB (100000000) or 100MiB (104857600)"),
        ("1.5KB", SIZE, "'1.5KB' is ambiguous; write 1.5kB (1500) or 1.5KiB (1536)"),
        ("1.0001M", BYTES, "'1.0001M' is ambiguous; write 1.0001MB (1000100)"),
        ("100m", REQUESTS, "'100m' is ambiguous; write 100M (100000000)"),
        ("2K", REQUESTS, "'2K' is ambiguous; write 2k (2000)"),
        ("2MiB", REQUESTS, "'2MiB' is ambiguous; write 2M (2000000)"),
        ("1.5", REQUESTS, "'1.5' is no whole number of requests per second; write one, such as 2"),
        ("0.1MiB", BYTES, "'0.1MiB' is no whole number of bytes per second; write one, such as 104858"),
        (
            "eight",
            REQUESTS,
            "must be a whole number, or one with a unit, such as 500, 2k or 10M, not 'eight'",
        ),
        ("10w", SECONDS, "must be a whole number, or one with a unit, such as 60, 60s or 10m, not '10w'"),
        ("1.5", SECONDS, "'1.5' is no whole number of seconds; write one, such as 2"),
        ("0s", SECONDS, "0s must be more than 0"),
    ],
)
def test_what_is_no_such_number_is_refused_with_what_to_write(text: str, quantity: Quantity, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        quantities.read(text, quantity)
    assert str(error.value) == message
    assert not quantities.has_unit(text, quantity)


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
