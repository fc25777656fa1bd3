"""The file of QoS specs and volume types, which the storage team writes."""

from __future__ import annotations

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.qos.file import parse, text_of
from plimsoll_agent.qos.lint import lint
from plimsoll_agent.util.schema import decoded
from tests.fuzz.refusals import assert_each_has_a_line


def target(data: bytes) -> None:
    try:
        read = parse(decoded(data, "qos.yaml"), "qos.yaml")
    except ConfigError as error:
        assert_each_has_a_line(error, "qos.yaml")
        return
    for spec in read.declared.specs.values():
        lint(spec.as_cinders)
    assert parse(text_of(read.declared), "again").declared == read.declared
