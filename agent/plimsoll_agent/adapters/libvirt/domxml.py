"""Parses libvirt's domain XML into a guest and its RBD disks. Pure."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from plimsoll_agent.errors import UnreadableXML
from plimsoll_agent.model import marks
from plimsoll_agent.model.disk import MONITOR_PORT, Disk, Guest, filtered
from plimsoll_agent.model.limits import Limits, LimitsError, filter_group, shared_group, together
from plimsoll_agent.model.marks import Marks
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.util.frozen import replace

# 1.0 until Nova 22; a guest keeps the version of its last cold start.
NOVAS = ("{http://openstack.org/xmlns/libvirt/nova/1.1}", "{http://openstack.org/xmlns/libvirt/nova/1.0}")
# The name of the project of a guest from before Nova 16, which did not keep it.
_NO_NAME = "N/A"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
# libvirt writes numbers with %llu; int() would also read "1_000", "+5", " 5 " and the digits of every script.
_NUMBER = re.compile(r"0|[1-9][0-9]{0,19}", re.ASCII)

# The kernel's name of a mapped image, or udev's: /dev/rbd/POOL/IMAGE. Below an encrypted one lies another device.
_RBD_DEVICE = re.compile(r"/dev/rbd(?:[0-9]|/.)")

# Characters of a namespace, and of an error, which may quote a tenant's text.
_MOST = 200
_MOST_CONSOLES, _LONGEST_PATH = 4, 1024


class _Plain(ET.TreeBuilder):
    """Refuses a document type, which libvirt never writes: its entities would be an attack."""

    def start_ns(self, _prefix: str, uri: str) -> None:
        # Every name in a namespace holds a copy of it: a long one with many names would take minutes.
        if len(uri) > _MOST:
            raise UnreadableXML(f"a namespace of {len(uri)} characters")

    def doctype(self, name: str, *_identifiers: str) -> None:
        raise UnreadableXML(f"document type {name[:40]!r} in a domain's XML")


def parse(text: str) -> tuple[Guest, tuple[Disk, ...]]:
    """The guest and its RBD disks in the definition's order.

    RBD disks are ``<disk type="network" device="disk">`` with protocol rbd. Raises ``UnreadableXML``, also for a
    second copy of what libvirt writes once. Limits that cannot be read make ``defined`` ``Unknown``.
    """
    try:
        domain = ET.fromstring(text, ET.XMLParser(target=_Plain()))  # noqa: S314  # no entities: see _Plain
    except (ET.ParseError, ValueError) as error:
        raise UnreadableXML(str(error)) from error
    guest = _guest(domain)
    groups = _throttle_groups(domain)
    guest = replace(
        guest,
        other_groups=_other_groups(domain, guest),
        filter_groups=frozenset(map(filter_group, groups)),
        consoles=_consoles(domain),
    )
    # The device is "disk" by default (libvirt's formatdomain).
    elements = [element for element in domain.iterfind("./devices/disk") if element.get("device", "disk") == "disk"]
    # Nova writes a config drive that is a disk before the volumes.
    first = next((element for element in elements if not _is_config_drive(element)), None)
    disks = [_disk(guest, element, root=element is first, groups=groups) for element in elements]
    others = [element for element, disk in zip(elements, disks, strict=True) if disk is None]
    guest = replace(guest, other_disks=_targets(others), kernel_mapped=_targets(filter(_is_kernel_mapped, others)))
    return guest, tuple(disk for disk in disks if disk is not None)


def _targets(disks: Iterable[ET.Element]) -> tuple[str, ...]:
    return tuple(target.get("dev", "") for disk in disks if (target := disk.find("target")) is not None)


def _is_kernel_mapped(disk: ET.Element) -> bool:
    source = disk.find("source")
    return disk.get("type") == "block" and source is not None and bool(_RBD_DEVICE.match(source.get("dev", "")))


def _is_config_drive(disk: ET.Element) -> bool:
    source = disk.find("source")
    name = "" if source is None else source.get("name") or source.get("file") or ""
    return name.endswith(("_disk.config", "/disk.config"))


def _other_groups(domain: ET.Element, guest: Guest) -> frozenset[str]:
    """The throttle groups of all other drives."""
    pairs = ((each, each.findtext("./iotune/group_name")) for each in domain.iterfind("./devices/disk"))
    names = (
        shared_group(name)
        for element, name in pairs
        if name and (element.get("device", "disk") != "disk" or _disk(guest, element, root=False) is None)
    )
    return frozenset(filter(None, names))


def _throttle_groups(domain: ET.Element) -> dict[str, Limits | Unknown]:
    """Those of <throttlegroups> (libvirt 11.2), by name. Raises ``UnreadableXML``."""
    groups: dict[str, Limits | Unknown] = {}
    disk_groups = {element.text for element in domain.iterfind("./devices/disk/iotune/group_name")}
    for element in domain.iterfind("./throttlegroups/throttlegroup"):
        name = _text(_only(element, "group_name")) or ""
        if not name or name in groups:
            raise UnreadableXML(f"a throttle group {'is there twice' if name else 'without a name'}")
        limits = _limits(element)
        if filter_group(name) in disk_groups:  # a disk has replaced them in QEMU, and libvirt shows the old ones
            limits = Unknown(because(Code.UNREADABLE_XML, detail="throttlegroup: a disk has it as group_name"))
        groups[name] = replace(limits, group_name=None) if isinstance(limits, Limits) else limits
    return groups


def _filters(disk: ET.Element, groups: Mapping[str, Limits | Unknown]) -> tuple[tuple[str, Limits | Unknown], ...]:
    names = [element.get("group", "") for element in disk.iterfind("./throttlefilters/throttlefilter")]
    absent = Unknown(because(Code.UNREADABLE_XML, detail="throttlefilters: no such throttle group"))
    return tuple((name, groups.get(name, absent)) for name in names)


def _behind(filters: tuple[tuple[str, Limits | Unknown], ...]) -> Limits | Unknown:
    """What the filters leave together. One has QEMU's name of its group: other disks may share it."""
    sets = [limits for _, limits in filters if isinstance(limits, Limits)]
    result = together(sets) if len(sets) == len(filters) else None
    if result is None:
        return Unknown(filtered(filters))
    return result if len(filters) > 1 or result.unlimited else replace(result, group_name=filter_group(filters[0][0]))


