"""Latency over time out of fio's histogram logs: reading, merging, percentiles.

Imports ``plimsoll_agent.errors`` and ``plimsoll_agent.util``, and of the probes their ``model`` and ``store``.
"""
