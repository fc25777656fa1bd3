"""Faults that the daemon has to survive: a table of them, each against the real thing while the daemon runs.

``table.ROWS`` names them, ``docs/reference/faults.rst`` is made from it, and ``test_survived.py`` runs them.
"""
