"""What ``plimsoll region`` shows: queries for the site's Prometheus, and values from its answers. Pure.

Imports ``promql``, ``node.health`` for what a figure means, and of the agent ``monitor``, ``messages`` and below.
"""
