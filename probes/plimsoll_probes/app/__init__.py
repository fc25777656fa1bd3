"""Composition without cliff: the guests to probe, the node's history, its metrics.

Imports ``output`` and below, and ``plimsoll_agent.app``.
"""
