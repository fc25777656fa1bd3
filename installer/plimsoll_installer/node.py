"""The steps of the commands. The next run completes one that was killed at any point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from plimsoll_installer import environment, intent, lock, placing, room, statecheck, wheelhouse
from plimsoll_installer.environment import Environment, Recipe, version_of
from plimsoll_installer.errors import InstallError
from plimsoll_installer.hand import Hand
from plimsoll_installer.intent import Intent
from plimsoll_installer.layout import Layout, linked
from plimsoll_installer.machine import Machine
from plimsoll_installer.placing import Thing
from plimsoll_installer.system import System
from plimsoll_installer.wheelhouse import Wheelhouse

_PAST = {
    "ask": "asked",
    "complete": "completed",
    "copy": "copied",
    "make": "made",
    "place": "placed",
    "remove": "removed",
    "stop": "stopped",
    "switch": "switched",
}


@dataclass
class Node:
    """The node, the options of this run, and what it did."""

    layout: Layout
    hand: Hand
    system: System
    machine: Machine
    python: str
    """The Python that environments are made with."""
    check: bool = False
    skip_state_check: bool = False
    patience: float = 0
    """Seconds to wait for a pass."""
    say: Callable[[str], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    did: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def tell(self, verb: str, rest: str) -> None:
        """Report one step that was done, or would be."""
        sentence = f"would {verb} {rest}" if self.check else f"{_PAST[verb]} {rest}"
        self.did.append(sentence)
        self.say(sentence)

    @property
    def current(self) -> str:
        """The name of the current environment; empty if there is none."""
        return linked(self.layout.current)

    @property
    def previous(self) -> str:
        return linked(self.layout.previous)


@dataclass(frozen=True, slots=True)
class Versions:
    """The current version, or what it would be, and the one to roll back to; empty for none."""

    current: str = ""
    previous: str = ""


# --- install ---------------------------------------------------------------------------------------------


def install(node: Node, source: Wheelhouse, extras: Sequence[str] | None) -> Versions:
    """Install this version; with ``extras`` None, with those of the current version.

    Raises ``InstallError``, ``OSError``.
    """
    source.verify()
    source.fit(node.machine)
    if extras is None:
        extras = _extras_actual(node)
    for extra in extras:
        if extra not in source.extras:
            raise InstallError(f"{source.name} was built without {extra!r}; it has: {', '.join(source.extras)}")
    recipe = Recipe(source.name, source.digest, tuple(sorted(set(extras))), node.python)
    home = environment.choose(node.layout, source.version, recipe)
    _bring(node, source)
    if not _can_be_used(node, home):
        same_version = node.current != home.name and version_of(node.current) == source.version
        _make(node, home, source, replace(recipe, replaces=node.current if same_version else ""))
    return _settle(node, home, source, Intent(home.name, _before(node, home), back=False))


def _extras_actual(node: Node) -> tuple[str, ...]:
    recipe = environment.environment(node.layout, node.current).recipe()
    return recipe.extras if recipe else ()


def _bring(node: Node, source: Wheelhouse) -> None:
    """Copy the wheelhouse to the node, for a later rollback."""
    home = node.layout.wheelhouses / source.name
    if source.directory.resolve() == home.resolve():
        return
    with suppress(InstallError):
        there = wheelhouse.load(home)
        if there.digest == source.digest and there.verify():
            return
    room.demand(node.layout.base, home, sum(file.stat().st_size for file in source.files()))
    node.tell("copy", f"the wheelhouse to {home}")
    if not node.check:
        node.hand.copy(source.files(), home)


def _can_be_used(node: Node, home: Environment) -> bool:
    """Whether it is complete and runs. The current one is not tried: its passes show whether it runs."""
    return home.is_whole() and (home.name == node.current or environment.runs(node.hand, home))


def _make(node: Node, home: Environment, source: Wheelhouse, recipe: Recipe) -> None:
    needed = environment.needed_bytes(source, recipe.extras)
    room.demand(node.layout.base, home.directory, needed)
    extras = f" with {', '.join(recipe.extras)}" if recipe.extras else ""
    if node.check:
        node.tell("make", f"{home.directory}{extras}, about {room.mib(needed)} MiB")
        return
    kept = wheelhouse.load(node.layout.wheelhouses / source.name)
    kept.verify()  # the node's copy may be damaged
    try:
        environment.make(node.hand, home, kept, recipe)
        node.system.relabel(home.directory)
        environment.finish(node.hand, home, recipe)
    except (InstallError, OSError) as error:
        is_full = room.is_full(node.layout.base, error)
        with suppress(OSError):
            node.hand.remove(home.directory)
        if is_full:
            raise room.ran_out(home.directory, needed) from error
        raise
    node.tell("make", f"{home.directory}{extras}")


def _before(node: Node, home: Environment) -> str:
    """The environment to roll back to: of another version, never of the same."""
    under_way = intent.read(node.layout)
    begun = [under_way.current, under_way.previous] if under_way else []
    for name in [node.current, *begun, node.previous]:
        if name and version_of(name) != home.version:
            return name
    return ""


# --- rollback --------------------------------------------------------------------------------------------


def rollback(node: Node, only_from: str = "") -> Versions:
    """Switch back to the version before; with ``only_from``, only if that is the current version or was about to be.

    Raises ``InstallError``, ``OSError``.
    """
    want = _way_back(node)
    if only_from and version_of(want.previous) != only_from:
        return Versions(version_of(node.current), version_of(node.previous))
    if not want.current or want.current == want.previous:
        raise InstallError(f"{node.layout.previous}: this node has no earlier version to go back to")
    home = environment.environment(node.layout, want.current)
    source = None
    if not _can_be_used(node, home):
        source, recipe = _source_of(node, home)
        source.verify()
        source.fit(node.machine)
        _make(node, home, source, recipe)
    return _settle(node, home, source, want)


def _way_back(node: Node) -> Intent:
    """Back to ``previous``. After a killed run: complete its rollback, or undo its install."""
    under_way = intent.read(node.layout)
    if under_way is None:
        return Intent(node.previous, node.current, back=True)
    if under_way.back:
        return under_way
    return Intent(under_way.previous, under_way.current, back=True)


def _source_of(node: Node, home: Environment) -> tuple[Wheelhouse, Recipe]:
    """The node's wheelhouse of a version whose environment is gone, and how that was made."""
    known = home.recipe()
    for directory in sorted(node.layout.wheelhouses.glob(f"plimsoll-{home.version}-*")):
        source = wheelhouse.load(directory)
        if known is None or directory.name == known.wheelhouse:
            extras = known.extras if known else tuple(sorted({*_extras_actual(node)} & {*source.extras}))
            return source, Recipe(source.name, source.digest, extras, node.python)
    raise InstallError(
        f"{home.directory}: is gone, and its wheelhouse is not in {node.layout.wheelhouses}; unpack the one of"
        f" {home.version} and run its install"
    )


