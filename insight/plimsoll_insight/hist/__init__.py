"""Latency over time out of fio's histogram logs: reading, merging, percentiles, stalls, plots.

Imports ``plimsoll_agent.errors`` and ``plimsoll_agent.util``, and of the probes their ``model``. Needs numpy, and
matplotlib and Jinja2 for plots: the extra ``insight``.
"""
