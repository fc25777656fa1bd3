"""Ceph's configuration and keys, made before any daemon runs."""

from __future__ import annotations

import base64
import os
import struct
import time
from pathlib import Path

from . import ports

# Three are enough for all but a return in waves, which a bench measures.
OSDS = tuple(range(int(os.environ.get("PLIMSOLL_LAB_OSDS") or 3)))
IS_FOR_RETURNS = len(OSDS) > 3
# Debian's Ceph is built without tcmalloc: buffers of recovery go back to the system as with it.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"} if IS_FOR_RETURNS else {}
HOSTS = ("lab-a", "lab-b", "lab-c")
POOLS = ("volumes", "vms", "images")
# A file grows to that when all objects are written again and again.
OSD_SIZE = (1536 if IS_FOR_RETURNS else 4096) * 1024**2
# The defaults let each OSD hold several tables of 256 MiB in memory.
ROCKSDB = (
    "compression=kNoCompression,max_write_buffer_number=4,min_write_buffer_number_to_merge=1,"
    "recycle_log_file_num=4,write_buffer_size=16777216,writable_file_max_buffer_size=0,"
    "compaction_readahead_size=2097152,max_background_compactions=1,max_total_wal_size=67108864"
)

CAPABILITIES = {
    "mon.": {"mon": "allow *"},
    "client.admin": {"mon": "allow *", "mgr": "allow *", "osd": "allow *", "mds": "allow *"},
    # As Ceph's manual for OpenStack gives them.
    "client.cinder": {
        "mon": "profile rbd",
        "osd": "profile rbd pool=volumes, profile rbd pool=vms, profile rbd-read-only pool=images",
        "mgr": "profile rbd pool=volumes, profile rbd pool=vms",
    },
    "client.plimsoll": {"mon": "allow r"},
    "mgr.a": {"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"},
    **{f"osd.{n}": {"mon": "allow profile osd", "mgr": "allow profile osd", "osd": "allow *"} for n in OSDS},
}


def host(osd: int) -> str:
    return HOSTS[osd % len(HOSTS)]


def address(osd: int) -> str:
    return ports.OSD_ADDRESS.format(osd)


def new_key(release: int) -> str:
    """A cephx secret: its type, time of creation, length, and random bytes.

    Type 1 is AES with 16 bytes, type 2 AES256K with 32: Ceph 20 takes no others from its own daemons.
    """
    kind, length = (2, 32) if release >= 20 else (1, 16)
    return base64.b64encode(struct.pack("<hIIh", kind, int(time.time()), 0, length) + os.urandom(length)).decode()


def keyring(keys: dict[str, str], names: tuple[str, ...]) -> str:
    lines = []
    for name in names:
        lines += [f"[{name}]", f"\tkey = {keys[name]}"]
        lines += [f'\tcaps {service} = "{what}"' for service, what in CAPABILITIES[name].items()]
    return "\n".join(lines) + "\n"


def conf(root: Path, fsid: str, release: int) -> str:
    osds = "\n".join(
        f"[osd.{n}]\ncrush location = root=default host={host(n)}\n"
        f"public addr = {address(n)}\ncluster addr = {address(n)}"
        for n in OSDS
    )
    # Without checksums 16 does not understand 18, and this machine's own clients may be of 16.
    checked = "true" if release > 16 else "false"
    return f"""\
[global]
fsid = {fsid}
mon initial members = a
mon host = [v2:127.0.0.1:{ports.MONITOR_V2}/0,v1:127.0.0.1:{ports.MONITOR_V1}/0]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind port min = {ports.CEPH_DAEMONS[0]}
ms bind port max = {ports.CEPH_DAEMONS[1]}
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
run dir = {root}/run/ceph
admin socket = {root}/run/ceph/$name.asok
log file = {root}/var/log/ceph/$name.log
mon cluster log file = {root}/var/log/ceph/cluster.log
crash dir = {root}/var/lib/ceph/crash
mon data = {root}/ceph/mon.a
mgr data = {root}/ceph/mgr.a
osd data = {root}/ceph/osd.$id

osd pool default size = 2
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
mon allow pool delete = true
mon max pg per osd = 500

# Outages show within seconds. The grace is the OSDs' and the monitor's, and it must not grow with each test
# that stops an OSD.
osd heartbeat interval = 1
osd heartbeat grace = 6
mon osd adjust heartbeat grace = false
mon osd min down reporters = 1
# An OSD that a test stops answers late; that is told for minutes, by averages of up to 15 of them.
mon warn on slow ping time = 60000
# And since Ceph 20 that its disk was late, for a day.
bluestore slow ops warn lifetime = 10
mon pg stuck threshold = 5

# The cores are the guests' too: only trouble is logged, and no checksums guard disks that are files anyway.
debug ms = 0/0
debug osd = 0/1
debug bluestore = 0/0
debug bluefs = 0/0
debug bdev = 0/0
debug rocksdb = 0/0
debug mon = 0/1
debug paxos = 0/0
debug auth = 0/0
debug mgr = 0/0
ms crc data = {checked}
bluestore csum type = none

[client]
admin socket =
log file =
keyring = {root}/etc/ceph/ceph.$name.keyring

[mon]
mon data avail warn = 2
mon data avail crit = 1
mon health to clog tick interval = 10
mon tick interval = 2
# Slow peers of a lab on two cores are no clock trouble.
mon lease = 10

[mgr]
mgr initial modules =
mgr tick period = 1
mgr stats period = 2

[osd]
# What an OSD sends comes from its own address, too.
ms bind before connect = true
osd objectstore = bluestore
bluestore block size = {OSD_SIZE}
bluestore block create = true
bluestore cache autotune = false
bluestore cache size = 67108864
bluestore rocksdb options = {ROCKSDB}
osd min pg log entries = 100
osd max pg log entries = 500
osd op complaint time = 3
osd mon report interval = 1
osd mgr report interval = 1
osd op num shards = 2
osd op num threads per shard = 1
ms async op threads = 2
# An OSD that a soak stops often would end by itself after the fifth time in ten minutes.
osd max markdown count = 1000
osd max backfills = {1 if IS_FOR_RETURNS else 4}
# Of what is kept for that time its data are kept too; a return in the lab takes a minute.
osd op history duration = {15 if IS_FOR_RETURNS else 600}
osd recovery sleep = 0
osd scrub begin hour = 0
osd scrub during recovery = false
osd scrub min interval = 604800
osd scrub max interval = 1209600
osd deep scrub interval = 1209600

{osds}
"""
