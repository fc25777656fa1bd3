"""Slow requests of Ceph: lines of its logs, the CRUSH tree, sums, and which host stands out.

Imports ``plimsoll_agent.errors`` and ``plimsoll_agent.util`` alone.
"""
