"""``script/bench``: what plimsoll costs; the first word is one of those below."""

from __future__ import annotations

import sys
from importlib import import_module

from bench import logs

MEASUREMENTS = ("enforce", "nodes", "metrics", "reaction", "forecast", "ordered_return", "fairness", "congestion")
OF_LOGS = ("hist", "slow")


def main(words: list[str]) -> int:
    if words and words[0] in OF_LOGS:
        return logs.main(words[0], words[1:])
    chosen, *rest = words if words and words[0] in MEASUREMENTS else [MEASUREMENTS[0], *words]
    status: int = import_module(f"bench.{chosen}").main(rest)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
