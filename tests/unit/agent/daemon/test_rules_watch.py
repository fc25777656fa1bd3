"""Which text of the rules file counts, while something may be writing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.daemon.rules_watch import RulesWatch
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.store.state import Busy
from tests.fakes import raising

BUSY = "changed just now"


def text(watch: RulesWatch, path: Path) -> str | None:
    try:
        return watch.text(path)
    except Busy:
        return BUSY


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text("old")
    return path


def test_a_file_that_is_written_in_two_halves_counts_once_two_looks_agree(rules: Path) -> None:
    watch = RulesWatch(rules)
    texts = []
    for written in ("half", "half, and the rest", None, None):
        if written is not None:
            rules.write_text(written)
        watch.look(rules)
        texts.append(text(watch, rules))
    assert texts == [BUSY, BUSY, "half, and the rest", "half, and the rest"]


def test_a_file_that_is_gone_for_a_moment_is_there_all_the_same(rules: Path) -> None:
    watch = RulesWatch(rules)
    rules.unlink()
    watch.look(rules)
    assert text(watch, rules) == BUSY
    watch.look(rules)
    assert watch.text(rules) is None
    rules.write_text("new")
    for _ in range(2):
        assert text(watch, rules) == BUSY
        watch.look(rules)
    assert watch.text(rules) == "new"


def test_until_a_new_file_counts_no_pass_uses_the_old_one(rules: Path) -> None:
    """``mv rules.yaml.new rules.yaml && plimsoll enforce``: what that has lowered is not raised by the daemon."""
    watch = RulesWatch(rules)
    rules.with_name("new").write_text("new")
    rules.with_name("new").rename(rules)
    assert text(watch, rules) == BUSY


def test_a_reload_counts_at_once(rules: Path) -> None:
    watch = RulesWatch(rules)
    rules.write_text("newer")
    watch.read(rules)
    assert watch.text(rules) == "newer"


def test_what_cannot_be_read_is_an_error_until_it_can(rules: Path) -> None:
    watch = RulesWatch(rules)
    rules.write_bytes(b"\xff")
    for _ in range(2):
        watch.look(rules)
    with pytest.raises(ConfigError, match=r"rules\.yaml:1: cannot be read"):
        watch.text(rules)
    rules.write_text("good")
    for _ in range(2):
        watch.look(rules)
    assert watch.text(rules) == "good"


def test_what_could_not_be_read_is_read_again_although_the_file_is_the_same(
    rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setattr(
            "plimsoll_agent.util.schema.read", raising(ConfigError("rules.yaml: cannot be read: Too many open files"))
        )
        watch = RulesWatch(rules)
    with pytest.raises(ConfigError, match="Too many open files"):
        watch.text(rules)
    watch.look(rules)
    assert watch.text(rules) == "old"


def test_another_file_is_read_as_it_is_and_then_watched(rules: Path) -> None:
    watch = RulesWatch(rules)
    other = rules.with_name("other.yaml")
    other.write_text("other")
    assert watch.text(other) == "other"
    for _ in range(2):
        watch.look(other)
    other.write_text("half of another")
    watch.look(other)
    assert text(watch, other) == BUSY


def test_a_link_that_leads_to_another_file_counts_as_an_edit(rules: Path) -> None:
    link, other = rules.with_name("link"), rules.with_name("other.yaml")
    other.write_text("other")
    link.symlink_to(rules)
    watch = RulesWatch(link)
    link.unlink()
    link.symlink_to(other)
    for _ in range(2):
        watch.look(link)
    assert watch.text(link) == "other"
