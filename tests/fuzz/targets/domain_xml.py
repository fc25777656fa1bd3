"""Domain XML from libvirt; names, images and metadata in it are a tenant's choice."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from xml.dom import minidom
from xml.parsers.expat import ExpatError

from plimsoll_agent.adapters.libvirt.domxml import parse
from plimsoll_agent.errors import UnreadableXML
from plimsoll_agent.model import marks
from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Mark, Marks
from plimsoll_agent.model.reason import Unknown
from tests.unit.values import NINETEEN

NOVA = "http://openstack.org/xmlns/libvirt/nova/1."


def read(text: str) -> tuple[Guest, tuple[Disk, ...]] | None:
    """None where the text is refused. Any other error is the test's failure."""
    try:
        return parse(text)
    except UnreadableXML:
        return None


# --- what libvirt could have meant: another parser, and the strictest reading


def _texts(node: minidom.Node) -> str:
    """All the text below a node, as XPath's string() and so libvirt takes it."""
    if node.nodeType in (node.TEXT_NODE, node.CDATA_SECTION_NODE):
        return node.data
    if node.nodeType in (node.COMMENT_NODE, node.PROCESSING_INSTRUCTION_NODE):
        return ""
    return "".join(_texts(child) for child in node.childNodes)


def _elements(node: minidom.Node, *path: str) -> list[minidom.Element]:
    if not path:
        return [node]
    inner = [child for child in node.childNodes if child.nodeType == child.ELEMENT_NODE and child.tagName == path[0]]
    return [found for child in inner for found in _elements(child, *path[1:])]


def meant(disk: minidom.Element) -> dict[str, str] | None:
    """The limits that the definition of a disk states, None where it states none that are clear."""
    iotunes = _elements(disk, "iotune")
    if len(iotunes) > 1:
        return None
    said: dict[str, str] = {}
    for child in (node for iotune in iotunes for node in iotune.childNodes if node.nodeType == node.ELEMENT_NODE):
        text = _texts(child)
        known = child.tagName in NINETEEN and re.fullmatch("0|[1-9][0-9]*", text, re.ASCII)
        if child.tagName in said or not (known or child.tagName == "group_name"):
            return None
        said[child.tagName] = text
    return said


LONGEST_NUMBER = 100
"""Digits of one that may be a limit; Python reads no number of thousands of them."""


def is_what_was_meant(disk: Disk, element: minidom.Element) -> bool:
    """The disk was read off this element, and nothing of it is looser or somebody else's."""
    said = meant(element)
    serial = "".join(map(_texts, _elements(element, "serial")))
    if isinstance(disk.defined, Limits):
        if said is None or ("group_name" in said) < bool(disk.defined.group_name):
            return False
        if any(len(said.get(name, "0")) > LONGEST_NUMBER for name in NINETEEN):
            return False
        for name in NINETEEN:
            value = int(said.get(name, "0"))
            # A length of 0 and of 1 is the same, and there is none without a burst.
            plain = name.endswith("_length") and value <= 1 and getattr(disk.defined, name) <= 1
            if getattr(disk.defined, name) != value and not plain:
                return False
    return (
        [target.getAttribute("dev") for target in _elements(element, "target")] == [disk.target]
        and [source.getAttribute("name") for source in _elements(element, "source")] == [disk.path]
        and disk.volume_id in (None, serial.lower())
    )


def assert_read_right(text: str) -> None:
    answer = read(text)
    if answer is None:
        return
    guest, disks = answer
    try:
        root = minidom.parseString(text.encode()).documentElement
    except ExpatError:  # a namespace with a space in it, which minidom alone refuses
        return
    assert root.tagName == "domain"
    assert [guest.name] == [_texts(name) for name in _elements(root, "name")]
    assert [guest.uuid] == [_texts(uuid) for uuid in _elements(root, "uuid")]
    if guest.project is not None:
        # Which prefix stands for Nova is the document's business: any project that says so.
        stated = [each for each in root.getElementsByTagName("*") if each.localName == "project"]
        assert guest.project in [
            each.getAttribute("uuid") for each in stated if (each.namespaceURI or "").startswith(NOVA)
        ]
    elements = _elements(root, "devices", "disk")
    for disk in disks:
        assert isinstance(disk.defined, Limits | Unknown)
        assert all([disk.target, disk.pool, disk.image])
        assert any(is_what_was_meant(disk, element) for element in elements), disk


def _limits_of(mark: Mark) -> Iterator[Limits]:
    held = None if mark.hold is None else mark.hold.limits
    given = (mark.desired, mark.applied, mark.restore_to, held, *(each.limits for each in mark.later or ()))
    return (limits for limits in given if limits is not None)


def assert_marks_read_right(text: str, read_marks: Marks) -> None:
    """Each set of limits in a mark stands there, and what was read can be written and read again."""
    stated = [dict(element.attrib) for element in ET.fromstring(text).iter()]
    for mark in read_marks.by_disk.values():
        for limits in _limits_of(mark):
            assert any(_says(attributes, limits) for attributes in stated), limits
    again = marks.read(ET.fromstring(read_marks.xml))
    assert again.by_disk == read_marks.by_disk


def _says(attributes: dict[str, str], limits: Limits) -> bool:
    said = {name: str(value) for name, value in limits.in_effect().items()}
    # A length of 1 is what every burst has, and every limit without one.
    left = {name: value for name, value in attributes.items() if name not in said}
    return said.items() <= attributes.items() and all(
        name.endswith("_length") and value == "1" for name, value in left.items()
    )


def target(data: bytes) -> None:
    # libvirt's bindings decode as UTF-8, and the parser takes text.
    text = data.decode("utf-8", "replace")
    answer = read(text)
    if answer is None or text.startswith(
        ("<?xml", "\ufeff")
    ):  # the other parser takes the text's word for its encoding
        return
    assert_read_right(text)
    if isinstance(answer[0].marks, Marks):
        assert_marks_read_right(text, answer[0].marks)
