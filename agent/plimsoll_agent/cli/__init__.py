"""The commands, a file per noun. No other package imports them.

Import ``app``, ``command`` and below.
"""
