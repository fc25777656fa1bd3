"""A replay: what a site's disks did in the last days, against other rules and QoS specs.

Rates, limits and times at limit are those that nodes measured; the limits that would have been are decided as on
nodes (``plimsoll_agent.policy.decide``). Imports ``plimsoll_monitoring.region`` and below; queries are handed in.
"""
