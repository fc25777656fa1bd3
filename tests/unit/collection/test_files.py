"""What becomes of a file of the role agent: written, kept or removed."""

from __future__ import annotations

import pytest

from tests.collection import plugin

files = plugin("modules.files")

MARK = "# Written by Ansible"
OURS = f"{MARK}, by the role plimsoll.cloud.agent.\n[Service]\n"
THEIRS = "[Service]\nNice=5\n"


@pytest.mark.parametrize(
    ("content", "keep", "before", "after"),
    [
        ("a: 1", False, None, "a: 1\n"),
        ("a: 1\n\n", False, "a: 2\n", "a: 1\n"),
        ("a: 1", True, "a: 2\n", "a: 2\n"),
        ("a: 1", True, None, "a: 1\n"),
        ("", False, OURS, None),
        ("", False, None, None),
        # An operator's own, as a drop-in site.conf or credentials that no variable has.
        ("", False, THEIRS, THEIRS),
        ("", False, "", ""),
    ],
)
def test_a_file_without_content_is_removed_only_where_ansible_wrote_it(
    content: str, keep: bool, before: str | None, after: str | None
) -> None:
    assert files.desired_text({"content": content, "keep": keep}, before, MARK) == after
