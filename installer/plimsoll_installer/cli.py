"""The command line: ``install install``, ``install rollback``, ``install remove``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from plimsoll_installer import lock, machine, node, removal, room, wheelhouse
from plimsoll_installer.errors import InstallError
from plimsoll_installer.hand import Hand
from plimsoll_installer.layout import Layout
from plimsoll_installer.node import Node
from plimsoll_installer.system import runner, system_of

_USAGE = 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(_USAGE, f"{self.prog}: {message}\n")


def main(argv: Sequence[str]) -> int:
    """Returns 0 done, 1 not done, 64 usage."""
    asked = _parser().parse_args(argv)
    os.umask(0o022)
    layout = Layout(Path(asked.root).resolve())
    try:
        if layout.is_node and os.geteuid() != 0:
            raise InstallError("run it as root")
        return _act(asked, layout)
    except InstallError as error:
        problem = str(error)
    except OSError as error:
        problem = room.explain(error)
    except KeyboardInterrupt:
        problem = "interrupted; run it again to complete it"
    sys.stderr.write(f"install: {' '.join(problem.split())}\n")
    return 1


def _act(asked: argparse.Namespace, layout: Layout) -> int:
    as_json = asked.format == "json"
    say: Callable[[str], None] = (lambda _: None) if as_json else _say
    hand = Hand(runner(lock.held), as_root=os.geteuid() == 0)
    here = Node(layout, hand, system_of(hand, layout), machine.here(), _python(), asked.check, say=say)
    here.skip_state_check = getattr(asked, "skip_state_check", False)
    here.patience, here.warn = asked.wait, lambda words: print(words, file=sys.stderr)
    source, make = None, None
    if asked.command == "install":
        source = wheelhouse.load(asked.wheelhouse.resolve())
        make = None if asked.check else hand.directory
    with lock.locked(layout.base, here.patience, here.warn, make=make):
        if source is not None:
            versions = node.install(here, source, asked.extras)
        elif asked.command == "rollback":
            versions = node.rollback(here, asked.only_from)
        else:
            versions = removal.remove(here, state=asked.state)
    for words in here.notes:
        print(f"note: {words}", file=sys.stderr)
    if as_json:
        summary = {"changed": bool(here.did), "version": versions.current, "previous": versions.previous}
        print(json.dumps(summary | {"did": here.did, "notes": here.notes}))
    elif not here.did:
        say(f"nothing to do: plimsoll {versions.current} is installed" if versions.current else "nothing to do")
    return 0


def _say(sentence: str) -> None:
    print(sentence, flush=True)


def _python() -> str:
    """The Python for environments, by its real path, so that no later Python replaces it. All users must be able to
    run it."""
    python = Path(sys.executable).resolve()
    for part in python.parents:
        if not part.stat().st_mode & 0o001:
            raise InstallError(f"{python}: plimsoll's users cannot run it: they may not enter {part}")
    return str(python)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="install", description="Installs plimsoll on this node, without a package index.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="install|rollback|remove")
    install = commands.add_parser("install", help="install the version of this wheelhouse")
    install.add_argument(
        "--extras", type=_extras, default=None, metavar="NAME,...",
        help="openstack, region, report, or '' for none; default: those of the current version",
    )  # fmt: skip
    install.add_argument(
        "--wheelhouse", type=Path, default=Path(sys.argv[0]).resolve().parent, metavar="DIR",
        help="an unpacked wheelhouse; default: the one that contains this file",
    )  # fmt: skip
    rollback = commands.add_parser("rollback", help="switch back to the version before")
    rollback.add_argument(
        "--from", default="", dest="only_from", metavar="VERSION",
        help="only where this is the current version, or an install of it was interrupted; otherwise do nothing",
    )  # fmt: skip
    remove = commands.add_parser("remove", help="remove plimsoll; settings, state and users stay")
    remove.add_argument("--state", action="store_true", help="remove settings, state and users too")
    for each in (install, rollback):
        each.add_argument(
            "--skip-state-check", action="store_true",
            help="switch even if the version cannot read or check the state",
        )  # fmt: skip
    for each in (install, rollback, remove):
        each.add_argument("--check", action="store_true", help="print what would be done, and do nothing")
        each.add_argument("-f", "--format", choices=("text", "json"), default="text", help="one JSON object, or text")
        each.add_argument(
            "--wait",
            type=float,
            default=600,
            metavar="SECONDS",
            help="how long to wait for another run or a pass; default: 600",
        )
        each.add_argument(
            "--root", default=os.environ.get("PLIMSOLL_ROOT", "/"), help="for tests: install into a directory"
        )
    return parser


def _extras(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)
