"""Who makes the load: what disks did in some time, their shares, and how large their requests were.

Imports ``plimsoll_monitoring.region`` and below.
"""
