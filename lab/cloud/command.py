"""Run one program to its end, and never leave it behind."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path


class LabError(Exception):
    """What a person can act on, in one line."""


# A helper must not outlive a starter that was killed: it would go on writing below a root that the next
# start has wiped, or wait 300 s for a monitor that is gone.
DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
# The same for programs that leave children of their own: they get a process namespace that ends with them.
# Mounts made by debootstrap end there too.
IN_A_BOX = (*DIES_WITH_US, "unshare", "--fork", "--pid", "--mount", "--kill-child", "--")


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float = 60,
    stdin: str | None = None,
    boxed: bool = False,
    log: Path | None = None,
) -> str:
    """Standard output of the program; with `log`, output and errors go to that file instead.

    Raises LabError when it fails, cannot be started, or is not done after `timeout` seconds and so killed.
    """
    words = [str(word) for word in argv]
    prefix = IN_A_BOX if boxed else DIES_WITH_US
    try:
        with log.open("ab") if log else nullcontext(subprocess.PIPE) as output:
            done = subprocess.run(
                [*prefix, *words],
                input=stdin,
                stdout=output,
                stderr=output,
                text=True,
                errors="replace",
                timeout=timeout,
            )
    except subprocess.TimeoutExpired:
        raise LabError(f"{_short(words)}: no answer in {timeout:g} s") from None
    if done.returncode:
        said = log.read_text(errors="replace") if log else done.stderr or done.stdout
        raise LabError(f"{_short(words)}: {_last_line(said) or f'exit status {done.returncode}'}")
    return done.stdout or ""


def _short(words: Sequence[str]) -> str:
    """The program and its arguments without the configuration that all of them are given."""
    shown = [Path(words[0]).name]
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in ("-c", "--keyring", "-k"):
            skip = True
        else:
            shown.append(word)
    text = " ".join(shown)
    return text if len(text) <= 120 else text[:117] + "..."


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
