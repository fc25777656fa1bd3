"""What must be true of the machine, checked before anything is started."""

from __future__ import annotations

import glob
import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from . import ports
from .command import LabError
from .layout import Layout

SPACE = 8 * 1024**3

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# A file of each package, as a package may be there without having been configured.
PACKAGES = {
    "ceph-common": "/usr/bin/rbd",
    "ceph-mon": "/usr/bin/ceph-mon",
    "ceph-mgr": "/usr/bin/ceph-mgr",
    "ceph-osd": "/usr/bin/ceph-osd",
    "libvirt-clients": "/usr/bin/virsh",  # brings /etc/libvirt
    "libvirt-daemon": "/usr/sbin/libvirtd",
    "libvirt-daemon-driver-qemu": f"{LIBRARIES}/libvirt/connection-driver/libvirt_driver_qemu.so",
    "qemu-system-x86": "/usr/bin/qemu-system-x86_64",
    "qemu-block-extra": f"{LIBRARIES}/qemu/block-rbd.so",
}
FOR_THE_IMAGE = {"debootstrap": "/usr/sbin/debootstrap", "e2fsprogs": "/usr/sbin/mke2fs"}
BINDINGS = "/usr/lib/python3/dist-packages"
# Of whatever Python this Debian has.
FOR_OPENSTACK = {
    "python3-rados": f"{BINDINGS}/rados.cpython-3*-x86_64-linux-gnu.so",
    "python3-rbd": f"{BINDINGS}/rbd.cpython-3*-x86_64-linux-gnu.so",
    "python3-venv": "/usr/lib/python3.*/ensurepip/__init__.py",
}
FOR_CEPHFS = {
    "ceph-fuse": "/usr/bin/ceph-fuse",
    "ceph-mds": "/usr/bin/ceph-mds",
    "python3-cephfs": f"{BINDINGS}/cephfs.cpython-3*-x86_64-linux-gnu.so",
}
FOR_NOVA = {
    "mariadb-client-core": "/usr/bin/my_print_defaults",
    "mariadb-server-core": "/usr/sbin/mariadbd",
    "rabbitmq-server": "/usr/lib/rabbitmq/bin/rabbitmq-server",
}
FOR_ETCD = {"etcd-server": "/usr/bin/etcd"}
FOR_PROMETHEUS = {
    "prometheus": "/usr/bin/prometheus",
    "prometheus-alertmanager": "/usr/bin/prometheus-alertmanager",
    "prometheus-node-exporter": "/usr/bin/prometheus-node-exporter",
}
FOR_NAGIOS = {
    "nagios4-core": "/usr/sbin/nagios4",
    "nagios-nrpe-server": "/usr/sbin/nrpe",
    "nagios-nrpe-plugin": "/usr/lib/nagios/plugins/check_nrpe",
}
FOR_CONTAINERS = {"podman": "/usr/bin/podman", "runc": "/usr/sbin/runc"}
FOR_FLEET = {
    "dbus": "/usr/bin/dbus-daemon",
    "faketime": "/usr/bin/faketime",
    "iproute2": "/usr/sbin/ip",
    "openssh-client": "/usr/bin/ssh",
    "openssh-server": "/usr/sbin/sshd",
    "systemd-container": "/usr/bin/systemd-nspawn",
}


def check_root() -> None:
    if os.geteuid() != 0:
        raise LabError("the cloud needs root: it starts daemons in a namespace of their own")


def check_packages(*more: dict[str, str]) -> None:
    check_these(PACKAGES, *more)


def check_these(*groups: dict[str, str]) -> None:
    desired = {package: file for group in groups for package, file in group.items()}
    missing = [package for package, file in desired.items() if not glob.glob(file)]  # noqa: PTH207
    if missing:
        raise LabError(f"missing on this machine: apt-get install --no-install-recommends {' '.join(missing)}")


def check_space(layout: Layout) -> None:
    free = shutil.disk_usage(layout.root).free
    if free < SPACE:
        raise LabError(f"{layout.root}: {free >> 30} GiB free, and the cloud may need {SPACE >> 30}")


def check_ports(desired: Iterable[int] = (ports.MONITOR_V2, ports.MONITOR_V1)) -> None:
    """Ceph's other daemons take free ones of a range."""
    for port in desired:
        with socket.socket() as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                raise LabError(
                    f"127.0.0.1:{port} is taken (by another cloud? PLIMSOLL_LAB_PORT_OFFSET=200)"
                ) from None


def check_device(name: str) -> None:
    if Path("/sys/class/net", name).exists():
        raise LabError(f"the network device {name} is there already (another cloud's? PLIMSOLL_LAB_PORT_OFFSET=200)")
