"""Tables that are read off the code, so that no page can say something else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from cliff.app import App
from cliff.sphinxext import AutoprogramCliffDirective
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from plimsoll_agent import limits, state
from plimsoll_agent.limits import PARAMETERS, Parameter


class _Table(SphinxDirective):
    """A directive that stands for a table."""

    header: Sequence[str]
    widths: Sequence[int]
    origin: ModuleType

    def rows(self) -> Iterator[Sequence[str]]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(self.origin.__file__))
        lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, self.widths))}", ""]
        for row in (self.header, *self.rows()):
            for number, cell in enumerate(row):
                lines.append(f"   {'*' if number == 0 else ' '} - {cell}")
        return self.parse_text_to_nodes(StringList(lines, source=type(self).__name__))


class Limits(_Table):
    """The 19 parameters."""

    header = ("Parameter", "Unit", "What it is", "In QMP", "Nova passes it on")
    widths = (32, 12, 40, 18, 12)
    origin = limits

    def rows(self) -> Iterator[Sequence[str]]:
        for parameter in PARAMETERS:
            yield (
                f"``{parameter.name}``",
                _unit(parameter),
                _meaning(parameter),
                f"``{parameter.qmp}``",
                "yes" if parameter.nova else "no",
            )


def _unit(parameter: Parameter) -> str:
    return {"length": "s", "size": "bytes"}.get(parameter.role, f"{parameter.unit}/s")


def _meaning(parameter: Parameter) -> str:
    if parameter.role == "size":
        return "size from which one request counts as several"
    what = {"total": "reads and writes together", "read": "reads", "write": "writes"}[parameter.scope or "total"]
    name = parameter.name
    match parameter.role:
        case "base":
            return f"limit of {what}"
        case "max":
            return f"burst: what ``{name.removesuffix('_max')}`` may rise to for a short while"
        case _:
            return f"how long the burst ``{name.removesuffix('_length')}`` may last; 1 unless given"


class StateFiles(_Table):
    """The files below the state directory."""

    header = ("File", "Written by", "Version", "What it is", "When it is corrupt", "When it is missing")
    widths = (15, 15, 8, 18, 25, 19)
    origin = state

    def rows(self) -> Iterator[Sequence[str]]:
        for file in state.FILES:
            version = "none" if file.version is None else str(file.version)
            yield (f"``{file.name}``", file.owner, version, file.what, file.corrupt, file.missing)


class GeneralOptions(AutoprogramCliffDirective):
    """cliff's, with help texts taken as plain text: ``*.conf`` begins no emphasis."""

    def _load_app(self) -> App | None:
        app = super()._load_app()
        for action in app.parser._actions if app else ():
            action.help = (action.help or "").replace("*", r"\*")
        return app


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


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("plimsoll-general-options", GeneralOptions)
    app.add_directive("plimsoll-limits", Limits)
    app.add_directive("plimsoll-state-files", StateFiles)
    app.connect("doctree-read", drop_plugin_epilogs)
    app.connect("doctree-resolved", drop_links_of_manual_pages)
    return {"parallel_read_safe": True}
