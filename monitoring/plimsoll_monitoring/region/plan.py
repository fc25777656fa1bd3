"""Whom an approval with stages reaches first: guests and disks by stage and project, from metrics. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from plimsoll_agent.catalogue.stages import LAST, Stages
from plimsoll_agent.monitor import metrics
from plimsoll_agent.util.frozen import frozen
from plimsoll_monitoring.promql import SeriesSelection, each
from plimsoll_monitoring.region import disks
from plimsoll_monitoring.region.answers import Answers, NodeKey, key_of, label

_PLACE = "region, instance, project"


@frozen(kw_only=True)
class StageReach:
    """What a stage has of a project, without what stages before have."""

    stage: int
    """From 1."""
    percent: float
    region: str
    project: str
    name: str
    """Of the project; empty if unknown."""
    guests: int
    disks: int
    nodes: int
    """Of the stage, with whatever disks."""


def questions(selection: SeriesSelection) -> dict[str, str]:
    nodes, types = selection.matchers(), selection.matchers(types=True, projects=True)
    every = each(metrics.DISK_INFO, types, "project", "uuid", "target_device")
    return {
        "nodes": each(metrics.PASS_LAST_TIMESTAMP_SECONDS, nodes),
        "positions": each(metrics.STAGE_POSITION, nodes),
        "disks": f"count by ({_PLACE}) ({every})",
        "guests": f"count by ({_PLACE}) (count by ({_PLACE}, uuid) ({every}))",
        "names": f"max by (project, project_name) ({metrics.GUEST_INFO}{selection.matchers(projects=True)})",
    }


def without_disks(selection: SeriesSelection) -> str:
    return disks.without_disks(selection.matchers())


def stage_of(answers: Answers, stages: Stages) -> dict[NodeKey, int]:
    """The number of each node's stage, from 0; a node without a position, as of 0.1.0, is in the last."""
    positions = {key_of(one): one.known for one in answers["positions"]}
    places = ((key, positions.get(key)) for key in map(key_of, answers["nodes"]))
    return {key: stages.of(min(LAST, LAST if place is None else place)) for key, place in places}


def reaches(answers: Answers, stages: Stages) -> Iterator[StageReach]:
    """The first stage first, and in each the project with the most guests."""
    stage = stage_of(answers, stages)
    numbers = dict[str, dict[tuple[int, str, str], int]]()
    for name in ("guests", "disks"):
        counts: dict[tuple[int, str, str], int] = defaultdict(int)
        for one in answers[name]:
            key = key_of(one)
            if key in stage:
                counts[stage[key], key[0], label(one, "project")] += round(one.value)
        numbers[name] = counts
    names = {label(one, "project"): label(one, "project_name") for one in answers["names"]}
    guests = numbers["guests"]
    for place in sorted(guests, key=lambda place: (place[0], -guests[place], place)):
        number, region, project = place
        yield StageReach(
            stage=number + 1,
            percent=stages.percent[number],
            region=region,
            project=project,
            name=names.get(project, ""),
            guests=guests[place],
            disks=numbers["disks"][place],
            nodes=sum(each == number and key[0] == region for key, each in stage.items()),
        )


def stage_lines(answers: Answers, stages: Stages, rows: Sequence[StageReach]) -> Iterator[str]:
    """A line for each stage; one without nodes cannot be judged."""
    stage = stage_of(answers, stages)
    for number, share in enumerate(stages.percent):
        nodes = sum(each == number for each in stage.values())
        here = [row for row in rows if row.stage == number + 1]
        counts = f"{sum(row.guests for row in here)} guests, {sum(row.disks for row in here)} disks"
        line = f"stage {number + 1} ({share:g} %): {nodes} nodes, {counts}"
        yield line if here else f"{line}; it has no touched disk, so it is not judged good: choose a larger share"
