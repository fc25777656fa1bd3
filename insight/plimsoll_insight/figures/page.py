"""A page with figures that needs nothing else, in the reader's theme."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.output.report import palette


@frozen
class FigureTable:
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def page(
    title: str, sentences: Sequence[str], figures: Sequence[tuple[str, bytes]], tables: Sequence[FigureTable] = ()
) -> bytes:
    """``title``: what the page is about. The first of ``sentences`` is the answer, its headline. ``figures``: what
    each shows, in words, and its SVG. A table without rows is left out.
    """
    answer, *others = sentences
    environment = Environment(
        loader=PackageLoader("plimsoll_insight.figures", "."), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("page.html.j2").render(
        colours=Markup(palette.css()),  # noqa: S704  # ours
        title=title,
        answer=answer,
        sentences=others,
        tables=[table for table in tables if table.rows],
        figures=[(words, base64.b64encode(svg).decode()) for words, svg in figures],
    ).encode()  # fmt: skip
