"""What ``plimsoll top`` shows and does: samples of use, rows, keys, the live view and its screen.

Imports ``terminal``, ``reconcile`` and below; ``sampler`` serves recordings of drills and ``plimsoll load`` too.
"""
