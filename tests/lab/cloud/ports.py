"""The ports of the cloud, all on 127.0.0.1."""

from __future__ import annotations

import os

# Away from the stock ones (3300, 6789 and 6800-7300 of Ceph, say), and below the kernel's ephemeral range. A second
# cloud on the same machine needs an offset (200, say) besides a directory of its own.
OFFSET = int(os.environ.get("PLIMSOLL_LAB_PORT_OFFSET") or 0)

MONITOR_V2 = 23300 + OFFSET
MONITOR_V1 = 26789 + OFFSET
CEPH_DAEMONS = (26800 + OFFSET, 26899 + OFFSET)

# OpenStack's own numbers, 20000 up.
KEYSTONE = 25000 + OFFSET
CINDER = 28776 + OFFSET
