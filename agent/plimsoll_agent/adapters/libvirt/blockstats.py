"""The counters of a disk, with the time that its requests took, in one call to QEMU.

``blockStatsFlags`` of the bindings calls libvirt's function twice, first for the number of counters, and each time
libvirt asks QEMU. Here the function is called directly, with more room than it needs.
"""

from __future__ import annotations

import ctypes
from typing import Any

import libvirt

from plimsoll_agent.errors import Rejected
from plimsoll_agent.model.hypervisor import BlockStats

_ROOM = 16
"""The most that libvirt's protocol takes (REMOTE_DOMAIN_BLOCK_STATS_PARAMETERS_MAX); QEMU has 8 counters."""
_NAMES = ("rd_operations", "rd_bytes", "wr_operations", "wr_bytes")
_TIMES = ("rd_total_times", "wr_total_times", "flush_total_times")


class _TypedParameter(ctypes.Structure):
    """``virTypedParameter`` (libvirt-common.h); all counters are of the type long long."""

    _fields_ = (("field", ctypes.c_char * 80), ("type", ctypes.c_int), ("value", ctypes.c_longlong))


_call = ctypes.CDLL("libvirt.so.0").virDomainBlockStatsFlags  # the library that the bindings have loaded
_call.argtypes = (
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.POINTER(_TypedParameter),
    ctypes.POINTER(ctypes.c_int),
    ctypes.c_uint,
)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def read(domain: Any, target: str) -> BlockStats:
    """Raises ``libvirtError``, and ``Rejected`` where the driver does not count."""
    counters, number = (_TypedParameter * _ROOM)(), ctypes.c_int(_ROOM)
    if _call(_pointer(domain._o, b"virDomainPtr"), target.encode(), counters, ctypes.byref(number), 0) < 0:
        error = libvirt.libvirtError("virDomainBlockStatsFlags() failed")  # reads the thread's last error
        if error.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
            raise error
        reads, read_bytes, writes, write_bytes, _ = domain.blockStats(target)
        return _counted(
            BlockStats(read_requests=reads, read_bytes=read_bytes, write_requests=writes, write_bytes=write_bytes)
        )
    each = {one.field.decode(): int(one.value) for one in counters[: number.value]}
    reads, read_bytes, writes, write_bytes = (each.get(name, -1) for name in _NAMES)
    times = [each.get(name, -1) for name in _TIMES]
    flushes = each.get("flush_operations", -1)
    took = sum(times) if min(times) >= 0 else None
    return _counted(
        BlockStats(
            read_requests=reads,
            read_bytes=read_bytes,
            write_requests=writes,
            write_bytes=write_bytes,
            nanoseconds=took,
            flushes=flushes if flushes >= 0 else None,
        )
    )


def _counted(stats: BlockStats) -> BlockStats:
    if min(stats.read_requests, stats.read_bytes, stats.write_requests, stats.write_bytes) < 0:
        raise Rejected("the driver does not count requests")  # -1 stands for that
    return stats
