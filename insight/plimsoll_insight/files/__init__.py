"""Files that others wrote: plain, gzip or zstd.

Imports of the agent errors and texts alone.
"""
