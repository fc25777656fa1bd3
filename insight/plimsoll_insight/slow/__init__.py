"""Slow requests of Ceph: lines of its logs, the CRUSH tree, counts, and which host stands out.

Imports ``plimsoll_agent.errors``, ``plimsoll_agent.util``, ``plimsoll_agent.monitor``, ``files`` and ``figures``.
"""
