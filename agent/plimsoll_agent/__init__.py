"""plimsoll: keeps block I/O limits in force on the RBD disks of this node's guests."""

from plimsoll_agent.util.on_demand import absent

# Python's own typing has what msgspec takes of it, and it takes 3 ms of each start.
with absent("typing_extensions"):
    import msgspec  # noqa: F401
