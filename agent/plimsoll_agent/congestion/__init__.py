"""Limits that follow a congested cluster: one factor for all disks of a cluster and device class."""
