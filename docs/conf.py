"""Sphinx: HTML and man pages. Warnings are errors (``script/test docs``)."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "plimsoll"
author = "the plimsoll developers"
release = version = version_of("plimsoll-agent")

extensions = ["cliff.sphinxext", "oslo_config.sphinxext", "plimsoll_docs", "reno.sphinxext"]
exclude_patterns = ["_build"]
nitpicky = True
highlight_language = "none"
smartquotes = False  # what stands in quotes is typed as it stands

html_theme = "furo"
html_title = f"plimsoll {release}"
# A literal may break anywhere, so that no page is wider than a phone; the browser's own fonts, light or dark.
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
html_extra_path = ["html"]  # schemas/, which programs read
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False

# Of the general options; --help is said once for all.
autoprogram_cliff_ignored = ["-h", "--help"]

# plimsoll_docs adds a page a command.
man_pages = [
    ("reference/plimsoll", "plimsoll", "keep block I/O limits in force on RBD disks of guests", author, 1),
    ("reference/check_plimsoll", "check_plimsoll", "check plimsoll on a node, for Nagios and Icinga", author, 1),
    ("reference/plimsoll.conf", "plimsoll.conf", "settings of plimsoll", author, 5),
    ("reference/plimsoll-rules", "plimsoll-rules", "which RBD disks get which limits", author, 5),
    ("reference/plimsoll-qos", "plimsoll-qos", "QoS specs and volume types as a file", author, 5),
]
