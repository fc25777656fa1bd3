"""Try before you trust: QEMU's throttle as arithmetic, and a model of a cloud under load in discrete events.

Imports ``plimsoll_agent.errors``, ``plimsoll_agent.model`` and ``plimsoll_agent.util``. Pure.
"""
