"""Help of a command, out of the docstring of its class and of its options: for a terminal and for its page."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator, Sequence

from plimsoll_agent.messages.tones import Tone
from plimsoll_agent.util.frozen import frozen

LISTS = frozenset({"formatter", "columns", "sort_columns", "sort_direction", "wide", "max_width", "noindent"})
"""Destinations of the options that every list has."""
_OUTPUT = LISTS | {"format", "verbose"}
"""Those of all options about the form of what is printed."""
_WIDEST = 30
"""Columns before the text of an option."""
_INDENT = "  "
_STATUSES, _EXAMPLES = "Exit status:", "Examples:"


@frozen(kw_only=True)
class Description:
    """What a docstring says of its command."""

    summary: str
    paragraphs: tuple[str, ...]
    statuses: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]


def description_of(doc: str) -> Description:
    """The first line is the summary; paragraphs that begin with ``Exit status:`` and ``Examples:`` are lists."""
    summary, *blocks = inspect.cleandoc(doc).split("\n\n")
    statuses: list[tuple[str, str]] = []
    examples: list[str] = []
    paragraphs = []
    for block in blocks:
        first, _, rest = block.partition("\n")
        if first == _STATUSES:
            pairs = re.findall(r"^ {4}(\d+) +(.+(?:\n {5}.+)*)", rest, re.MULTILINE)
            statuses += [(number, " ".join(text.split())) for number, text in pairs]
        elif first == _EXAMPLES:
            examples += [line.strip() for line in rest.splitlines()]
        else:
            paragraphs.append(" ".join(block.split()))
    return Description(
        summary=" ".join(summary.split()).rstrip("."),
        paragraphs=tuple(paragraphs),
        statuses=tuple(statuses),
        examples=tuple(examples),
    )


def usage(parser: argparse.ArgumentParser) -> str:
    """The command with what has to be given: ``plimsoll disk hold add GUEST [DISK] --for DURATION [options]``."""
    exclusive = [group for group in parser._mutually_exclusive_groups if group.required]
    one_of = {action for group in exclusive for action in group._group_actions}
    words = [_positional(action) for action in parser._actions if not action.option_strings]
    words += [
        invocation(action, short=False)
        for action in parser._actions
        if action.option_strings and action.required and action not in one_of
    ]
    words += [
        f"({' | '.join(invocation(each, short=False) for each in group._group_actions)})" for group in exclusive
    ]
    return " ".join([parser.prog, *words, "[options]"])


def _positional(action: argparse.Action) -> str:
    name = _metavar(action)
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}.get(str(action.nargs), name)


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar:
        return action.metavar
    choices = action.choices if action.option_strings else None
    return "|".join(map(str, choices)) if choices else action.dest.upper()


def invocation(action: argparse.Action, *, short: bool = True) -> str:
    """``-o, --output FILE``; with ``short`` false only the long form."""
    if not action.option_strings:
        return _metavar(action)
    names = ", ".join(action.option_strings) if short else action.option_strings[-1]
    if action.nargs == 0:
        return names
    value = _metavar(action)
    return f"{names} {value} ..." if action.nargs in ("+", "*") else f"{names} {value}"


@frozen(kw_only=True)
class Options:
    """Options and arguments that belong together."""

    title: str
    text: str
    actions: tuple[argparse.Action, ...]


def groups(parser: argparse.ArgumentParser) -> Iterator[Options]:
    """Arguments, the command's own options, groups of them, and last those that every list has."""
    own: list[Options] = []
    output: list[argparse.Action] = []
    for group in parser._action_groups:
        visible = [each for each in group._group_actions if each.help != argparse.SUPPRESS and each.dest != "help"]
        output += [each for each in visible if each.dest in _OUTPUT]
        others = tuple(each for each in visible if each.dest not in _OUTPUT)
        if others:
            title = "arguments" if not others[0].option_strings else group.title or "options"
            own.append(Options(title=title, text=group.description or "", actions=others))
    yield from own
    if output:
        yield Options(title="output", text="", actions=tuple(output))


def text_of(parser: argparse.ArgumentParser) -> str:
    """All of a command's help, at the width of the terminal."""
    formatter = parser._get_formatter()
    width = formatter._width + 2  # argparse leaves two columns
    bold = bool(getattr(parser, "color", False))
    return "".join(f"{line}\n" for line in _lines(parser, formatter, width, bold))


def _lines(
    parser: argparse.ArgumentParser, formatter: argparse.HelpFormatter, width: int, bold: bool
) -> Iterator[str]:
    from plimsoll_agent.terminal.wrap import folded  # here, since only help needs it

    def heading(text: str) -> str:
        return f"\x1b[{Tone.HEADING.sgr}m{text}\x1b[0m" if bold else text

    description = description_of(parser.description or "")
    yield from folded(f"{description.summary}.", width)
    first, *rest = continued(usage(parser), width - 7)
    yield ""
    yield f"{heading('usage:')} {first}"
    yield from rest
    if description.examples:
        yield ""
        yield heading("examples:")
        for example in description.examples:
            yield from (f"{_INDENT}{line}" for line in continued(example, width - len(_INDENT)))
    for paragraph in description.paragraphs:
        yield ""
        yield from folded(paragraph, width)
    for options in groups(parser):
        yield ""
        yield heading(f"{options.title}:")
        yield from (f"{_INDENT}{line}" for line in folded(options.text, width - 2) if options.text)
        rows = [
            (invocation(action), formatter._expand_help(action) if action.help else "") for action in options.actions
        ]
        yield from _rows(rows, width)
    if description.statuses:
        yield ""
        yield heading("exit status:")
        yield from _rows(description.statuses, width)


def _rows(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    from plimsoll_agent.terminal.wrap import folded

    # A name that is wider has a line of its own.
    column = max((len(name) for name, _ in rows if len(name) + 4 <= _WIDEST), default=_WIDEST - 4) + 4
    for name, text in rows:
        lines = folded(" ".join(text.split()), max(width - column, 1)) if text else []
        if len(name) + 4 <= column and lines:
            yield f"{_INDENT}{name}".ljust(column) + lines.pop(0)
        else:
            yield f"{_INDENT}{name}"
        yield from (" " * column + line for line in lines)


def continued(command: str, width: int) -> list[str]:
    """A command to copy: where it is wider, its options go on in the next line, behind a backslash."""
    if len(command) <= width:
        return [command]
    lines: list[str] = []
    for part in re.split(r" (?=--|\[options)", command):
        if lines and len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}" if lines else part)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]
