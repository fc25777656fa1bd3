"""PromQL as text: what commands, alerts, rules and dashboards build their queries of."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from plimsoll_agent.errors import UsageError


def selector(metric: str, *matchers: str, over: str = "") -> str:
    """The metric's series; empty matchers are left out, and ``over`` is a range."""
    every = ", ".join(filter(None, matchers))
    return metric + (f"{{{every}}}" if every else "") + (f"[{over}]" if over else "")


def label_list(*labels: str) -> str:
    """Labels to group by, each once."""
    return f"({', '.join(dict.fromkeys(labels))})"


def equal(label: str, value: str) -> str:
    return f"{label}={quoted(value)}"


def any_of(label: str, values: Sequence[str]) -> str:
    """A matcher for exactly these values."""
    return matching(label, [re.escape(value) for value in values])


def matching(label: str, patterns: Sequence[str]) -> str:
    # Prometheus anchors patterns on both sides, and has an index for alternatives of plain text.
    return f"{label}=~{quoted('|'.join(patterns))}"


def quoted(text: str) -> str:
    """Quoted for PromQL, which quotes as Go does: like JSON, but without surrogates. Raises ``UsageError``."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!r} is not UTF-8; labels of Prometheus are") from error
    return json.dumps(text, ensure_ascii=False)
