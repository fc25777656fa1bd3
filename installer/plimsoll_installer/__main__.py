"""Find a Python that the wheelhouse is for, then begin. Everything here must run on a Python as old as 3.6."""

import os
import re
import sys
from pathlib import Path

OLDEST = (3, 11)


def pythons(beside: Path) -> "list[str]":
    """Paths to try for the Python that the wheelhouse beside this file was built for, or of the current version."""
    try:
        tag = re.search(r'"python": *"cp(\d)(\d+)"', (beside / "wheelhouse.json").read_text())
    except (OSError, ValueError):
        tag = None
    if tag:
        names = ["python{}.{}".format(*tag.groups())]
    else:
        later = [f"python3.{minor}" for minor in range(OLDEST[1], OLDEST[1] + 9)]
        names = [Path(os.path.realpath(str(beside / "current/bin/python"))).name, *later]
    # Not $PATH: plimsoll's users cannot run a Python in a home directory.
    return [place + name for name in names for place in ("/usr/bin/", "/usr/local/bin/")]


def begin() -> None:
    """Continue in this process, or replace it by the right Python."""
    here = Path(sys.argv[0]).resolve()
    places = pythons(here.parent)
    found = [place for place in places if os.access(place, os.X_OK) and Path(place).is_file()]
    if found and os.path.realpath(sys.executable) != os.path.realpath(found[0]):
        os.execv(found[0], [found[0], "-I", str(here), *sys.argv[1:]])  # noqa: S606
    if sys.version_info < OLDEST:
        sys.stderr.write(
            "install: this is Python {}.{}, and plimsoll needs 3.11 or later: install {}, or build a wheelhouse for a"
            " later Python that this node has\n".format(*sys.version_info[:2], places[0])
        )
        sys.exit(1)
    from plimsoll_installer.cli import main

    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    begin()
