"""The labels of a site's Prometheus for regions and nodes.

Commands query and read in plimsoll's own names, ``region`` and ``instance``; here these become the site's, and back.
Alerts, rules and dashboards are made in the site's names from the start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from plimsoll_agent.util.frozen import frozen

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
"""The name of a label."""
REGION, INSTANCE = "region", "instance"
BETWEEN = "/"
"""Between the values of several labels in the name of a region."""
# Compiled at the first query: each pass imports this.
_WORD = r'(?as)"(?:[^"\\]|\\.)*"|[0-9][\w.]*|[a-zA-Z_:][\w:]*|\s+|=~|!~|!=|.'
_LISTS = ("by", "without", "on", "ignoring", "group_left", "group_right")


@frozen
class SiteLabels:
    """With several labels of a region, its name is their values with ``/`` between them."""

    region: tuple[str, ...] = (REGION,)
    instance: str = INSTANCE

    @property
    def of_targets(self) -> tuple[str, ...]:
        return (*self.region, self.instance)

    def own(self, label: str) -> str:
        """The name of a label of plimsoll's own metrics: Prometheus renames one that the target has too."""
        return f"exported_{label}" if label in self.of_targets else label

    def to_site(self, promql: str) -> str:
        """A query in the site's names."""
        if self == SiteLabels():
            return promql
        words = re.findall(_WORD, promql)
        output: list[str] = []
        braces = in_list = False
        place = 0
        while place < len(words):
            word = words[place]
            place += 1
            if word in "{}":
                braces = word == "{"
            elif word == "(" and output and _last_word(output) in _LISTS:
                in_list = True
            elif word == ")":
                in_list = False
            elif (braces or in_list) and NAME.fullmatch(word):
                if braces and word == REGION and words[place] == "=":
                    word = self._equal(json.loads(words[place + 1]))
                    place += 2
                else:
                    word = self._named(word)
            output.append(word)
        return "".join(output)

    def _named(self, label: str) -> str:
        if label == REGION:
            return ", ".join(self.region)
        return self.instance if label == INSTANCE else self.own(label)

    def _equal(self, region: str) -> str:
        """Matchers for a region; with fewer values than labels for all whose name begins so."""
        values = region.split(BETWEEN, len(self.region) - 1) if region else [""] * len(self.region)
        pairs = zip(self.region, values, strict=False)
        return ",".join(f"{label}={json.dumps(value, ensure_ascii=False)}" for label, value in pairs)

    def from_site(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        """The labels of an answer in plimsoll's names."""
        if self == SiteLabels():
            return labels
        own = {self.own(label): label for label in self.of_targets}
        result = {own.get(name, name): value for name, value in labels.items() if name not in self.of_targets}
        if any(name in labels for name in self.region):
            values = [labels.get(name, "") for name in self.region]
            result[REGION] = BETWEEN.join(values) if any(values) else ""
        if self.instance in labels:
            result[INSTANCE] = labels[self.instance]
        return result


def _last_word(output: list[str]) -> str:
    return next((word for word in reversed(output) if not word.isspace()), "")
