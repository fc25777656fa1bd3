"""The ports of the cloud, all on 127.0.0.1 but those of OSDs."""

from __future__ import annotations

import os

# Away from the stock ones (3300, 6789 and 6800-7300 of Ceph, say), and below the kernel's ephemeral range. A second
# cloud on the same machine needs an offset (200, say) besides a directory of its own.
OFFSET = int(os.environ.get("PLIMSOLL_LAB_PORT_OFFSET") or 0)

MONITOR_V2 = 23300 + OFFSET
MONITOR_V1 = 26789 + OFFSET
CEPH_DAEMONS = (26800 + OFFSET, 26899 + OFFSET)
# The address of an OSD, by its number: one of its own, so that its network can be cut.
OSD_ADDRESS = f"127.{100 + OFFSET // 256}.{OFFSET % 256}.1{{}}"

# OpenStack's own numbers, 20000 up.
KEYSTONE = 25000 + OFFSET
CINDER = 28776 + OFFSET
NOVA = 28774 + OFFSET
PLACEMENT = 28778 + OFFSET
GLANCE = 29292 + OFFSET
NEUTRON = 29696 + OFFSET
MARIADB = 23306 + OFFSET
RABBITMQ = 25672 + OFFSET
RABBITMQ_BETWEEN_NODES = 25673 + OFFSET
EPMD = 24369 + OFFSET

ETCD = 22379 + OFFSET
ETCD_PEERS = 22380 + OFFSET

PROMETHEUS = 29090 + OFFSET
ALERTMANAGER = 29093 + OFFSET
WEBHOOK = 29094 + OFFSET
NODE_EXPORTERS = (29100 + OFFSET, 29101 + OFFSET)
CEPH_METRICS = 29283 + OFFSET
NRPE = 25666 + OFFSET

# The hosts' own network, a /24 of which this machine is .1, and its one device on this machine.
FLEET_NETWORK = f"10.{100 + OFFSET // 256}.{OFFSET % 256}"
FLEET_LINK = f"plimsoll{OFFSET}"
