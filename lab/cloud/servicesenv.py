"""The Python environments of OpenStack's services: made once with pip, kept under names made of what is in them.

One has Keystone and Cinder. The other has Nova, Placement and Glance too, and is made from the first: most need the
first only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from . import keep, preflight, release
from .command import run
from .release import program

Of = Literal["openstack", "nova"]

# The one that Debian's bindings of Ceph are made for.
DEBIANS_PYTHON = "/usr/bin/python3"
SCRIPTS = Path(__file__).parents[2] / "script"
REQUIREMENTS: Mapping[Of, Path] = {
    "openstack": SCRIPTS / "openstack-requirements.txt",
    "nova": SCRIPTS / "openstack-nova-requirements.txt",
}
CONSTRAINTS = SCRIPTS / "openstack-constraints.txt"
ONLY_WITH_NOVA = ("nova", "placement", "glance")
SPACE = 2 * 1024**3


def key(of: Of = "openstack") -> str:
    files = [*REQUIREMENTS.values()] if of == "nova" else [REQUIREMENTS[of]]
    text = "".join(file.read_text() for file in (*files, CONSTRAINTS))
    return f"{_prefix(of)}{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _prefix(of: Of) -> str:
    # Each release's bindings of Ceph are for its own Python.
    return f"{release.prefix()}services-{of}-"


def cached(cache: Path, of: Of = "openstack") -> bool:
    return (cache / key(of)).is_dir()


def ensure(cache: Path, say: Callable[[str], None], of: Of = "openstack") -> Path:
    """The environment for the present constraints, made first if there is none.

    Not while a cloud of other constraints is up: that one's environment is removed.
    """
    release.ensure(cache, say)
    first = ensure(cache, say) if of == "nova" else None
    which = "Nova, Placement and Glance" if first else "Keystone and Cinder"
    return keep.ensure(
        cache,
        key(of),
        lambda build: _make(cache, build, REQUIREMENTS[of], first),
        outdated=lambda: cache.glob(f"{_prefix(of)}*"),
        space=SPACE,
        before=lambda: say(f"{of}: installing {which} with pip, once, in about a minute"),
    )


def manage(cache: Path, service: str, conf: Path, *words: str) -> None:
    """`nova-manage WORDS` and the like, outside of the namespace: only databases are touched."""
    bin_ = cache / key("nova" if service in ONLY_WITH_NOVA else "openstack") / "bin"
    script = [bin_ / "python", "-W", "ignore", bin_ / f"{service}-manage"]
    run(program((*script, "--config-file", conf, *words), cache), timeout=180)


def script(cache: Path, file: Path, environ: Mapping[str, str], stdin: str) -> None:
    """One of `services/`, likewise outside of the namespace."""
    python = [cache / key() / "bin/python", "-W", "ignore", file]
    words = program(("env", *(f"{k}={v}" for k, v in environ.items()), *python), cache)
    run(words, stdin=stdin, timeout=180)


def _make(cache: Path, build: Path, requirements: Path, first: Path | None) -> Path:
    """It is renamed afterwards, so its scripts have to be run by its ``python``, not by their first lines."""
    home = build / "venv"
    python = home / "bin/python"
    log = build / "log"
    if first:
        # pip replaces nothing in it, as the constraints are the same.
        run(["cp", "--archive", "--link", first, home], timeout=1200, log=log)
    else:
        run(program([DEBIANS_PYTHON, "-m", "venv", home], cache), timeout=1200, boxed=True, log=log)
    words = ["--quiet", "--disable-pip-version-check", f"--requirement={requirements}", f"--constraint={CONSTRAINTS}"]
    # A third of it is tests of the services, which never run here: pip would compile them too.
    for step in (
        ["pip", "install", "--no-compile", *words],
        ["compileall", "-qq", "-x", "/tests/", home / "lib"],
    ):
        run(program([python, "-m", *step], cache), timeout=1200, boxed=True, log=log)
    (packages,) = home.glob("lib/python3.*/site-packages")
    tree = release.tree(cache)
    for file in (each for name in preflight.FOR_OPENSTACK.values() for each in tree.glob(name.lstrip("/"))):
        bindings = packages / file.name
        if file.suffix == ".so" and not bindings.is_symlink():
            bindings.symlink_to(Path("/") / file.relative_to(tree))
    return home
