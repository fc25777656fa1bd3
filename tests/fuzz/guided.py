"""One target under atheris, which keeps inputs that reach new code: ``python -m tests.fuzz.guided NAME OPTION...``.

The options are libFuzzer's. The input of a defect is written to a file, and the traceback to stderr.
"""

from __future__ import annotations

import random
import sys

import atheris

from tests.fuzz.mutate import mutated
from tests.fuzz.run import corpus, silence, target_named, texts


def main(name: str, *options: str) -> None:
    with atheris.instrument_imports(include=["plimsoll_agent", "plimsoll_probes", "plimsoll_insight"]):
        target = target_named(name)
    others = texts(list(corpus(name).values()))

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        return mutated(data, random.Random(seed), others, most)

    atheris.Setup([name, *options], target, custom_mutator=mutate)
    with silence():
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
