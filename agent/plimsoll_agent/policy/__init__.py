"""Desired limits and changes: decide (sources, then clamp, then hold), diff, adoption of marks,
and what a node remembers after a pass. Pure.

Imports ``catalogue``, ``rules``, ``model`` and below; reads no file and no clock.
"""
