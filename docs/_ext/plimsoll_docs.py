"""What Sphinx and cliff's extension do not do by themselves for pages and manual pages."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from cliff.app import App
from cliff.command import Command
from cliff.sphinxext import AutoprogramCliffDirective
from docutils import nodes, statemachine
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from plimsoll_agent.terminal.help import LISTS, continued, description_of, groups, invocation, usage
from plimsoll_agent.terminal.overview import ALIASES, GROUPS

COMMON = Path(__file__).parents[1] / "html" / "schemas" / "common.json"


class GeneralOptions(AutoprogramCliffDirective):
    """cliff's, with help texts taken as plain text: ``*.conf`` begins no emphasis."""

    def _load_app(self) -> App | None:
        app = super()._load_app()
        for action in app.parser._actions if app else ():
            action.help = (action.help or "").replace("*", r"\*")
        return app


class Codes(SphinxDirective):
    """The codes of reasons with their meaning, as the schema has them."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(COMMON))
        listed = nodes.definition_list()
        for branch in json.loads(COMMON.read_text())["$defs"]["reason"]["anyOf"]:
            code, meaning = branch["properties"]["code"]["const"], branch["description"]
            term = nodes.term("", "", nodes.literal("", code), ids=[f"code-{code}"])
            parts = meaning.split("`")
            text = [nodes.literal("", part) if odd % 2 else nodes.Text(part) for odd, part in enumerate(parts)]
            listed += nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", "", *text)))
        return [listed]


_COMMANDS = "_build/commands"
"""Where the sources of manual pages are made, below the documentation; a page of HTML has all commands."""


def commands() -> dict[str, type[Command]]:
    """All commands but those that stand under another name already."""
    points = distribution("plimsoll-agent").entry_points.select(group="plimsoll.commands")
    names = {point.name.replace("_", " "): point for point in points}
    return {name: names[name].load() for name in sorted(names) if name not in ALIASES}


def parser_of(name: str, command: type[Command]) -> argparse.ArgumentParser:
    return command(None, None).get_parser(f"plimsoll {name}")  # type: ignore[arg-type]


def plain(text: str) -> str:
    """The text, in which nothing is markup: ``*.conf`` begins no emphasis."""
    return re.sub(r"([*`|_\\])", r"\\\1", " ".join(text.split()))


def reference(name: str, command: type[Command], title: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """All that is known of a command, as reStructuredText without its own title."""
    parser = parser_of(name, command)
    description = description_of(parser.description or "")
    yield from (f".. program:: plimsoll {name}", "")
    yield from title("Synopsis") if title is _section else ()
    yield from _block(continued(usage(parser), 72), "none")
    yield from title("Description") if title is _section else ()
    yield from (f"{plain(description.summary)}.", "")
    for paragraph in description.paragraphs:
        yield from (plain(paragraph), "")
    yield from title("Examples")
    yield from _block([line for each in description.examples for line in continued(f"# {each}", 74)], "console")
    formatter = parser._get_formatter()
    for options in groups(parser):
        own = tuple(action for action in options.actions if action.dest not in LISTS)
        if not own:
            continue
        yield from title(options.title.capitalize())
        if options.text:
            yield from (f"{plain(options.text).capitalize()}.", "")
        for action in own:
            yield from (f".. option:: {invocation(action)}", "")
            yield from (f"    {plain(formatter._expand_help(action))}", "") if action.help else ()
    yield from title("Exit status")
    for number, text in description.statuses:
        yield from (f"**{number}**", f"    {plain(text)}", "")


def _block(lines: Iterable[str], language: str) -> Iterator[str]:
    yield from (f".. code-block:: {language}", "", *(f"    {line}" for line in lines), "")


def _rubric(text: str) -> tuple[str, ...]:
    return (f".. rubric:: {text}", "")


def _section(text: str) -> tuple[str, ...]:
    return (text, "-" * len(text), "")


class Commands(SphinxDirective):
    """All commands, each a section. A manual page is one a command instead: it names them."""

    def run(self) -> list[nodes.Node]:
        sections: list[nodes.Node] = []
        for name, command in commands().items():
            lines = statemachine.StringList(list(reference(name, command, _rubric)), f"<{command.__name__}>")
            section = nodes.section("", nodes.title(text=name), ids=[nodes.make_id(name)], names=[name])
            self.state.nested_parse(lines, 0, section)
            sections.append(section)
        return sections


class CommandPages(SphinxDirective):
    """The manual pages of all commands in their groups."""

    def run(self) -> list[nodes.Node]:
        names = commands()
        lines: list[str] = []
        for group, members in GROUPS:
            lines += [group, ""]
            for member in members:
                for name in sorted(each for each in names if each == member or each.startswith(f"{member} ")):
                    if name in members and name != member:
                        continue
                    summary = plain(description_of(names[name].__doc__ or "").summary)
                    lines += [f"    :manpage:`{page_of(name)}(1)`", f"        {summary}.", ""]
        node = nodes.section()
        self.state.nested_parse(statemachine.StringList(lines, "<commands>"), 0, node)
        return node.children


def page_of(name: str) -> str:
    """``plimsoll-disk-hold-add``"""
    return f"plimsoll-{name.replace(' ', '-')}"


def make_command_pages(app: Sphinx) -> None:
    """Writes the sources of manual pages, one a command, and announces them."""
    if app.builder.name != "man":
        return
    folder = Path(app.srcdir) / _COMMANDS
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    app.config.exclude_patterns = ["_build/[!c]*"]
    for name, command in commands().items():
        page = page_of(name)
        lines = [":orphan:", "", page, "=" * len(page), "", *reference(name, command, _section)]
        lines += [*_section("See also"), ":manpage:`plimsoll(1)`", ""]
        (folder / f"{page}.rst").write_text("\n".join(lines))
        summary = description_of(command.__doc__ or "").summary
        app.config.man_pages.append((f"{_COMMANDS}/{page}", page, summary, app.config.author, 1))


def drop_links_of_manual_pages(app: Sphinx, doctree: nodes.document, _page: str) -> None:
    """The writer of manual pages puts an address behind every link, also an empty one."""
    if app.builder.name == "man":
        for link in list(doctree.findall(nodes.reference)):
            link.replace_self(nodes.emphasis("", link.astext()))


def label_cells(app: Sphinx, doctree: nodes.document, _page: str) -> None:
    """On a phone the cells of a row stand below one another, so each says of which column it is."""
    if app.builder.format != "html":
        return
    for table in doctree.findall(nodes.table):
        titles = [entry.astext() for head in table.findall(nodes.thead) for entry in head.findall(nodes.entry)]
        if len(titles) < 3:
            continue
        table["classes"].append("labelled")
        for row in (row for body in table.findall(nodes.tbody) for row in body.findall(nodes.row)):
            for title, cell in list(zip(titles, row, strict=False))[1:]:
                if cell and isinstance(cell[0], nodes.paragraph):
                    cell[0].insert(0, nodes.inline("", f"{title}: ", classes=["column"]))


_UNBROKEN = 28
"""Characters of a literal that any phone has room for in one line."""


def keep_short_literals_whole(app: Sphinx, doctree: nodes.document, _page: str) -> None:
    """A browser may end a line behind each hyphen, so between the two of an option."""
    if app.builder.format == "html":
        for literal in doctree.findall(nodes.literal):
            if len(literal.astext()) <= _UNBROKEN:
                literal["classes"].append("short")


_SAMPLE = re.compile(r'(<div class="highlight">\s*<pre>)(.*?)\n*(</pre>)', re.DOTALL)


def _rows(sample: re.Match[str]) -> str:
    lines = sample[2].split("\n")
    if any(line.count("<span") != line.count("</span>") for line in lines):
        return sample[0]  # colour that goes on over the end of a line
    rows = [re.sub("^((?:<span[^>]*>)? {4})( {12,})", r'\1<span class="far">\2</span>', line) for line in lines]
    rows = [re.sub(r"(?<!\S)(--[\w-]+)", r'<span class="short">\1</span>', row) for row in rows]
    return sample[1] + "".join(f'<span class="row">{row}\n</span>' for row in rows) + sample[3]


def mark_rows_of_samples(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """So that the style sheet can indent what follows where a line of a sample wraps."""
    if "body" in context:
        context["body"] = _SAMPLE.sub(_rows, context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("plimsoll-codes", Codes)
    app.add_directive("plimsoll-general-options", GeneralOptions)
    app.add_directive("plimsoll-commands", Commands)
    app.add_directive("plimsoll-command-pages", CommandPages)
    app.connect("builder-inited", make_command_pages)
    app.connect("doctree-resolved", drop_links_of_manual_pages)
    app.connect("doctree-resolved", label_cells)
    app.connect("doctree-resolved", keep_short_literals_whole)
    app.connect("html-page-context", mark_rows_of_samples)
    return {"parallel_read_safe": True}
