"""How text stands on a terminal or in a pipe: width, colour, tables, lines that end between words, the screen.

Imports ``monitor`` and below, and rich; it does not know cliff.
"""
