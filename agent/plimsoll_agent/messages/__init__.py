"""Text and plain data for passes, disks, the record, undo and the catalogue. Only here a ``Reason`` becomes text.

Imports ``reconcile`` and below.
"""
