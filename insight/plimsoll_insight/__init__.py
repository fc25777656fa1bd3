"""Where time goes: latency over time, slow requests of Ceph, who makes the load, why a guest is slow.

Imports ``plimsoll_agent`` and ``plimsoll_probes``; neither of them imports it. What needs a library of its own
(numbers, plots, compression) asks for it when it is used: see the extras.
"""
