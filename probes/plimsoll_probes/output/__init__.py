"""Results as text, as plain data, as metrics, and as a report.

Imports ``store``, ``evaluate``, ``schedule`` and ``model``.
"""
