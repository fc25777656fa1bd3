"""A hostile owner of the directory that is probed, played by ``hostile_owner.pl``: to start it, and to read it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(__file__).parent / "hostile_owner.pl"


@dataclass(frozen=True)
class Attacked:
    tries: int
    won: int
    """Tries after which something of root's was not as before."""
    hung: int
    """Steps that only their deadline ended."""
    sprung: int
    """How often something else was put in the place of a directory."""
    lost: list[str]
    """Each thing of root's that was not as before, as it was and as it is."""


def words(script: str, base: str, tries: int, shell: Sequence[str], *, kind: str, pause: float) -> list[str]:
    """The arguments of the program."""
    return [script, base, str(tries), f"{pause:g}", kind, *shell]


def read(said: str) -> Attacked:
    """What it said. Raises ``KeyError`` where it did not come to its end."""
    lines = [line.partition("=")[::2] for line in said.splitlines()]
    numbers = {key: int(value) for key, value in lines if key in ("tries", "won", "hung")}
    sprung = sum(int(value.split()[1]) for key, value in lines if key == "sprung")
    lost = [f"{key} {value}" for key, value in lines if key in ("lost", "new")]
    return Attacked(numbers["tries"], numbers["won"], numbers["hung"], sprung, lost)


def attack(script: Path, base: Path, tries: int, shell: Sequence[str], *, kind: str = "disk") -> Attacked:
    """On this machine."""
    base.mkdir(mode=0o755)
    argv = ["perl", str(PROGRAM), *words(str(script), str(base), tries, shell, kind=kind, pause=0.005)]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60 + 30 * tries, check=True)
    return read(ran.stdout)
