"""Domain XML that was damaged, or made to harm: read right or not at all, never looser, never another error."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.adapters.libvirt.domxml import parse
from plimsoll_agent.errors import UnreadableXML
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Mark, MarkedHold, Marks
from plimsoll_agent.model.reason import Unknown
from tests import depth
from tests.fakes import FakeDisk, FakeGuest, domain_xml
from tests.fuzz.targets.domain_xml import assert_read_right, read
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


@given(documents)
@examples
def test_an_undamaged_definition_is_read_right_and_whole(text: str) -> None:
    answer = read(text)
    assert answer is not None
    assert len(answer[1]) == text.count("protocol='rbd'")
    assert all(isinstance(disk.defined, Limits) for disk in answer[1])
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


@pytest.mark.parametrize(
    "text",
    ["\ufeff{}", "<?xml version='1.0' encoding='utf-16'?>{}", "<?xml version='1.0' encoding='no-such'?>{}", "{}\0"],
)
def test_an_encoding_that_a_text_says_of_itself_is_no_other_error(text: str) -> None:
    read(text.format(SAMPLES[0]))


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
