"""Runs a probe from beginning to end, and observes it from outside the guest.

Imports ``evaluate``, ``schedule``, ``guest`` and below; not ``store``.
"""
