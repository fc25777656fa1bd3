"""plimsoll: keeps block I/O limits in force on the RBD disks of this node's guests."""
