"""plimsoll: keeps block I/O limits in force on the RBD disks of this node's guests."""

from plimsoll_agent.util.on_demand import absent

with absent(
    "typing_extensions"
):  # Python's own typing has what msgspec takes of it, and this takes 3 ms of each start
    import msgspec  # noqa: F401
