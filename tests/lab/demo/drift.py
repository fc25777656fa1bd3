"""The first act: a disk without a limit, at its limit, loosened behind libvirt's back, and put right."""

from __future__ import annotations

import shutil
from pathlib import Path

from plimsoll_agent.adapters.libvirt import Libvirt
from plimsoll_agent.limits import Limits
from tests.lab import behind
from tests.lab.cloud import Cloud
from tests.lab.demo import plot
from tests.lab.demo.stage import Stage
from tests.looking import put

LIMIT = 250
RULES = f"""\
default:
  limits:
    total_iops_sec: {LIMIT}
    total_bytes_sec: 104857600
"""


def play(cloud: Cloud, picture: Path) -> None:
    stage = _stage(cloud)

    def scenes() -> None:
        stage.measure("1. No limit: the disk takes what the cluster gives", "no limit")
        print(
            "\n2. The rules give every disk a default:\n" + "".join(f"     {line}\n" for line in RULES.splitlines())
        )
        stage.plimsoll("plan")
        stage.plimsoll("enforce")
        stage.mark("enforce")
        stage.measure("   The same fio, at the limit", "enforced")
        print("\n3. Somebody loosens it in QEMU, behind libvirt's back")
        behind.set_limits(stage.guest, stage.target, Limits(total_iops_sec=LIMIT * 2))
        stage.mark("loosened")
        stage.plimsoll("disk", "list")
        stage.measure("   The same fio", "loosened")
        print("\n4. The next pass")
        stage.plimsoll("enforce")
        stage.mark("next pass")
        stage.measure("   The same fio", "put right")
        stage.plimsoll("disk", "explain", stage.guest.name, stage.target)

    sampler = stage.play(scenes)
    stage.table(LIMIT)
    title = "A guest's RBD disk, seen by libvirt: unlimited, enforced, loosened, put right"
    plot.draw(stage, sampler, [LIMIT], title, picture)


def _stage(cloud: Cloud) -> Stage:
    home = cloud.layout.root / "demo-drift"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    guest = cloud.booted_guest()
    hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=1)
    for target in ("vda", "vdb"):  # a cloud that was kept up may have limits of an earlier demo
        put(hypervisor, guest.uuid, target, Limits())
    hypervisor.close()
    (home / "rules.yaml").write_text(RULES)
    settings = home / "plimsoll.conf"
    settings.write_text(
        f"[DEFAULT]\nmode = enforce\nrules_file = {home}/rules.yaml\nstate_dir = {home}/state\n"
        f"[libvirt]\nuri = {cloud.libvirt_uri}\n[ceph]\nconf_files = {cloud.ceph.conf}\n"
    )
    return Stage(cloud, "vdb", "/mnt/volume", settings)
