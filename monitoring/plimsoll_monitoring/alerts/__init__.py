"""What Prometheus and Nagios are to load, made from the table of measures and from what a site changes.

Imports ``promql`` and ``plimsoll_agent.monitor``.
"""
