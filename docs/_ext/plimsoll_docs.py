"""What Sphinx and cliff's extension do not do by themselves for pages and manual pages."""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from pathlib import Path
from typing import Any

from cliff import sphinxext
from cliff.app import App
from cliff.sphinxext import AutoprogramCliffDirective
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

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


_one_a_line = sphinxext._format_usage
_NO_BREAK = "\xa0"


def usage(parser: argparse.ArgumentParser) -> list[str]:
    """cliff's, folded: with an option a line, 60 commands are a page that nobody scrolls."""
    first, *rest = _one_a_line(parser)
    parts = " ".join(part.strip().replace(" ", _NO_BREAK) for part in rest)
    folded = textwrap.wrap(parts, 76, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return [first, *(line.replace(_NO_BREAK, " ") for line in folded)]


def drop_plugin_epilogs(_app: Sphinx, doctree: nodes.document) -> None:
    """cliff takes every command for a plugin's where it documents them without their application."""
    for paragraph in list(doctree.findall(nodes.paragraph)):
        if paragraph.astext().startswith("This command is provided by the plimsoll-agent plugin"):
            paragraph.parent.remove(paragraph)


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
    sphinxext._format_usage = usage
    app.add_directive("plimsoll-codes", Codes)
    app.add_directive("plimsoll-general-options", GeneralOptions)
    app.connect("doctree-read", drop_plugin_epilogs)
    app.connect("doctree-resolved", drop_links_of_manual_pages)
    app.connect("doctree-resolved", label_cells)
    app.connect("doctree-resolved", keep_short_literals_whole)
    app.connect("html-page-context", mark_rows_of_samples)
    return {"parallel_read_safe": True}
