"""A LUKS volume as Nova attaches one: libvirt has the passphrase, QEMU decrypts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from lab.cloud import Cloud
from lab.cloud.disk import Disk, xml
from lab.cloud.release import program

PASSPHRASE = b"correct horse"


@contextmanager
def encrypted(cloud: Cloud, disk: Disk, target: str) -> Iterator[str]:
    """The XML of the disk, whose image is made here: ``disk.size`` is what the guest sees, without the header."""
    image = f"rbd:{disk.image.pool}/{disk.image.image}:conf={cloud.ceph.conf}:id=admin"
    key = ["--object", f"secret,id=key,data={PASSPHRASE.decode()}", "-o", "key-secret=key,iter-time=10"]
    qemu_img = ["qemu-img", "create", "-q", "-f", "luks", *key, image, str(disk.size)]
    create = program(qemu_img, cloud.layout.cache)
    # On a busy machine QEMU's own measure of a passphrase's cost gives up now and then.
    while "accurate CPU usage" in (made := subprocess.run(create, capture_output=True, text=True, timeout=60)).stderr:
        remove(cloud, disk)
    assert made.returncode == 0, made.stderr
    secret_uuid = str(uuid4())
    connection = cloud.connect()
    secret = connection.secretDefineXML(
        f"<secret ephemeral='yes' private='yes'><uuid>{secret_uuid}</uuid>"
        f"<usage type='volume'><volume>{disk.image.volume_id}</volume></usage></secret>"
    )
    secret.setValue(PASSPHRASE, 0)
    encryption = f"<encryption format='luks'><secret type='passphrase' uuid='{secret_uuid}'/></encryption>"
    try:
        yield xml(disk, target).replace("</disk>", f"{encryption}</disk>")
    finally:
        secret.undefine()
        connection.close()


def remove(cloud: Cloud, disk: Disk) -> None:
    cloud.ceph.batch([{"remove": [disk.image.pool, disk.image.image]}])
