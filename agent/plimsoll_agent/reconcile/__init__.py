"""One pass (observe, decide, brake, health gate, apply, outcome) and undo. Only ``limit_writer`` writes limits.

Imports ``store``, ``policy`` and below. Hypervisor and Ceph are handed in, as protocols.
"""
