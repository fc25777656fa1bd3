"""What Prometheus and Nagios are to load, made from the table of measures and from what a site changes.

It imports ``monitor`` and ``util``.
"""
