"""The history of probes: results as rows, and their sums.

Imports ``schedule``, ``model`` and below; not ``execute``.
"""
