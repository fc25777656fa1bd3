"""libvirt's domain XML in, a guest with its RBD disks out. Pure: text to values."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from plimsoll_agent.disk import MONITOR_PORT, Disk, Guest
from plimsoll_agent.limits import PARAMETERS, Limits, LimitsError, shared_group
from plimsoll_agent.reason import Code, Unknown, because

# 1.0 until Nova 22; a guest keeps what was written at its last cold start.
NOVAS = ("{http://openstack.org/xmlns/libvirt/nova/1.1}", "{http://openstack.org/xmlns/libvirt/nova/1.0}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


class UnreadableXML(ValueError):
    """The text is no domain XML that libvirt would write."""


class _NoDoctype(ET.TreeBuilder):
    """libvirt never writes a document type; entities could only come from someone who means harm."""

    def doctype(self, name: str, *_identifiers: str) -> None:
        raise UnreadableXML(f"document type {name!r} in a domain's XML")


def parse(text: str) -> tuple[Guest, tuple[Disk, ...]]:
    """The guest and its RBD disks in the definition's order.

    Only ``<disk type="network" device="disk">`` with protocol rbd counts: files, LVs, cdroms and empty drives
    are not ours. Raises ``UnreadableXML``.
    """
    try:
        domain = ET.fromstring(text, ET.XMLParser(target=_NoDoctype()))  # noqa: S314  # no entities: see _NoDoctype
    except (ET.ParseError, ValueError) as error:
        raise UnreadableXML(str(error)) from error
    guest = _guest(domain)
    found = (_disk(guest, element) for element in domain.iterfind("./devices/disk"))
    return guest, tuple(disk for disk in found if disk is not None)


def _guest(domain: ET.Element) -> Guest:
    uuid, name = domain.findtext("uuid"), domain.findtext("name")
    if not uuid or not name:
        raise UnreadableXML("no domain: its name or uuid is missing")
    run = domain.get("id")
    for namespace in NOVAS:
        nova = domain.find(f"./metadata/{namespace}instance")
        if nova is not None:
            return _nova_guest(uuid, name, run, nova, namespace)
    return Guest(uuid, name, run)


def _nova_guest(uuid: str, name: str, run: str | None, nova: ET.Element, ns: str) -> Guest:
    project = nova.find(f"./{ns}owner/{ns}project")
    return Guest(
        uuid,
        name,
        run,
        display_name=nova.findtext(f"./{ns}name"),
        project=_attribute(project, "uuid"),
        project_name=None if project is None else project.text,
        user=_attribute(nova.find(f"./{ns}owner/{ns}user"), "uuid"),
        flavor=_attribute(nova.find(f"./{ns}flavor"), "name"),
        image=_attribute(nova.find(f"./{ns}root[@type='image']"), "uuid"),
    )


def _disk(guest: Guest, element: ET.Element) -> Disk | None:
    # A disk that says no device is a disk (libvirt's formatdomain).
    if element.get("type") != "network" or element.get("device", "disk") != "disk":
        return None
    source, target = element.find("source"), element.find("target")
    if source is None or target is None or source.get("protocol") != "rbd":
        return None
    path = source.get("name", "").split("/")
    if len(path) not in (2, 3) or not all(path) or not target.get("dev"):
        return None
    serial = element.findtext("serial", "")
    return Disk(
        guest=guest,
        target=target.get("dev", ""),
        bus=target.get("bus"),
        pool=path[0],
        namespace=path[1] if len(path) == 3 else None,
        image=path[-1],
        node=source.get("index", ""),
        # Not from the image's name: after a volume migration the image keeps another volume's id.
        volume_id=serial.lower() if _UUID.fullmatch(serial) else None,
        monitors=tuple(
            sorted(f"{host.get('name')}:{host.get('port', MONITOR_PORT)}" for host in source.iterfind("host[@name]"))
        ),
        encrypted=element.find("encryption") is not None or source.find("encryption") is not None,
        alias=_attribute(element.find("alias"), "name"),
        defined=_defined(element.find("iotune")),
    )


def _defined(iotune: ET.Element | None) -> Limits | Unknown:
    if iotune is None:
        return Limits()
    try:
        numbers: dict[str, object] = {
            parameter.name: int(text)
            for parameter in PARAMETERS
            if (text := iotune.findtext(parameter.name)) is not None
        }
        return Limits.from_mapping(numbers | {"group_name": shared_group(iotune.findtext("group_name"))})
    except LimitsError as error:
        return Unknown(because(Code.IMPOSSIBLE, detail=str(error)))
    except ValueError as error:
        return Unknown(because(Code.UNREADABLE_XML, detail=f"iotune: {error}"))


def _attribute(element: ET.Element | None, name: str) -> str | None:
    return None if element is None else element.get(name)
