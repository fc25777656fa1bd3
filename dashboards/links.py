"""The ways from one dashboard to another, at the same times, with the same data source and region."""

from __future__ import annotations

REGION, NODE, DISK = "plimsoll-region", "plimsoll-node", "plimsoll-disk"


def to(uid: str, **variables: str) -> str:
    """``variables`` in Grafana's terms: what ``row`` and ``series`` give, or a value."""
    chosen = "".join(f"&var-{name}={value}" for name, value in variables.items())
    return f"/d/{uid}?${{datasource:queryparam}}&${{region:queryparam}}&${{__url_time_range}}{chosen}"


def row(label: str) -> str:
    """A label in the row of a table that was clicked on."""
    return f"${{__data.fields.{label}:percentencode}}"


def series(label: str) -> str:
    """A label of the line in a graph that was clicked on."""
    return f"${{__field.labels.{label}:percentencode}}"


NODE_OF_ROW = to(NODE, instance=row("instance"))
NODE_OF_SERIES = to(NODE, instance=series("instance"))
# The volume chosen before would narrow the choice of guests down to its own.
_GUEST = {"volume": "$__all", "domain": row("domain"), "uuid": row("uuid")}
GUEST_OF_ROW = to(DISK, **_GUEST)
DISK_OF_ROW = to(DISK, **_GUEST, target_device=row("target_device"))
