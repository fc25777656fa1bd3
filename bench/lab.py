"""The lab under a bench: up for it, told line by line, and down after it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from lab.cloud import Cloud, LabError


def say(line: str = "") -> None:
    print(line, flush=True)


def in_lab(measure: Callable[[Cloud], object], parts: Sequence[str] = ("ceph", "libvirt")) -> int:
    """The exit status of a bench. ``PLIMSOLL_LAB_KEEP=1`` leaves the lab up."""
    cloud = Cloud(say=say)
    try:
        cloud.up(parts)
        measure(cloud)
    except (LabError, RuntimeError, AssertionError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        if not os.environ.get("PLIMSOLL_LAB_KEEP"):
            cloud.down()
    return 0
