"""The samples in etc/: generated where they can be, harmless as shipped, and right once uncommented."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from oslo_config import generator

from plimsoll_agent.config import settings as config
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules import loader
from plimsoll_agent.rules import model as rules
from plimsoll_agent.util.frozen import names

ETC = Path(__file__).parents[2] / "etc"
CONF, RULES = ETC / "plimsoll.conf.sample", ETC / "rules.yaml.sample"
SETTINGS = ["--namespace", "plimsoll", "--wrap-width", "79"]
DEFAULT = Limits(total_iops_sec=250, total_iops_sec_max=500, total_bytes_sec=104857600, total_bytes_sec_max=125829120)


def uncommented(text: str) -> str:
    """The settings in a sample: a # with one space behind it begins words, any other stands before a setting."""
    return re.sub(r"^#(?! ?$| \S)", "", text, flags=re.MULTILINE)


def test_the_settings_sample_is_what_the_options_say(tmp_path: Path) -> None:
    generated = tmp_path / "generated"
    generator.main([*SETTINGS, "--output-file", str(generated)])
    assert CONF.read_text() == generated.read_text(), (
        f"the settings have changed: oslo-config-generator {' '.join(SETTINGS)} --output-file etc/{CONF.name}"
    )


@pytest.fixture
def _no_files_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(config, "CONFIG_FILE", tmp_path / "none.conf")
    monkeypatch.setattr(config, "CONFIG_DIR", tmp_path / "none.d")


@pytest.mark.usefixtures("_no_files_of_this_machine")
def test_the_settings_sample_as_shipped_changes_no_setting() -> None:
    assert config.load([CONF]) == config.load()


@pytest.mark.usefixtures("_no_files_of_this_machine")
def test_the_settings_sample_shows_the_defaults(tmp_path: Path) -> None:
    shown = tmp_path / "plimsoll.conf"
    shown.write_text(uncommented(CONF.read_text()))
    settings, defaults = config.load([shown]), config.load()
    assert settings.mode_chosen
    assert not defaults.mode_chosen
    assert (settings.mode, settings.uri, settings.bounds) == ("observe", defaults.uri, defaults.bounds)


def test_the_rules_sample_as_shipped_limits_no_disk() -> None:
    assert loader.parse(RULES.read_text(), RULES.name) == rules.Rules()


def test_the_rules_sample_uncommented_has_exactly_the_default_that_it_speaks_of() -> None:
    assert loader.parse(uncommented(RULES.read_text()), RULES.name).default == DEFAULT


def test_the_rules_sample_has_an_example_of_each_kind_of_rule() -> None:
    examples = loader.parse(uncommented(RULES.read_text()), RULES.name).rules
    words = set(names(rules.Match))
    assert {word for rule in examples for word in words if getattr(rule.match, word)} == words
    bare = rules.Rule(name="", match=rules.Match())
    said = set(names(rules.Rule))
    assert {word for rule in examples for word in said if getattr(rule, word) != getattr(bare, word)} == said
    assert any(rule.manage and not rule.override for rule in examples)
    assert any(rule.limits == Limits() for rule in examples)
    assert any(rule.limits and rule.limits.group_name for rule in examples)


def test_no_rule_of_the_sample_hides_another() -> None:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    assert loader.check(uncommented(RULES.read_text()), now).warnings == 0
