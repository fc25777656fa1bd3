"""What disks have saved of their bursts: a ledger beside QEMU's buckets, and the rules' credits. Pure.

Imports: ``model``, ``util``.
"""
