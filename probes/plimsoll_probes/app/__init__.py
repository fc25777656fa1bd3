"""Composition without cliff: the guests to probe, the node's history, its metrics.

Imports ``health``, ``output`` and below, and ``plimsoll_agent.app``.
"""
