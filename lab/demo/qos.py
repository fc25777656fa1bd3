"""The second act: a QoS spec is edited in Cinder, and a volume that was attached before follows."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from lab.cloud import Cloud, Guest, LabError
from lab.demo import plot
from lab.demo.stage import Stage

BEFORE, AFTER = 200, 500
DIRECTORY = "/mnt/gold"


def play(cloud: Cloud, picture: Path) -> None:
    cloud.up(["openstack"])
    openstack, guest, tag = cloud.openstack, cloud.booted_guest(), uuid4().hex[:4]
    name = f"gold-{tag}"
    print(f"\n5. A volume of type {name}, whose QoS spec has total_iops_sec={BEFORE}, is attached to the guest")
    qos = openstack.create_qos(name, {"total_iops_sec": BEFORE})
    volume = openstack.create_volume(openstack.create_volume_type(name, qos), size_gib=1)
    attachment = cloud.attach_volume(guest, volume.id)
    _mount(guest, attachment.target)
    stage = _stage(cloud, attachment.target)

    def scenes() -> None:
        stage.measure("   The same fio, with the limit from the attach", "attached")
        print("\n6. The storage team edits the spec")
        print(f"$ openstack volume qos set --property total_iops_sec={AFTER} {name}")
        openstack.update_qos(qos, {"total_iops_sec": AFTER})
        stage.mark("spec edited")
        stage.measure("   Cinder has stored it; the attached volume keeps its limit", "spec edited")
        print("\n7. One pass. This Cinder has no volume vdb: its limit is unknown, and stays as it is")
        stage.plimsoll("enforce", "--refresh")
        stage.mark("enforce --refresh")
        stage.measure("   The same fio, in the guest that never restarted", "one pass")
        stage.plimsoll("disk", "explain", guest.name, attachment.target)
        stage.plimsoll("catalogue", "show")

    sampler = stage.play(scenes)
    stage.table(AFTER)
    title = f"An attached volume when its QoS spec is edited: {BEFORE} → {AFTER}, without a restart"
    plot.draw(stage, sampler, title, picture)
    guest.exec(["umount", DIRECTORY])
    cloud.detach_volume(guest, attachment)


def _mount(guest: Guest, target: str) -> None:
    for words in (
        # A kernel of 6.12 has it a second later.
        f"udevadm wait --timeout=30 /dev/{target}",
        f"mke2fs -q -t ext4 -m 0 -N 1024 -E lazy_itable_init=0,nodiscard /dev/{target}",
        f"mkdir -p {DIRECTORY}",
        f"mount -o noatime /dev/{target} {DIRECTORY}",
    ):
        done = guest.exec(words.split())
        if done.exit_code:
            raise LabError(f"{guest.name}: {words}: {done.err.strip()}")


def _stage(cloud: Cloud, target: str) -> Stage:
    catalogue = cloud.layout.root / "demo-qos/catalogue"
    settings = f"[catalogue]\nsource = openstack\ncloud = lab\nnova = false\ndirectory = {catalogue}\n"
    stage = Stage(cloud, "qos", "{}\n", settings, target, DIRECTORY)
    catalogue.mkdir()
    stage.environment["OS_CLIENT_CONFIG_FILE"] = str(cloud.openstack.clouds_yaml(stage.home / "clouds.yaml"))
    return stage
