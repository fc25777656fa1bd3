"""What Sphinx and cliff's extension do not do by themselves for pages and manual pages."""

from __future__ import annotations

from typing import Any

from cliff.app import App
from cliff.sphinxext import AutoprogramCliffDirective
from docutils import nodes
from sphinx.application import Sphinx


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
    app.connect("doctree-read", drop_plugin_epilogs)
    app.connect("doctree-resolved", drop_links_of_manual_pages)
    return {"parallel_read_safe": True}