def _consoles(domain: ET.Element) -> tuple[str, ...]:
    """The files that its serial ports and consoles are logged to, each once."""
    files: list[str | None] = []
    for device in (*domain.iterfind("./devices/serial"), *domain.iterfind("./devices/console")):
        if device.get("type") == "file":
            files += [source.get("path") for source in device.iterfind("source")]
        files += [log.get("file") for log in device.iterfind("log")]
    paths = dict.fromkeys(path for path in files if path and path.startswith("/") and len(path) <= _LONGEST_PATH)
    return tuple(paths)[:_MOST_CONSOLES]


def _guest(domain: ET.Element) -> Guest:
    uuid, name = _text(_only(domain, "uuid")), _text(_only(domain, "name"))
    if domain.tag != "domain" or not uuid or not name:
        raise UnreadableXML("no domain, or its name or uuid is missing")
    run, guest_marks = domain.get("id"), _marks(domain)
    for namespace in NOVAS:
        nova = _only(domain, f"./metadata/{namespace}instance")
        if nova is not None:
            return replace(_nova_guest(uuid, name, run, nova, namespace), marks=guest_marks)
    return Guest(uuid=uuid, name=name, run=run, marks=guest_marks)


def _marks(domain: ET.Element) -> Marks | Unknown | None:
    """plimsoll's own marks; ``Unknown`` where they cannot be read."""
    try:
        element = _only(domain, f"./metadata/{{{marks.NAMESPACE}}}marks")
        return None if element is None else marks.read(element)
    except (marks.UnreadableMark, UnreadableXML) as error:
        return Unknown(because(Code.MARK_UNREADABLE, detail=str(error)[:_MOST]))


def _nova_guest(uuid: str, name: str, run: str | None, nova: ET.Element, ns: str) -> Guest:
    project = _only(nova, f"./{ns}owner/{ns}project")
    # Nova before 2024.2 writes none for a guest that boots from a volume.
    root = _only(nova, f"./{ns}root")
    of_image = root is not None and root.get("type") == "image"
    return Guest(
        uuid=uuid,
        name=name,
        run=run,
        display_name=_text(_only(nova, f"./{ns}name")),
        project=_attribute(project, "uuid"),
        project_name=None if (name_of_project := _text(project)) == _NO_NAME else name_of_project,
        user=_attribute(_only(nova, f"./{ns}owner/{ns}user"), "uuid"),
        flavor=_attribute(_only(nova, f"./{ns}flavor"), "name"),
        extra_specs=_extra_specs(_only(nova, f"./{ns}flavor/{ns}extraSpecs"), ns),
        image=_attribute(root, "uuid") if of_image else None,
        boots_from_volume=not of_image,
    )


