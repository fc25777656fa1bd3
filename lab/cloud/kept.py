"""What the lab keeps, made ahead: ``python -m lab.cloud.kept make NAME...``, and ``missing NAME...`` to ask.

For script/setup, which does much of this while the virtual environment is being made. So it needs nothing beyond
Python's own library.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from lab import ansiblecore, wheelhouses

from . import containers, databases, fleetrelease, image, preflight, release, servicesenv
from .command import LabError
from .layout import Layout

Say = Callable[[str], None]


def _image(cache: Path, say: Say) -> object:
    preflight.check_these(preflight.FOR_THE_IMAGE)
    return image.ensure(cache, say)


def _openstack(cache: Path, say: Say) -> object:
    return servicesenv.ensure(cache, say)


def _nova(cache: Path, say: Say) -> object:
    return servicesenv.ensure(cache, say, "nova")


def _release(cache: Path, say: Say) -> object:
    preflight.check_these(preflight.FOR_THE_IMAGE)
    return fleetrelease.KEPT.ensure(cache, say)


def _ansible(cache: Path, say: Say) -> object:
    return ansiblecore.install(cache)


def _container(cache: Path, say: Say) -> object:
    preflight.check_these(preflight.FOR_THE_IMAGE, preflight.FOR_CONTAINERS)
    return containers.ensure(cache, say)


def _wheels(cache: Path, say: Say) -> object:
    return wheelhouses.dependencies()


KEPT: dict[str, tuple[Callable[[Path], object], Callable[[Path, Say], object]]] = {
    "daemons": (release.made, release.ensure),
    "image": (image.cached, _image),
    "openstack": (servicesenv.cached, _openstack),
    "databases": (databases.openstacks_cached, databases.ensure_openstack),
    "nova": (lambda cache: servicesenv.cached(cache, "nova"), _nova),
    "nova-databases": (databases.novas_cached, databases.ensure_nova),
    "release": (fleetrelease.cached, _release),
    "ansible": (lambda cache: ansiblecore.kept(cache).is_dir(), _ansible),
    "container": (containers.cached, _container),
    "wheels": (lambda cache: wheelhouses.fetched(), _wheels),
}
"""What tells whether it is there, and what makes it; by name."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.cloud.kept", description=__doc__)
    parser.add_argument("command", choices=("make", "missing"))
    parser.add_argument("names", nargs="+", choices=KEPT, metavar="NAME", help=", ".join(KEPT))
    arguments = parser.parse_args()
    cache = Layout.from_environment().cache
    for name in arguments.names:
        there, make = KEPT[name]
        if arguments.command == "missing":
            if not there(cache):
                print(name)
            continue
        try:
            preflight.check_root()
            make(cache, lambda line: print(line, flush=True))
        except LabError as error:
            print(f"lab cloud: {error}", file=sys.stderr)
            return 1
    return 0


def _end(signum: int, frame: FrameType | None) -> None:
    """So that what is half made is removed: Python would end without that."""
    sys.exit(128 + signum)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main())
