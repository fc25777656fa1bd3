"""What people look at: a node's status and gate, check_plimsoll, alerts, dashboards, and a region by its Prometheus.

Imports ``plimsoll_agent`` and ``plimsoll_probes``, which know nothing of it. Nothing here limits a disk.
"""
