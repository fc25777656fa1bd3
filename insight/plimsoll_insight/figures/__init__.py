"""What figures of all commands have in common: the page that they are in.

Imports ``plimsoll_agent.util`` and ``plimsoll_probes.output``.
"""
