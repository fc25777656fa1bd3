"""Answers of the site's Prometheus, or of what is in its place."""

from __future__ import annotations

from typing import Any

from plimsoll_agent.adapters.http import Answer
from plimsoll_agent.errors import PlimsollError
from plimsoll_monitoring.adapters.prometheus import Prometheus
from tests.fuzz.refusals import assert_clear


class _Http:
    left = 10.0

    def __init__(self, content: bytes) -> None:
        self._content = content

    def ask(self, *_: object, **__: Any) -> Answer:
        return Answer(status=200, headers={}, content=self._content, redirect=None)


def target(data: bytes) -> None:
    asked = Prometheus("http://localhost:9090", token_file=None, ca_file=None, deadline=10)
    asked._http = _Http(data)  # type: ignore[assignment]
    for ask in (lambda: asked.query("up"), lambda: asked.over("up", 3600, 60)):
        asked._at = 1e9
        try:
            for series in ask():
                assert all(isinstance(value, str) for value in series.labels.values())
        except PlimsollError as error:
            assert_clear(error)
    asked._at = None
    try:
        assert isinstance(asked.now(), float)
        asked.over("up", 3600, 60)
    except PlimsollError as error:
        assert_clear(error)
    assert all(warning.isprintable() for warning in asked.warnings)
