"""What a failure would cost, by arithmetic: service time, recovery, memory; and whom it would hit, by the CRUSH tree.

Imports ``plimsoll_agent.errors`` and ``plimsoll_agent.util``, and ``slow`` for the tree. Pure.
"""
