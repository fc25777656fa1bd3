"""The commands, a file per noun. No other package imports them.

Import ``app``, ``terminal`` and below.
"""
