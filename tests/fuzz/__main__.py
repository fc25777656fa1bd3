"""Fuzzes all targets, or some: ``python -m tests.fuzz [--executions N] [--seed S] [TARGET...]``.

N executions over all of them, by default as many as the depth of the tests asks for. It prints what each target did,
and exits with 1 where one failed: the input is then in ``build/fuzz``. Once its defect is mended, it belongs into the
target's corpus.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests import depth
from tests.fuzz.mutate import LONGEST
from tests.fuzz.run import HERE, SHARES, TARGETS

ROOT = HERE.parents[1]
FOUND = ROOT / "build/fuzz"
_LONGEST_SECONDS = 120
"""After which one input hangs; ``run.bounded`` finds what is only slow."""
_MOST_MEBIBYTES = 1024


@dataclass(frozen=True)
class Fuzzed:
    """What one target did; ``failure`` is None, or the end of what it printed."""

    name: str
    executions: int
    seconds: float
    features: int
    failure: str | None

    @property
    def line(self) -> str:
        state = "ok" if self.failure is None else "FAILED"
        rate = self.executions / self.seconds
        return f"{self.name:<14} {self.executions:>9} {rate:>8.0f} {self.features:>8}  {state}"


def fuzz(name: str, executions: int, seed: int) -> Fuzzed:
    begun = time.monotonic()
    executions = math.ceil(executions * SHARES.get(name, 1))
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="plimsoll-fuzz-", dir=memory if os.access(memory, os.W_OK) else None
    ) as scratch:
        kept = Path(scratch) / "kept"
        kept.mkdir()
        options = (
            f"-runs={executions} -seed={seed} -max_len={LONGEST} -len_control=0 -timeout={_LONGEST_SECONDS}"
            f" -rss_limit_mb={_MOST_MEBIBYTES} -artifact_prefix={FOUND}/{name}- -print_final_stats=1"
        )
        command = [sys.executable, "-m", "tests.fuzz.guided", name, *options.split(), str(kept)]
        done = subprocess.run(
            [*command, str(HERE / "corpus" / name)],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": scratch},
            capture_output=True,
            text=True,
            errors="replace",
        )
    said = done.stdout + done.stderr
    executed = re.search(r"stat::number_of_executed_units: (\d+)", said)
    features = re.findall(r" ft: (\d+)", said)
    return Fuzzed(
        name,
        int(executed[1]) if executed else 0,
        time.monotonic() - begun,
        int(features[-1]) if features else 0,
        None if done.returncode == 0 and executed else said[-6000:],
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzzes the parsers.")
    parser.add_argument("--executions", type=int, default=depth.count(quick=20_000, landing=100_000, soak=1_200_000))
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    given = parser.parse_args()
    unknown = set(given.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    names = given.targets or list(TARGETS)
    FOUND.mkdir(parents=True, exist_ok=True)
    print(f"seed {given.seed}\n{'TARGET':<14} {'EXECUTIONS':>9} {'/S':>8} {'FEATURES':>8}  STATE", flush=True)
    one = partial(fuzz, executions=-(-given.executions // len(names)), seed=given.seed)
    results: list[Fuzzed] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for fuzzed in pool.map(one, names):
            print(fuzzed.line, flush=True)
            results.append(fuzzed)
    failed = [fuzzed for fuzzed in results if fuzzed.failure is not None]
    print(f"{sum(fuzzed.executions for fuzzed in results)} executions, {len(failed)} of {len(names)} targets failed")
    for fuzzed in failed:
        print(f"\n--- {fuzzed.name}, the input is in {FOUND}\n{fuzzed.failure}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
