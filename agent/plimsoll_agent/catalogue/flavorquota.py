"""A flavor's ``quota:disk_*``: the limits of a guest's own disks."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll_agent.catalogue.qosspec import libvirts_number
from plimsoll_agent.credits.model import with_credits
from plimsoll_agent.model.limits import PARAMETERS, Limits
from plimsoll_agent.model.reason import Code, Unknown, because

# Nova has the six bases only; plimsoll adds the bursts and their lengths.
_ITEMS = {f"disk_{parameter.name}": parameter.name for parameter in PARAMETERS if parameter.role != "size"}


def quota(extra_specs: Mapping[str, str]) -> Limits | Unknown | None:
    """The limits that a flavor gives to each local disk of its guests, None when it has no such key, or none with
    a value: libvirt treats an empty one as absent.

    ``Unknown`` where libvirt or QEMU would refuse the limits.
    """
    items: dict[str, str] = {}
    for key, value in extra_specs.items():
        # nova/virt/libvirt/imagebackend.py, Image.disk_qos, ignores what follows a second colon.
        scope = key.split(":")
        if len(scope) > 1 and scope[0] == "quota" and scope[1] in _ITEMS:
            items[scope[1]] = value
    try:
        read = ((_ITEMS[item], libvirts_number(f"quota:{item}", text)) for item, text in items.items())
        numbers = {name: number for name, number in read if number is not None}
        return with_credits(extra_specs, Limits.from_mapping(numbers)) if numbers else None
    except ValueError as error:
        return Unknown(because(Code.QUOTA_UNREADABLE, detail=str(error)))
