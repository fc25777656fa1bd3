"""The Python environment of OpenStack's services: made once with pip, kept under a name made of what is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from . import keep, preflight
from .command import run

# The one that Debian's bindings of Ceph are made for.
DEBIANS_PYTHON = "/usr/bin/python3"
SCRIPTS = Path(__file__).parents[3] / "script"
REQUIREMENTS = SCRIPTS / "openstack-requirements.txt"
CONSTRAINTS = SCRIPTS / "openstack-constraints.txt"
SPACE = 2 * 1024**3


def key() -> str:
    text = REQUIREMENTS.read_text() + CONSTRAINTS.read_text()
    return "openstack-" + hashlib.sha256(text.encode()).hexdigest()[:16]


def cached(cache: Path) -> bool:
    return (cache / key()).is_dir()


def ensure(cache: Path, say: Callable[[str], None]) -> Path:
    """The environment for the present constraints, made first if there is none.

    Not while a cloud of other constraints is up: that one's environment is removed.
    """
    return keep.ensure(
        cache,
        key(),
        _make,
        outdated=lambda: _others(cache),
        space=SPACE,
        before=lambda: say("openstack: installing OpenStack's services with pip, once, in about 2 minutes"),
    )


def manage(cache: Path, service: str, conf: Path, *words: str) -> None:
    """`nova-manage WORDS` and the like, outside of the namespace: only databases are touched."""
    bin_ = cache / key() / "bin"
    script = [bin_ / "python", "-W", "ignore", bin_ / f"{service}-manage"]
    run([str(word) for word in (*script, "--config-file", conf, *words)], timeout=180)


def script(cache: Path, file: Path, environ: Mapping[str, str], stdin: str) -> None:
    """One of `services/`, likewise outside of the namespace."""
    python = [cache / key() / "bin/python", "-W", "ignore", file]
    run([str(word) for word in ("env", *(f"{k}={v}" for k, v in environ.items()), *python)], stdin=stdin, timeout=180)


def _others(cache: Path) -> Iterable[Path]:
    return [home for home in cache.glob("openstack-*") if home.name != key()]


def _make(build: Path) -> Path:
    """It is renamed afterwards, so its scripts have to be run by its ``python``, not by their first lines."""
    home = build / "venv"
    python = home / "bin/python"
    log = build / "log"
    run([DEBIANS_PYTHON, "-m", "venv", home], log=log)
    words = ["--quiet", "--disable-pip-version-check", f"--requirement={REQUIREMENTS}", f"--constraint={CONSTRAINTS}"]
    run([python, "-m", "pip", "install", *words], timeout=1200, boxed=True, log=log)
    for file in preflight.FOR_OPENSTACK.values():
        if file.endswith(".so"):
            (home / "lib/python3.11/site-packages" / Path(file).name).symlink_to(file)
    return home
