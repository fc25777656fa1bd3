"""A failure as it went: its recording, its phases, what it cost, and figures of it.

Imports ``plimsoll_agent`` up to ``monitor``, ``forecast`` and ``figures``. Needs numpy to report, and matplotlib and
Jinja2 for plots: the extra ``insight``.
"""
