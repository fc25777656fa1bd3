"""The first act: a disk without a limit, at its limit, raised over QMP, and corrected by the next pass."""

from __future__ import annotations

from pathlib import Path

from lab import behind
from lab.cloud import Cloud
from lab.demo import plot
from lab.demo.stage import Stage
from plimsoll_agent.model.limits import Limits

LIMIT = 250
RULES = f"""\
default:
  limits:
    total_iops_sec: {LIMIT}
    total_bytes_sec: 104857600
"""


def play(cloud: Cloud, picture: Path) -> None:
    stage = Stage(cloud, "drift", RULES)

    def scenes() -> None:
        stage.measure("1. No limit: the disk takes what the cluster gives", "no limit")
        print(
            "\n2. The rules give every disk a default:\n" + "".join(f"     {line}\n" for line in RULES.splitlines())
        )
        stage.plimsoll("plan")
        stage.plimsoll("enforce")
        stage.mark("enforce")
        stage.measure("   The same fio, at the limit", "enforced")
        print("\n3. Another program raises it over QMP, not through libvirt")
        behind.set_limits(stage.guest, stage.target, Limits(total_iops_sec=LIMIT * 2))
        stage.mark("raised")
        stage.plimsoll("disk", "list")
        stage.measure("   The same fio", "raised")
        print("\n4. The next pass")
        stage.plimsoll("enforce")
        stage.mark("next pass")
        stage.measure("   The same fio", "corrected")
        stage.plimsoll("disk", "explain", stage.guest.name, stage.target)

    sampler = stage.play(scenes)
    stage.table(LIMIT)
    title = "A guest's RBD disk, seen by libvirt: unlimited, enforced, raised, corrected"
    plot.draw(stage, sampler, title, picture)
