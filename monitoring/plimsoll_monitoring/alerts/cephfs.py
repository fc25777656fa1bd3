"""The alert on ranks of a CephFS that forward requests to each other, by what Ceph's mgr tells Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_monitoring.alerts.definition import Alert
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.promql import selector

FORWARDED = 0.1
"""The share of requests that is a sign of thrashing."""
BUSY = 10.0
"""Requests a second of all ranks, below which shares tell nothing."""
_OVER = "1h"


def rate(site: Site, what: str) -> str:
    """Of all ranks of a cluster, a second."""
    series = selector(f"ceph_mds_{what}", site.ceph, over=_OVER)
    return f"sum by {site.in_region('cluster')} (rate({series}))"


def of_file_systems(site: Site) -> Iterator[Alert]:
    requests = rate(site, "request")
    yield Alert(
        name="PlimsollMdsThrashing",
        severity="warning",
        expr=f"{rate(site, 'forward')}\n/\n{requests} > {FORWARDED}\nand {requests} > {BUSY:g}",
        hold="10m",
        of_node=False,
        why="Of Ceph's own metrics, in whatever cluster has a CephFS with several active ranks. Clients learn where a"
        " directory is by being forwarded: a share that lasts is of a balancer that does not come to rest, or of a"
        " namespace in pieces.",
        summary=f"Ranks of a CephFS{site.in_words} forward {{{{ $value | humanizePercentage }}}} of the requests",
        description=f"Within an hour the MDSs{site.in_words} forwarded {{{{ $value | humanizePercentage }}}} of the"
        " requests from rank to rank. Run `plimsoll mds watch` on an administrator's host: it names the directories,"
        " and what ends it.",
    )