def _extra_specs(element: ET.Element | None, ns: str) -> dict[str, str] | None:
    """None where Nova did not write them; an empty element stands for none."""
    if element is None:
        return None
    pairs = [(one.get("name", ""), _text(one) or "") for one in element.iterfind(f"./{ns}extraSpec")]
    specs = dict(pairs)
    if len(specs) < len(pairs):
        raise UnreadableXML("an extra spec is there twice")
    return specs


def _disk(
    guest: Guest, element: ET.Element, *, root: bool, groups: Mapping[str, Limits | Unknown] = MappingProxyType({})
) -> Disk | None:
    if element.get("type") != "network":
        return None
    source, target = _only(element, "source"), _only(element, "target")
    if source is None or target is None or source.get("protocol") != "rbd":
        return None
    path = source.get("name", "").split("/")
    if len(path) not in (2, 3) or not all(path) or not target.get("dev"):
        return None
    serial = _text(_only(element, "serial")) or ""
    filters = _filters(element, groups)
    return Disk(
        guest=guest,
        target=target.get("dev", ""),
        bus=target.get("bus"),
        pool=path[0],
        namespace=path[1] if len(path) == 3 else None,
        image=path[-1],
        snapshot=_attribute(_only(source, "snapshot"), "name"),
        node=source.get("index", ""),
        # Not from the image's name: after a volume migration the image keeps another volume's id.
        volume_id=serial.lower() if _UUID.fullmatch(serial) else None,
        monitors=tuple(sorted(_monitor(host) for host in source.iterfind("host[@name]"))),
        conf=_attribute(_only(source, "config"), "file"),
        encrypted=element.find("encryption") is not None or source.find("encryption") is not None,
        alias=_attribute(_only(element, "alias"), "name"),
        root=root,
        shareable=element.find("shareable") is not None,
        defined=_behind(filters) if filters else _defined(element),
        filters=filters,
    )


def _monitor(host: ET.Element) -> str:
    name = host.get("name", "")
    return f"{f'[{name}]' if ':' in name else name}:{host.get('port', MONITOR_PORT)}"


def _defined(disk: ET.Element) -> Limits | Unknown:
    """The definition's limits; ``Unknown`` for what libvirt would not have written, never a guess."""
    try:
        iotune = _only(disk, "iotune")
    except UnreadableXML as error:
        return Unknown(because(Code.UNREADABLE_XML, detail=f"iotune: {error}"[:_MOST]))
    return Limits() if iotune is None else _limits(iotune)


def _limits(element: ET.Element) -> Limits | Unknown:
    try:
        texts = {child.tag: _text(child) or "" for child in element}
        if len(texts) < len(element):
            raise UnreadableXML("a limit is there twice")
        group = shared_group(texts.pop("group_name", None))
        numbers = {name: _number(name, text) for name, text in texts.items()}
        return Limits.from_mapping({**numbers, "group_name": group})
    except LimitsError as error:
        return Unknown(because(Code.IMPOSSIBLE, detail=str(error)[:_MOST]))
    except UnreadableXML as error:
        return Unknown(because(Code.UNREADABLE_XML, detail=f"{element.tag}: {error}"[:_MOST]))


def _number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise UnreadableXML(f"{name} is not a number: {text!r}")
    return int(text)


def _only(parent: ET.Element, path: str) -> ET.Element | None:
    elements = parent.findall(path)
    if len(elements) > 1:
        raise UnreadableXML(f"{path} is more than once in {parent.tag}")
    return elements[0] if elements else None


def _text(element: ET.Element | None) -> str | None:
    if element is None:
        return None
    # What follows a child would be lost: <total_iops_sec>5<x/>0</total_iops_sec>.
    if len(element):
        raise UnreadableXML(f"{element.tag} has more than text")
    return element.text


def _attribute(element: ET.Element | None, name: str) -> str | None:
    return None if element is None else element.get(name)
