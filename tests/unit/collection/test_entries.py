"""Lists of a site that sets them as text: -e NAME=VALUE and INI inventories know nothing else."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from lab.collection import plugin

filters = plugin("filter.entries").FilterModule().filters()


@pytest.mark.parametrize(
    ("value", "desired"),
    [
        ("12", ["12"]),
        ("3,12", ["3", "12"]),
        (" ham, fra ,", ["ham", "fra"]),
        ("[ham, fra]", ["ham", "fra"]),
        ("", []),
        (12, ["12"]),
        ([3, 12], ["3", "12"]),
        (["ham"], ["ham"]),
    ],
)
def test_text_is_a_list_of_its_entries_and_not_of_its_characters(value: object, desired: list[str]) -> None:
    assert filters["entries"](value) == desired


@pytest.mark.parametrize(
    ("value", "desired"),
    [
        ("cephadm shell -- ceph", ["cephadm", "shell", "--", "ceph"]),
        ("[cephadm, shell, --, ceph]", ["cephadm", "shell", "--", "ceph"]),
        ("ssh 'root@{host} -v'", ["ssh", "root@{host} -v"]),
        (["ceph", "--id", "admin"], ["ceph", "--id", "admin"]),
    ],
)
def test_text_is_a_command_of_its_words(value: object, desired: list[str]) -> None:
    assert filters["words"](value) == desired


@pytest.mark.parametrize("name", ["entries", "words"])
@pytest.mark.parametrize("value", [{"a": 1}, None, True, "[a", "[a]: b"])
def test_what_is_no_list_is_refused_by_its_text(name: str, value: object) -> None:
    with pytest.raises(AnsibleFilterError, match="not a list"):
        filters[name](value)


def test_a_quote_without_its_end_is_no_command() -> None:
    with pytest.raises(AnsibleFilterError, match="not the words of a command"):
        filters["words"]("ceph 'osd")
