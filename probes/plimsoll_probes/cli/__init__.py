"""``plimsoll probe`` and ``plimsoll status``: the commands. Nothing imports them.

Import ``app`` and below, and ``plimsoll_agent.terminal`` and ``plimsoll_agent.app``; no command of the agent.
"""
