"""What ``plimsoll region`` shows: queries for the site's Prometheus, and values from its answers. Pure.

Imports ``monitor``, ``messages`` and below; not ``qos``.
"""
