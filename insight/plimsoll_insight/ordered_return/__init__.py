"""OSDs that are down return in waves that fit the memory of their hosts.

What the cluster and its hosts answer becomes values (``cluster``, ``hosts``), values become a plan (``plan``), and a
plan with what is seen becomes the next step (``control``): all pure. ``journal`` has what was done and what is to be
restored; ``runner`` takes the steps, through a ``ClusterAndHosts`` of which ``adapters`` has the real one.
"""
