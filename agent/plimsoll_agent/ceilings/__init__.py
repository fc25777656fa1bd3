"""Ceilings for all disks of a guest, or of a project on this node: who gets how much of one."""
