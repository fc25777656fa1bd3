"""Values that cannot be wrong: limits, guests and disks, reasons, holds, clusters, and the hypervisor as a protocol.

Imports only ``util``.
"""