# --- what both share -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Change:
    """The changes outside of the environment."""

    want: Intent
    things: Sequence[Thing]
    missing: Sequence[Thing]
    stale: Sequence[Path]
    old: Sequence[Environment]
    switch: bool
    under_way: bool

    def __bool__(self) -> bool:
        return bool(self.switch or self.missing or self.stale or self.under_way)

    def sentences(self, was: str) -> Iterator[tuple[str, str]]:
        """Verb and object of each change."""
        for thing in self.missing:
            yield "place", str(thing.path)
        for path in self.stale:
            yield "remove", f"{path}, which {version_of(self.want.current)} does not have"
        if self.switch:
            yield "switch", f"to {self.want.current}{f' from {was}' if was else ''}"
        elif self.under_way:
            yield "complete", "what an earlier run had begun"
        for home in self.old if self else ():
            yield "remove", str(home.directory)


def _settle(node: Node, home: Environment, source: Wheelhouse | None, want: Intent) -> Versions:
    """Make units, links and ``current`` those of the version; completes an earlier run."""
    change, was = _change(node, home, source, want), node.current
    with _no_pass(node) if change.switch and not node.check else nullcontext():
        if change.switch:
            _ask_about_state(node, home)
        if change and not node.check:
            _stage(node, change)
            _commit(node, change)
    if not change and not node.check:
        # Restores users and directories that were removed; it is quick.
        node.system.make_users()
        node.system.make_directories()
    for verb, rest in change.sentences(was):
        node.tell(verb, rest)
    return Versions(version_of(want.current), version_of(want.previous) if want.previous != want.current else "")


@contextmanager
def _no_pass(node: Node) -> Iterator[None]:
    """Lock out passes: the new version could not check state that a pass writes after the check.

    Passes of older versions lock the directory, those of newer ones a file in it.
    """
    directory = node.layout.states[0]
    left = "nothing was switched; run it again"
    with (
        lock.locked(directory / lock.OF_PASSES, node.patience, node.warn, who="a pass", left=left),
        lock.locked(directory, node.patience, node.warn, who="a pass, or a program that reads there,", left=left),
    ):
        yield


