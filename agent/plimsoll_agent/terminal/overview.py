"""The list of all commands, and what to type in place of an unknown one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from plimsoll_agent.util.text import printable

_INDENT = 2
_MOST_NEAR = 5


def overview(commands: Mapping[str, str], width: int) -> Iterator[str]:
    """A line for each command with what it does, wrapped below itself."""
    from plimsoll_agent.terminal.wrap import folded  # here, since only help needs it

    column = _INDENT + max(map(len, commands)) + 2
    for name, what in sorted(commands.items()):
        first, *rest = folded(what, width - column)
        yield f"{' ' * _INDENT}{name}".ljust(column) + first
        yield from (" " * column + line for line in rest)


def in_order(argv: Sequence[str], names: Sequence[str]) -> list[str]:
    """The words of the command first, where options stand before them: ``-f json disk list``."""
    nouns = {name.split()[0] for name in names}
    for at, word in enumerate(argv):
        if word in nouns and (at == 0 or argv[0].startswith("-")):
            end = next((i for i in range(at, len(argv)) if argv[i].startswith("-")), len(argv))
            return [*argv[at:end], *argv[:at], *argv[end:]]
    return list(argv)


def unknown(argv: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Lines about a command that does not exist: which one may be meant."""
    end = next((i for i, word in enumerate(argv) if word.startswith("-")), len(argv))
    words = list(argv[:end])
    below = [name for name in names if name.split()[: len(words)] == words]
    if words and below:
        yield f"plimsoll {' '.join(words)}: the command is incomplete; use one of:"
        suggestions = below
    else:
        text = printable(" ".join(words or argv))
        suggestions = _of_noun(words, names) or _ending_like(words, names) or _near(words, names)
        yield f"plimsoll: there is no command {text}; " + ("use:" if suggestions else "see: plimsoll --help")
    yield from (f"  plimsoll {name}" for name in sorted(suggestions))


def _of_noun(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """``rules check`` and ``rules test`` for ``rules lint``; nothing where the noun is a command itself."""
    return [name for name in names if words and name.split()[0] == words[0] and name != words[0]]


def _ending_like(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """``disk hold add`` for ``hold add GUEST``, and ``disk hold list`` for ``hold``: a word before is missing."""
    for length in range(len(words), 0, -1):
        matches = [name for name in names if list(words[:length]) in _parts(name.split()[1:], length)]
        if matches:
            return matches
    return []


def _parts(words: Sequence[str], length: int) -> list[Sequence[str]]:
    return [list(words[at : at + length]) for at in range(len(words) - length + 1)]


def _near(words: Sequence[str], names: Sequence[str]) -> list[str]:
    import difflib

    text = " ".join(words[: max(len(name.split()) for name in names)])
    near = difflib.get_close_matches(text, names, n=_MOST_NEAR, cutoff=0.6)
    nouns = {name.split()[0] for name in names}
    for noun in difflib.get_close_matches(words[0] if words else "", nouns, n=1, cutoff=0.6):
        near += [name for name in names if name.split()[0] == noun and name not in near]
    return near
