"""``script/demo``: real guests on a real Ceph cluster, held to their limits before your eyes."""
