"""Whom each stage of an approval reaches."""

from __future__ import annotations

from datetime import timedelta

from plimsoll_agent.catalogue.stages import Stages
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region.answers import Series
from plimsoll_monitoring.region.plan import StageReach, questions, reaches, stage_lines

STAGES = Stages(percent=(1.0, 10.0, 100.0), wait=timedelta())


def series(value: float, node: str, region: str = "r1", **labels: str) -> Series:
    return Series({"region": region, "instance": node, **labels}, value)


ANSWERS = {
    "nodes": [series(1, node) for node in ("n1", "n2", "n3", "old")] + [series(1, "n1", "r2")],
    "positions": [series(0.5, "n1"), series(0.9, "n2"), series(55, "n3"), series(float("nan"), "n1", "r2")],
    "guests": [
        series(2, "n1", project="p1"),
        series(3, "n2", project="p1"),
        series(9, "n2", project="p2"),
        series(1, "n3", project="p1"),
        series(4, "old", project=""),
        series(7, "n1", "r2", project="p1"),
        series(8, "gone", project="p1"),
    ],
    "disks": [
        series(4, "n1", project="p1"),
        series(3, "n2", project="p1"),
        series(9, "n2", project="p2"),
        series(2, "n3", project="p1"),
        series(5, "old", project=""),
        series(7, "n1", "r2", project="p1"),
    ],
    "names": [Series({"project": "p1", "project_name": "shop"}, 1)],
}


def test_guests_count_in_the_stage_of_their_node_and_nodes_without_a_position_are_last() -> None:
    """Nodes of 0.1.0 have none; a position that is not a number is none."""
    assert [(row.stage, row.region, row.name or row.project, row.guests, row.disks, row.nodes) for row in rows()] == [
        (1, "r1", "p2", 9, 9, 2),
        (1, "r1", "shop", 5, 7, 2),
        (3, "r2", "shop", 7, 7, 1),
        (3, "r1", "", 4, 5, 2),
        (3, "r1", "shop", 1, 2, 2),
    ]


def test_a_stage_that_no_node_is_in_is_told_before_it_is_approved() -> None:
    assert list(stage_lines(ANSWERS, STAGES, rows())) == [
        "stage 1 (1 %): 2 nodes, 14 guests, 16 disks",
        "stage 2 (10 %): 0 nodes, 0 guests, 0 disks; it has no touched disk, so it is not judged good:"
        " choose a larger share",
        "stage 3 (100 %): 3 nodes, 12 guests, 14 disks",
    ]


def rows() -> list[StageReach]:
    return list(reaches(ANSWERS, STAGES))


def test_only_disks_of_the_touched_types_are_counted() -> None:
    asked = questions(SeriesSelection(region="r1", types=("gold",)))
    assert 'volume_type=~"gold"' in asked["disks"]
    assert 'volume_type=~"gold"' in asked["guests"]
    assert "volume_type" not in asked["nodes"]
