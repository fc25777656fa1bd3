"""Tables for people and CSV for spreadsheets."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from typing import Any

import pytest
from cliff.columns import FormattableColumn

from plimsoll_agent.terminal.formats import Csv, Table, Value

NOTHING = argparse.Namespace()


class Column(FormattableColumn[Any]):
    """A value that people read otherwise than machines."""

    def human_readable(self) -> str:
        return f"<{self._value}>"


def table(names: Sequence[str], *rows: Sequence[object]) -> list[str]:
    out = io.StringIO()
    Table().emit_list(names, rows, out, NOTHING)
    return out.getvalue().splitlines()


def one(names: Sequence[str], values: Sequence[object]) -> list[str]:
    out = io.StringIO()
    Table().emit_one(names, values, out, NOTHING)
    return out.getvalue().splitlines()


def cells(names: Sequence[str], *rows: Sequence[object]) -> list[list[str]]:
    out = io.StringIO()
    Csv().emit_list(names, rows, out, NOTHING)
    return list(csv.reader(io.StringIO(out.getvalue())))


def test_columns_stand_below_their_names() -> None:
    assert table(("guest", "actual"), ("a", "250 IOPS"), ("instance-1", "-")) == [
        "GUEST       ACTUAL",
        "a           250 IOPS",
        "instance-1  -",
    ]


@pytest.mark.parametrize("name", ["🚢🚢", "データ", "e\u0301te\u0301", "abc"])
def test_columns_stand_straight_beside_wide_characters(name: str) -> None:
    wide = {"🚢🚢": 4, "データ": 6, "e\u0301te\u0301": 3, "abc": 3}[name]
    head, row, other = table(("guest", "disk"), (name, "vda"), ("instance-1", "vdb"))
    assert head.index("DISK") == other.index("vdb") == 12
    assert row == name + " " * (12 - wide) + "vda"


def test_a_column_is_as_wide_as_its_widest_name_on_the_terminal() -> None:
    head, wide, other = table(("guest", "disk"), ("データデータ", "vda"), ("instance", "vdb"))
    assert wide == "データデータ  vda"
    assert head.index("DISK") == other.index("vdb") == 14


def test_no_line_ends_in_spaces() -> None:
    assert all(line == line.rstrip() for line in table(("a", "b"), ("x", ""), ("", "long enough"), ("", "")))


def test_an_empty_list_is_its_head() -> None:
    assert table(("guest", "disk")) == ["GUEST  DISK"]


def test_people_read_words_and_a_dash_for_nothing() -> None:
    assert table(("a", "b", "c"), (Column("x"), None, 0))[1].split() == ["<x>", "-", "0"]


def test_one_disk_is_shown_a_line_for_each_word() -> None:
    assert one(("guest", "actual"), ("🚢", None)) == ["guest   🚢", "actual  -"]


def test_a_cell_of_csv_is_text_that_a_spreadsheet_can_read() -> None:
    limits = {"total_iops_sec": 250, "group_name": "both"}
    rows = cells(
        ("guest", "actual", "desired", "defined", "cluster", "size"),
        (Column("a;b,c"), Column(limits), Column({}), Column(None), ["a:1", "b:1"], 5),
    )
    assert rows == [
        ["guest", "actual", "desired", "defined", "cluster", "size"],
        ["a;b,c", "total_iops_sec=250 group_name=both", "unlimited", "", "a:1 b:1", "5"],
    ]


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_of_csv_is_a_formula_to_a_spreadsheet(begins: str) -> None:
    """Tenants choose the names of guests, of their groups and of what else is shown."""
    name = f"{begins}HYPERLINK(1)"
    _, row = cells(("a", "b", "c", "d", "e"), (name, Column(name), [name], {name: 1}, -5))
    assert all(cell[0] not in "=+-@\t\r" for cell in row[:4])
    assert all(cell.endswith(("HYPERLINK(1)", "HYPERLINK(1)=1")) for cell in row[:4])
    assert row[4] == "-5", "a number is none"


def test_a_reason_in_csv_is_json() -> None:
    _, row = cells(("reason",), (Column({"code": "rule", "rule": "a b"}),))
    assert row == ['{"code": "rule", "rule": "a b"}']


def test_bare_values_have_a_dash_for_nothing_and_no_heads() -> None:
    out = io.StringIO()
    Value().emit_list(("a", "b", "c"), [(Column({}), None, 5), ("x\x1b", "", 0)], out, NOTHING)
    assert out.getvalue() == "unlimited - 5\nx? - 0\n"


def test_a_value_of_several_lines_stands_below_itself() -> None:
    assert one(("guest", "why"), ("a", "first\n  second")) == ["guest  a", "why    first", "       second"]


@pytest.mark.parametrize(("width", "lines"), [("12", 3), ("0", 2)])
def test_the_width_of_a_table_is_the_one_that_is_asked_for(width: str, lines: int) -> None:
    parser = argparse.ArgumentParser()
    Table().add_argument_group(parser)
    out = io.StringIO()
    Table().emit_one(("a", "b"), ("x", "words that are long enough"), out, parser.parse_args(["--max-width", width]))
    assert len(out.getvalue().splitlines()) == lines


def test_one_disk_in_csv_is_a_head_and_a_row() -> None:
    out = io.StringIO()
    Csv().emit_one(("guest", "size"), ("a", None), out, NOTHING)
    assert out.getvalue() == "guest,size\na,\n"
