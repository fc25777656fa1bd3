"""How a command speaks: the program and the base of all commands, one-line errors, shared options, formats, lists and
pages; and how text stands in a terminal or a pipe: width, colour, tables, lines that end between words.

Imports ``adapters``, ``config``, ``monitor`` and below, and rich; only the base of commands knows cliff. Commands of
all packages use it.
"""
