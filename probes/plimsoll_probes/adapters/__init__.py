"""Runs programs on this machine; takes slots of the region on etcd. Each call has a deadline.

Imports ``guest`` and ``model``.
"""
