"""What asks the world: a Ceph cluster.

Imports ``plimsoll_agent.adapters``, and what gives the answers their form.
"""
