"""Unit and functional tests where their luck may end: ``python -m tests.circumstances [NAME...]``, for script/soak.

In another order, at another date, in another time zone, on a machine that is three times as slow. A date is shifted
(``tests/shifted.c``) for unit tests only: Prometheus, systemd and others of functional tests have their own clocks.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

SHIFTED = Path(__file__).with_name("shifted.c")
UNIT, FUNCTIONAL = "tests/unit", "tests/functional"
THIRD = "3"
"""The niceness whose weight is half of that of 0 (526 to 1024 in Linux' ``sched_prio_to_weight``)."""


@dataclass(frozen=True)
class Circumstance:
    why: str
    words: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    at: datetime | None = None
    """The date at which the tests begin."""
    busy: int = 0
    """How many processes have each core beside them. With one, tests have a third of it, by ``THIRD``."""
    folders: Sequence[str] = (UNIT, FUNCTIONAL)


def of_today(now: datetime, seed: int) -> dict[str, Circumstance]:
    late = now.replace(hour=23, minute=59, second=30, microsecond=0)
    leap_year = next(year for year in range(now.year + 1, now.year + 9) if year % 4 == 0)
    return {
        "order": Circumstance(
            "a test that needs what another one left",
            ["--random-order", "--random-order-bucket=module", f"--random-order-seed={seed}"],
        ),
        "midnight": Circumstance(
            "a day that ends while a test runs", at=late if late > now else late + timedelta(days=1), folders=[UNIT]
        ),
        "leap-day": Circumstance(
            "a year without that day", at=datetime(leap_year, 2, 29, 12, tzinfo=UTC), folders=[UNIT]
        ),
        "clocks-back": Circumstance(
            "the hour that comes twice",
            environment={"TZ": "Europe/Berlin"},
            at=datetime(2027, 10, 31, 0, 30, tzinfo=UTC),
            folders=[UNIT],
        ),
        "far-east": Circumstance("the date of UTC taken for that of here", environment={"TZ": "Pacific/Apia"}),
        "slow": Circumstance("a wait by the clock", busy=1),
    }


def run(circumstance: Circumstance) -> bool:
    """Whether all tests passed."""
    with tempfile.TemporaryDirectory() as directory, _busy(circumstance.busy):
        environment = {**os.environ, **circumstance.environment}
        if circumstance.at is not None:
            library = Path(directory, "shifted.so")
            subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, SHIFTED, "-ldl"], check=True)
            shift = int(circumstance.at.timestamp() - time.time())
            environment |= {"LD_PRELOAD": str(library), "SHIFTED_SECONDS": str(shift)}
        statuses = [
            subprocess.run(
                [
                    *(["nice", "-n", THIRD] if circumstance.busy else []),
                    *[sys.executable, "-m", "pytest", "-q", "--numprocesses=2", *circumstance.words, folder],
                    *["-m", "not slow and not packaging"],
                ],
                env=environment,
                check=False,
            ).returncode
            for folder in circumstance.folders
        ]
    return not any(statuses)


@contextmanager
def _busy(number: int) -> Iterator[None]:
    processes = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number * (os.cpu_count() or 1))
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> int:
    known = of_today(datetime.now(UTC), random.randrange(10**6))
    parser = argparse.ArgumentParser(prog="python -m tests.circumstances", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(known)}; default: all")
    names = parser.parse_args().names or list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no such circumstance: {unknown[0]} (there are {', '.join(known)})")
    failed = []
    for name in names:
        print(f"--- {name}: {known[name].why}: {' '.join(known[name].words)}", flush=True)
        if not run(known[name]):
            failed.append(name)
    if failed:
        print(f"circumstances: tests failed in {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
