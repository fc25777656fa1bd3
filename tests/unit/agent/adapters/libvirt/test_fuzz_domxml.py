"""Domain XML that was damaged, or made to harm: read right or not at all, never looser, never another error."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll_agent.adapters.libvirt.domxml import parse
from plimsoll_agent.errors import UnreadableXML
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Mark, MarkedHold, Marks
from plimsoll_agent.model.reason import Unknown
from tests import depth
from tests.fakes import FakeDisk, FakeGuest, domain_xml
from tests.fuzz.targets.domain_xml import NOVA, assert_read_right, read
from tests.unit.values import GUEST, NINETEEN, NOON, VOLUME, examples, possible_limits

SAMPLES = tuple(
    path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parents[3] / "data").glob("*.live.xml"))
)
# --- whole documents


@st.composite
def _generated(draw: st.DrawFn) -> str:
    disks = {
        f"vd{letter}": FakeDisk(
            image=f"volume-{letter}",
            volume_id=draw(st.sampled_from([None, VOLUME])),
            defined=draw(possible_limits()),
            node=number,
        )
        for number, letter in enumerate("abcd"[: draw(st.integers(0, 4))])
    }
    hold = MarkedHold(limits=draw(possible_limits()), since=NOON, until=NOON, by="ann", why="<&>'")
    mark = Mark(desired=draw(possible_limits()), since=NOON, applied=draw(st.none() | possible_limits()), hold=hold)
    marks = draw(st.sampled_from([None, Marks({VOLUME: mark}).xml]))
    name = draw(st.sampled_from(["web", "<&>'", "🚢"]))
    return domain_xml(FakeGuest("instance-1", GUEST, disks, display_name=name, marks=marks))


documents = st.sampled_from(SAMPLES) | _generated()

ODD_NUMBERS = [
    *("", " ", "\n", "0", "00", "-0", "-1", "+5", " 5", "5 ", "5\n", "\u00a05", "1_000", "1,000", "5.0", "1e9"),
    *("0x5", "５００", "٥٠٠", "५००", "²", "Ⅴ", "五", "inf", "nan", "None"),
    *("1" * 15, "1" * 16, "1" * 20, "1" * 21, "9" * 5000),
]
ODD_TEXTS = [
    *ODD_NUMBERS,
    *("network", "rbd", "a/b", "a/b/c", "a//b", "/", VOLUME, GUEST, "x" * 3000, "🚢", "\u202e", "'\""),
]
TAGS = ["disk", "source", "target", "iotune", "serial", "alias", "mirror", "host", "group_name", *NINETEEN[:4]]


@given(documents)
@examples
def test_an_undamaged_definition_is_read_right_and_whole(text: str) -> None:
    answer = read(text)
    assert answer is not None
    assert len(answer[1]) == text.count("protocol='rbd'")
    assert all(isinstance(disk.defined, Limits) for disk in answer[1])
    assert_read_right(text)


# --- damage to the tree


def _all(root: ET.Element) -> list[tuple[ET.Element, ET.Element]]:
    return [(parent, child) for parent in root.iter() for child in parent]


def _interesting(root: ET.Element) -> list[tuple[ET.Element, ET.Element]]:
    """Half of the damage goes where it can harm: at disks, their parts, and who the guest is."""
    tags = {"name", "uuid", "devices", *TAGS}
    return [(parent, child) for parent, child in _all(root) if child.tag in tags] or _all(root)


@st.composite
def damaged_trees(draw: st.DrawFn) -> str:
    text = draw(documents)
    if draw(st.booleans()):
        text = text.replace(NOVA + "1", NOVA + "0")
    root = ET.fromstring(text)
    for _ in range(draw(st.integers(1, 4))):
        pairs = (_interesting if draw(st.booleans()) else _all)(root)
        parent, child = pairs[draw(st.integers(0, len(pairs) - 1))]
        _, elsewhere = pairs[draw(st.integers(0, len(pairs) - 1))]
        draw(st.sampled_from(DAMAGES))(draw, parent, child, elsewhere)
    return ET.tostring(root, encoding="unicode")


def _drop(draw: st.DrawFn, parent: ET.Element, child: ET.Element, elsewhere: ET.Element) -> None:
    parent.remove(child)


def _twice(draw: st.DrawFn, parent: ET.Element, child: ET.Element, elsewhere: ET.Element) -> None:
    parent.insert(draw(st.integers(0, len(parent))), deepcopy(child))


def _twice_but_other(draw: st.DrawFn, parent: ET.Element, child: ET.Element, elsewhere: ET.Element) -> None:
    copy = deepcopy(child)
    copy.text = draw(st.sampled_from(ODD_TEXTS))
    parent.insert(draw(st.integers(0, len(parent))), copy)


def _reorder(draw: st.DrawFn, parent: ET.Element, child: ET.Element, elsewhere: ET.Element) -> None:
    parent[:] = draw(st.permutations(list(parent)))


def _text(draw: st.DrawFn, parent: ET.Element, child: ET.Element, elsewhere: ET.Element) -> None:
    child.text = draw(st.sampled_from(ODD_TEXTS))


def _attribute(draw: st.DrawFn, parent: ET.Element, child: ET.Element, elsewhere: ET.Element) -> None:
    for name in list(child.attrib)[: draw(st.integers(0, 2))]:
        del child.attrib[name]
    child.set(
        draw(st.sampled_from(["type", "device", "protocol", "name", "dev", "id"])), draw(st.sampled_from(ODD_TEXTS))
    )


def _rename(draw: st.DrawFn, parent: ET.Element, child: ET.Element, elsewhere: ET.Element) -> None:
    child.tag = draw(st.sampled_from([*TAGS, "{http://example.org}" + TAGS[0], "x" * 3000]))


def _nest(draw: st.DrawFn, parent: ET.Element, child: ET.Element, elsewhere: ET.Element) -> None:
    elsewhere.append(deepcopy(child))


def _interrupt(draw: st.DrawFn, parent: ET.Element, child: ET.Element, elsewhere: ET.Element) -> None:
    """5<!-- -->00: a comment, an instruction or an element within a text."""
    between = draw(st.sampled_from([ET.Comment, ET.ProcessingInstruction, ET.Element]))("x")
    text = child.text or ""
    cut = draw(st.integers(0, min(len(text), 9)))
    child.text, between.tail = text[:cut], text[cut:]
    child.insert(0, between)


Damage = Callable[[st.DrawFn, ET.Element, ET.Element, ET.Element], None]
DAMAGES: list[Damage] = [_drop, _twice, _twice_but_other, _reorder, _text, _attribute, _rename, _nest, _interrupt]


@given(damaged_trees())
@examples
def test_a_damaged_tree_is_refused_or_read_right_and_never_looser(text: str) -> None:
    assert_read_right(text)


# --- damage to one limit


@given(
    st.sampled_from(NINETEEN),
    st.sampled_from(ODD_NUMBERS) | st.text(st.characters(categories=["Nd", "No", "Zs"]), min_size=1, max_size=3),
    st.sampled_from(
        ["{}", "<![CDATA[{}]]>", "{}<!-- 1 -->", "<?x 1?>{}", "{}<x/>", "<x>{}</x>", "{}</{name}><{name}>7"]
    ),
)
@examples
def test_a_number_that_cannot_be_read_is_unknown_and_never_unlimited(name: str, number: str, frame: str) -> None:
    base, text = name.partition("_max")[0], frame.format(number, name=name)
    # With it a base and a burst of 9, where it is none itself.
    others = {base: "9", f"{base}_max": "9"} if name != "size_iops_sec" else {"total_iops_sec": "9"}
    said = "".join(f"<{each}>{value}</{each}>" for each, value in others.items() if each != name)
    disk = f"<source protocol='rbd' name='a/b'/><target dev='vda'/><iotune>{said}<{name}>{text}</{name}></iotune>"
    xml = f"<domain><name>n</name><uuid>u</uuid><devices><disk type='network'>{disk}</disk></devices></domain>"
    assert_read_right(xml)
    answer = read(xml)
    if answer is not None and not re.fullmatch("[0-9]+", number, re.ASCII):
        assert isinstance(answer[1][0].defined, Unknown)


# --- damage to the text


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    text = draw(documents)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        if draw(st.booleans()):  # aim: a number, a tag, or an attribute
            places = [match.start() for match in re.finditer(r"\d+|</?\w|\w+=", text)]
            start = places[draw(st.integers(0, len(places) - 1))] if places else 0
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 2, 10, 300])))
        text = text[:start] + draw(SPLINTERS) + text[end:]
    return text


SPLINTERS = st.sampled_from(
    [
        *("", "<", ">", "&", "'", '"', "]]>", "<!--", "-->", "<?x", "?>", "<![CDATA[", "<![CDATA[5]]>", "<!-- 5 -->"),
        *("&lt;", "&#53;", "&#x35;", "&#0;", "&#xD800;", "&#x110000;", "&x;", "&amp", "%x;", "\ufeff", "\0"),
        *("\ud800",),
        *("\x1b", "\x85", "\u2028", "\ufffe", "\U0010ffff", "５", "-", "+", "_", " ", "0", "00", "9" * 30),
        *("9" * 5000,),
        *("<iotune>", "</iotune>", "<iotune/>", "<disk>", "</disk>", "</devices>", "<serial>", "</serial>", "<x/>"),
        *("<?xml version='1.0' encoding='utf-16'?>", "<?xml version='1.1'?>", "<!DOCTYPE d>", "<!ENTITY e 'x'>"),
        *("xmlns='x'", "xmlns:nova='x'", "x:", " dev='vdz'", " type='file'", "name='a/b'", "x" * 3000),
    ]
) | st.text(max_size=3)


@given(damaged_texts())
@example("\ufeff" + SAMPLES[0])
@example("<?xml version='1.0' encoding='utf-16'?>" + SAMPLES[0])
@example("<?xml version='1.0' encoding='no-such'?>" + SAMPLES[0])
@example(SAMPLES[0] + "\0")
@examples
def test_a_damaged_text_is_refused_or_read_right_and_never_looser(text: str) -> None:
    if not text.startswith(("<?xml", "\ufeff")):
        assert_read_right(text)
    else:  # the other parser takes the text's word for its encoding
        read(text)


# --- size

SOURCE = "<source protocol='rbd' name='p/i' index='1'/>"
DISK = f"<disk type='network'>{SOURCE}<target dev='vda'/><iotune><total_iops_sec>5</total_iops_sec></iotune></disk>"


def _domain(devices: str = "", metadata: str = "") -> str:
    return f"<domain><name>n</name><uuid>u</uuid><metadata>{metadata}</metadata><devices>{devices}</devices></domain>"


SIZE = depth.count(quick=8, landing=1, soak=1)
"""How often the huge definitions are smaller than a mebibyte."""
LARGE = 2**20 // SIZE
HUGE = {
    "disks": _domain(DISK * (8000 // SIZE)),
    "a comment": _domain(f"<!--{'x' * LARGE}-->"),
    "comments in a number": _domain(DISK.replace("5", "5" + "<!-- -->" * (100_000 // SIZE))),
    "an attribute": _domain(DISK.replace("'vda'", f"'{'x' * LARGE}'")),
    "attributes": _domain("<disk " + " ".join(f"a{n}=''" for n in range(80_000 // SIZE)) + "/>"),
    "a number": _domain(DISK.replace("5", "5" * LARGE)),
    "a tag": _domain(DISK.replace("total_iops_sec", "x" * (LARGE // 2))),
    "unknown limits": _domain(
        DISK.replace("<iotune>", "<iotune>" + "".join(f"<x{n}>1</x{n}>" for n in range(50_000 // SIZE)))
    ),
    "a serial": _domain(DISK.replace("</disk>", f"<serial>{'a-' * (LARGE // 2)}</serial></disk>")),
    "slashes": _domain(DISK.replace("p/i", "/" * LARGE)),
    "monitors": _domain(
        DISK.replace("/><target", ">" + "<host name='::1'/>" * (50_000 // SIZE) + "</source><target")
    ),
    "a namespace": _domain(metadata=f"<x:a xmlns:x='{'u' * LARGE}'>{'<x:a/>' * (100_000 // SIZE)}</x:a>"),
    "namespaces": _domain(metadata="<a " + " ".join(f"xmlns:a{n}='u'" for n in range(50_000 // SIZE)) + "/>"),
    "depth": _domain("<a>" * (100_000 // SIZE) + "</a>" * (100_000 // SIZE)),
    "openings": "<a>" * (200_000 // SIZE),
    "entities": _domain("&amp;" * (200_000 // SIZE)),
    "a document type": f"<!DOCTYPE {'d' * LARGE}>{_domain()}",
    "laughter": (
        "<!DOCTYPE d [<!ENTITY a0 'x'>"
        + "".join(f"<!ENTITY a{n + 1} '{f'&a{n};' * 10}'>" for n in range(12))
        + f"]>{_domain('&a12;')}"
    ),
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
def test_a_huge_definition_takes_seconds_and_its_complaint_is_short(text: str) -> None:
    begun = time.process_time()
    try:
        disks = parse(text)[1]
        complaints = [str(disk.defined.reason.facts) for disk in disks if isinstance(disk.defined, Unknown)]
    except UnreadableXML as refused:
        complaints = [str(refused)]
    assert time.process_time() - begun < 20
    assert max(map(len, complaints), default=0) < 500
