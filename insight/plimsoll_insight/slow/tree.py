"""The CRUSH tree, out of ``ceph osd tree`` as text, with and without CLASS, or as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.frozen import frozen

_ROW = re.compile(
    r"\s*-?\d+\s+(?:(?P<class>[A-Za-z]\S*)\s+)?-?[\d.]+(?P<gap>\s+)"
    r"(?:osd\.(?P<osd>\d+)\b|(?P<type>[\w-]+) (?P<name>\S+))"
)


_SHADOW = "~"
"""In the name of a bucket that has the OSDs of one device class again: ``default~hdd``. No name has it else."""
NO_OSD = 2**31 - 1
"""In an erasure-coded placement group, in place of one that is down (``CRUSH_ITEM_NONE``)."""


class UnreadableTree(PlimsollError):
    """A file is no CRUSH tree."""


@frozen
class CrushBucket:
    """A root, rack, host or what else a map has, with the way to it from the root: ``(root, default), (host, a)``."""

    path: tuple[tuple[str, str], ...]

    @property
    def type(self) -> str:
        return self.path[-1][0]

    @property
    def name(self) -> str:
        return self.path[-1][1]

    @property
    def host(self) -> str:
        """The name of the host that it is or is in: a map may have buckets between hosts and OSDs. Else its own."""
        return next((name for type, name in self.path if type == "host"), self.name)


@frozen(kw_only=True)
class Tree:
    """The bucket of each OSD, in the order of the map."""

    bucket_of: Mapping[int, CrushBucket]
    class_of: Mapping[int, str] = field(default_factory=dict)
    """``hdd``, ``ssd``; empty where it has none."""
    links: Sequence[tuple[int, CrushBucket]] = ()
    """Where OSDs are besides: a bucket may be in several (``ceph osd crush link``)."""
    type_of: Mapping[int, str] = field(default_factory=dict)
    """The names of types of buckets by their numbers; empty of a text, which has none."""

    @property
    def osds(self) -> Sequence[int]:
        return list(self.bucket_of)

    def types(self) -> list[str]:
        """From root to host."""
        types: dict[str, None] = {}
        for bucket in self.bucket_of.values():
            types.update(dict.fromkeys(type for type, _ in bucket.path))
        return list(types)

    def alike(self) -> dict[tuple[tuple[str, str], str], list[int]]:
        """The OSDs of each root and device class: only these can be compared."""
        osds: dict[tuple[tuple[str, str], str], list[int]] = {}
        for osd, bucket in self.bucket_of.items():
            osds.setdefault((bucket.path[0], self.class_of.get(osd, "")), []).append(osd)
        return osds

    def buckets(self) -> dict[CrushBucket, list[int]]:
        """All OSDs below each bucket; a bucket comes before those in it, but for those that are linked into it."""
        below: dict[CrushBucket, list[int]] = {}
        for osd, bucket in self.bucket_of.items():
            for depth in range(1, len(bucket.path) + 1):
                below.setdefault(CrushBucket(bucket.path[:depth]), []).append(osd)
        by_name = {bucket.name: bucket for bucket in below} if self.links else {}
        for osd, bucket in self.links:
            for depth, (_, name) in enumerate(bucket.path, 1):
                osds = below.setdefault(by_name.setdefault(name, CrushBucket(bucket.path[:depth])), [])
                if osd not in osds:
                    osds.append(osd)
        return below


def parse(text: str, where: str) -> Tree:
    """Raises ``UnreadableTree``."""
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else None
        rows = list(_of_text(text) if document is None else _of_json(document))
        bucket_of = {osd: bucket for osd, bucket, _ in rows}
        links = [(osd, bucket) for osd, bucket, _ in rows if bucket != bucket_of[osd]]
        types = {} if document is None else {
            int(node["type_id"]): str(node["type"]) for node in document["nodes"] if "type_id" in node
        }  # fmt: skip
        tree = Tree(bucket_of=bucket_of, class_of={osd: kind for osd, _, kind in rows}, links=links, type_of=types)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, IndexError):
        tree = Tree(bucket_of={})
    if not tree.bucket_of:
        raise UnreadableTree(f"{where}: not the output of ceph osd tree (text, or -f json)")
    return tree


def _of_text(text: str) -> Iterator[tuple[int, CrushBucket, str]]:
    above: list[tuple[int, tuple[str, str]]] = []
    for line in text.splitlines():
        row = _ROW.match(line)
        if not row:
            continue
        # Until Hammer each level is a tab more, after numbers of any width.
        indent = row["gap"].count("\t") or row.end("gap")
        while above and above[-1][0] >= indent:
            above.pop()
        if row["osd"] and not above:
            continue  # outside the map
        if row["osd"] and any(_SHADOW in name for _, (_, name) in above):
            continue
        if row["osd"]:
            yield int(row["osd"]), CrushBucket(tuple(each for _, each in above)), row["class"] or ""
        else:
            above.append((indent, (row["type"], row["name"])))


def _of_json(document: Mapping[str, Any]) -> Iterator[tuple[int, CrushBucket, str]]:
    nodes = {node["id"]: node for node in document["nodes"]}
    inside = {child for node in nodes.values() for child in node.get("children", ())}

    def below(id: int, path: tuple[tuple[str, str], ...]) -> Iterator[tuple[int, CrushBucket, str]]:
        node = nodes[id]
        if node["type"] == "osd":
            yield id, CrushBucket(path), str(node.get("device_class") or "")
            return
        here = (*path, (str(node["type"]), str(node["name"])))
        for child in sorted(node.get("children", ()), key=abs):
            yield from below(child, here)

    for id in nodes:
        if id not in inside and nodes[id]["type"] != "osd" and _SHADOW not in str(nodes[id]["name"]):
            yield from below(id, ())
