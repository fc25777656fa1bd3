"""The base of all commands: the program, one-line errors, shared options, formats, lists and pages.

Imports ``adapters``, ``config``, ``layout`` and below, and cliff. Commands of ``plimsoll_probes`` and
``plimsoll_insight`` use it too.
"""
