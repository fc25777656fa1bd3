"""Reads the queries of a finished dashboard, with values for its variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

# Grafana's own variables; an hour contains at least two samples of all series.
BUILT_IN = {"__rate_interval": "1h", "__interval": "5m", "__range": "1d"}
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::\w+)?\})")
_LABEL_VALUES = re.compile(r"label_values\((?P<selector>.*), (?P<label>\w+)\)", re.DOTALL)

Ask = Callable[[str, str], Sequence[str]]
"""(selector of series, label) → the values of the label."""


def queries(dashboard: Mapping[str, Any], values: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """(title of the panel, PromQL) of all targets. Variables that ``values`` lacks are set to "all".

    Raises ``ValueError`` for one that has no "all".
    """
    return [(panel["title"], filled(dashboard, target["expr"], values)) for panel, target in targets(dashboard)]


def filled(dashboard: Mapping[str, Any], promql: str, values: Mapping[str, str] | None = None) -> str:
    return _filled(promql, {**BUILT_IN, **_alls(dashboard), **(values or {})})


def panels(dashboard: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Without rows, but with what these hold where they are folded."""
    for panel in dashboard["panels"]:
        yield from panels(panel) if panel["type"] == "row" else [panel]


def targets(dashboard: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for panel in panels(dashboard):
        for target in panel.get("targets", ()):
            yield panel, target


def chosen(dashboard: Mapping[str, Any], ask: Ask, desired: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables as Grafana sets them on loading: "all" where there is one, else the first value.

    ``desired`` are choices of the user. Raises ``ValueError`` where a variable has no values.
    """
    found = {**_alls(dashboard), **(desired or {})}
    for variable in _variables(dashboard):
        if variable["type"] != "query" or variable["name"] in found:
            continue
        values = ask(*asked(variable, found))
        if not values:
            raise ValueError(f"{dashboard['uid']}: nothing to choose from for ${variable['name']}")
        found[variable["name"]] = sorted(values)[0]
    return found


def asked(variable: Mapping[str, Any], values: Mapping[str, str]) -> tuple[str, str]:
    """The selector and the label of a variable's label_values()."""
    match = _LABEL_VALUES.fullmatch(variable["query"])
    if match is None:
        raise ValueError(f"${variable['name']}: not label_values(selector, label): {variable['query']}")
    return _filled(match["selector"], values), match["label"]


def _variables(dashboard: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    listed: Sequence[Mapping[str, Any]] = dashboard["templating"]["list"]
    return listed


def _alls(dashboard: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["allValue"] for each in _variables(dashboard) if each.get("allValue")}


def _filled(text: str, values: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in values:
            raise ValueError(f"no value for ${name} in {text}")
        return values[name]

    return _VARIABLE.sub(value, text)
