"""Stalls that guests complain of on their consoles: what matches, how far each log was read, and counts.

It imports ``store`` and what is below. What a guest writes is hostile: none of it leaves this package.
"""
