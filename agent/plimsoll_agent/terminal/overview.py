"""The list of all commands, and what to type in place of an unknown one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from plimsoll_agent.util.text import printable

_INDENT = 2
_MOST_NEAR = 2
_LIKE = 0.7
_AS_NEAR = 0.1

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "The node",
        (
            *("status", "disk list", "disk show", "disk explain", "top", "load"),
            *("plan", "enforce", "daemon", "record", "gate"),
        ),
    ),
    (
        "What stops a change, or takes it back",
        ("approve", "pause", "resume", "disk hold", "disk acknowledge", "undo"),
    ),
    ("Where limits come from", ("rules", "catalogue", "qos", "congestion")),
    ("What guests get", ("probe", "hist", "slow", "mds")),
    ("What a change or a failure would cost", ("simulate", "forecast", "drill", "return")),
    ("The region", ("region", "region explain")),
    ("Set-up", ("settings", "monitoring", "state check", "complete")),
)
"""The commands as people look for them; a noun stands for its commands but those that are named."""

NOUNS: Mapping[str, str] = {
    "disk": "List, show and explain disks",
    "disk hold": "Hold one disk at its limits, or at others, for a time",
    "disk acknowledge": "Acknowledge unknown limits of one disk: no alert",
    "rules": "Check a rules file, and test it on this node's disks",
    "catalogue": "Fetch and show what Cinder and Nova have",
    "qos": "Keep Cinder's QoS specs and volume types as a file",
    "congestion": "Reduce limits while a cluster is congested",
    "probe": "Measure in guests what they get, and list the results",
    "mds": "Watch ranks of a CephFS; end thrashing, and undo that",
    "drill": "Record, mark, report and compare drills",
    "return": "Start OSDs that are down, in waves that fit memory",
    "region": "Show all nodes; approve, pause and hold for all of them",
    "region hold": "Hold disks wherever their guests run",
    "monitoring": "Make the files for Prometheus, Nagios and Grafana",
    "state": "Check that this version can read the state files",
}
ALIASES = frozenset({"record list"})
"""Commands that stand under another name already."""
_OWN = {"complete": "Print a completion script for bash", "help": "Print help on plimsoll, or on one command"}


def overview(commands: Iterable[str], summary_of: Callable[[str], str]) -> Iterator[str]:
    """``plimsoll --help``: a line for each command or noun, in groups, and the general options."""
    names = set(commands)
    labels = {name: name if name in names else f"{name} ..." for _, members in GROUPS for name in members}
    column = _INDENT + max(map(len, labels.values())) + 2
    yield "usage: plimsoll COMMAND [options]    (plimsoll COMMAND --help; plimsoll NOUN)"
    for title, members in GROUPS:
        yield f"{title}:"
        for name in members:
            what = NOUNS.get(name) or _OWN.get(name) or summary_of(name)
            yield f"{' ' * _INDENT}{labels[name]}".ljust(column) + what
    yield from _GENERAL


_GENERAL = (
    "General options:",
    "  --config-file FILE    read FILE instead of /etc/plimsoll/plimsoll.conf",
    "  --config-dir DIR      read DIR/*.conf instead of /etc/plimsoll/plimsoll.conf.d",
    "  --color WHEN          always, never, or auto: on a terminal without NO_COLOR",
    "  -v, -q, --debug       say more, only errors, tracebacks of errors",
    "  --log-file FILE       write a log",
    "  --version             show the version",
)


def of_noun(noun: str, names: Iterable[str], summary_of: Callable[[str], str]) -> Iterator[str]:
    """``plimsoll region``: its commands, with what each does."""
    below = sorted(name for name in names if name.startswith(f"{noun} ") and name not in ALIASES)
    column = _INDENT + max(map(len, below)) + 2
    for name in below:
        yield f"{' ' * _INDENT}{name}".ljust(column) + summary_of(name)


def in_order(argv: Sequence[str], names: Sequence[str]) -> list[str]:
    """The words of the command first, where options stand before them: ``-f json disk list``."""
    nouns = {name.split()[0] for name in names}
    for at, word in enumerate(argv):
        if word in nouns and (at == 0 or argv[0].startswith("-")):
            end = next((i for i in range(at, len(argv)) if argv[i].startswith("-")), len(argv))
            return [*argv[at:end], *argv[:at], *argv[end:]]
    return list(argv)


def unknown(argv: Sequence[str], names: Sequence[str], summary_of: Callable[[str], str]) -> Iterator[str]:
    """Lines about a command that does not exist: which one may be meant."""
    words = _words(argv)
    if noun_of(argv, names):
        yield f"{' '.join(words)} is not a whole command; use one of:"
        yield from of_noun(" ".join(words), names, summary_of)
        return
    text = printable(" ".join(words or argv))
    near = _near(words, names) if words else []
    yield f"there is no command {text}; " + ("did you mean:" if near else "see: plimsoll --help")
    yield from (f"  plimsoll {name}" for name in near)


def noun_of(argv: Sequence[str], names: Iterable[str]) -> str | None:
    """The words before all options, if they are a noun alone."""
    text = " ".join(_words(argv))
    return text if text in _nouns(names) else None


def _words(argv: Sequence[str]) -> list[str]:
    end = next((i for i, word in enumerate(argv) if word.startswith("-")), len(argv))
    return list(argv[:end])


def _nouns(names: Iterable[str]) -> set[str]:
    parts = [name.split() for name in names if name not in ALIASES]
    return {" ".join(words[:length]) for words in parts for length in range(1, len(words))}


def _near(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """One or two commands or nouns: ``disk list`` for ``dsk list``, both ``hold add`` for ``hold add GUEST``."""
    nouns = _nouns(names)
    for length in range(len(words), 0, -1):
        noun = " ".join(words[:length])
        if noun in nouns:
            below = [name for name in names if name.startswith(f"{noun} ") and name not in ALIASES]
            near = _nearest(words[length:], [name.removeprefix(f"{noun} ") for name in below])
            return [f"{noun} {name}" for name in near] or (below if len(below) <= _MOST_NEAR else [noun])
    return _nearest(words, [*(name for name in names if name not in ALIASES), *nouns])


def _nearest(words: Sequence[str], names: Iterable[str]) -> list[str]:
    """Those like the first words: as a whole, else but for a word before them; the shortest first."""
    import difflib

    ratings: list[tuple[float, str]] = []
    for name in names:
        parts = name.split()
        for left_out in range(len(parts)):
            rest = parts[left_out:]
            ratio = difflib.SequenceMatcher(None, " ".join(words[: len(rest)]), " ".join(rest)).ratio()
            if ratio >= _LIKE:
                ratings.append((ratio - _AS_NEAR * bool(left_out) + _AS_NEAR / 2 * len(rest), name))
    best = max((rating for rating, _ in ratings), default=0.0)
    near = {name for rating, name in ratings if rating > best - _AS_NEAR / 3}
    return sorted(near, key=lambda name: (len(name), name))[:_MOST_NEAR]
