"""Files that others wrote: plain, gzip or zstd.

Imports ``plimsoll_agent.errors`` alone.
"""
