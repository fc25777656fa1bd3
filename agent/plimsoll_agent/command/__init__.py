"""The base of all commands: the program, one-line errors, shared options, tables and pages.

Imports ``adapters``, ``config`` and below, and cliff. Commands of ``plimsoll_probes`` use it too.
"""
