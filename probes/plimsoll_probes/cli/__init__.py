"""``plimsoll probe``: the commands. Nothing imports them but monitoring, for the options that name a time.

Import ``app`` and below, and ``plimsoll_agent.terminal`` and ``plimsoll_agent.app``; no command of the agent.
"""