def _change(node: Node, home: Environment, source: Wheelhouse | None, want: Intent) -> _Change:
    things = _ours(node, _things(node.layout, home, source))
    recipe = home.recipe()
    kept = {want.current, want.previous, node.current, recipe.replaces if recipe else ""}
    return _Change(
        want,
        things,
        [thing for thing in things if not thing.is_there()],
        placing.stale(node.layout, things),
        [old for old in environment.all_of(node.layout) if old.name not in kept],
        node.current != want.current,
        intent.read(node.layout) is not None,
    )


def _things(layout: Layout, home: Environment, source: Wheelhouse | None) -> list[Thing]:
    if home.is_whole():
        return placing.desired(layout, home.shipped(), _installer(layout, home.recipe()))
    if source is not None:  # with --check it is not made
        return placing.desired(layout, source.shipped(), (source.directory / wheelhouse.INSTALLER).read_bytes())
    raise AssertionError(home)


def _installer(layout: Layout, recipe: Recipe | None) -> bytes:
    """The installer of the current version, from its wheelhouse if that is there."""
    with suppress(OSError):
        if recipe is not None:
            return (layout.wheelhouses / recipe.wheelhouse / wheelhouse.INSTALLER).read_bytes()
    with suppress(OSError):
        return layout.installer.read_bytes()
    return b""


def _ours(node: Node, things: Sequence[Thing]) -> list[Thing]:
    ours = []
    for thing in things:
        if thing.is_foreign(node.layout):
            node.notes.append(f"{thing.path} is not plimsoll's and stays unchanged; plimsoll's is {thing.target}")
        else:
            ours.append(thing)
    return ours


def _ask_about_state(node: Node, home: Environment) -> None:
    if not home.is_whole():  # with --check
        node.tell("ask", f"plimsoll {home.version} whether it reads the state of this node")
    elif not node.skip_state_check:
        statecheck.check(node.hand, node.layout, home)


def _stage(node: Node, change: _Change) -> None:
    """Write all that needs space. Without space it leaves the node unchanged and raises ``InstallError``."""
    layout, hand, want = node.layout, node.hand, change.want
    try:
        intent.write(hand, layout, want)
        placing.list_placed(hand, layout, {thing.path for thing in change.things} | set(placing.placed(layout)))
        for thing in change.missing:
            placing.stage(hand, thing)
        if _has_previous(want):
            hand.stage_link(layout.previous, f"versions/{want.previous}")
        hand.stage_link(layout.current, f"versions/{want.current}")
    except OSError as error:
        with suppress(OSError):
            _unstage(node, change)
            if not change.under_way:
                intent.done(hand, layout)
        if room.is_full(layout.base, error):
            where = error.filename or layout.root
            raise InstallError(f"{where}: no space left; make room and run it again; nothing was switched") from error
        raise


def _has_previous(want: Intent) -> bool:
    return want.previous not in ("", want.current)


def _unstage(node: Node, change: _Change) -> None:
    things = {thing.path for thing in change.things} | set(placing.placed(node.layout))
    for path in (*sorted(things), node.layout.previous, node.layout.current):
        node.hand.unstage(path)


def _commit(node: Node, change: _Change) -> None:
    """Rename all that was staged. Users come before the units that name them, and systemd last."""
    layout, hand = node.layout, node.hand
    users = [thing for thing in change.missing if thing.path in (layout.sysusers, layout.tmpfiles)]
    for thing in users:
        hand.commit(thing.path)
    node.system.make_users()
    node.system.make_directories()
    for thing in change.missing:
        if thing not in users:
            hand.commit(thing.path)
    if _has_previous(change.want):
        hand.commit(layout.previous)
    hand.commit(layout.current)
    # Only now: after a kill, the version with these units may stay the current one for a long time.
    node.system.disable([path.name for path in change.stale if placing.is_unit(layout, path)])
    for path in change.stale:
        hand.remove(path)
    node.system.reload()
    _unstage(node, change)  # what a killed run staged
    placing.list_placed(hand, layout, {thing.path for thing in change.things})
    _prune(node, change)
    intent.done(hand, layout)


def _prune(node: Node, change: _Change) -> None:
    """Remove all versions but the current and the previous one, with their wheelhouses."""
    layout = node.layout
    for old in change.old:
        node.hand.remove(old.directory)
        node.hand.remove(old.record)
    named = [environment.environment(layout, name) for name in (change.want.current, change.want.previous)]
    kept = [*named, *environment.all_of(layout)]
    for house in sorted(layout.wheelhouses.glob("*plimsoll-*")):
        if house.is_dir() and not any(home.may_be_of(house.name) for home in kept):
            node.hand.remove(house)
