"""What a host of the fleet is: its place in the inventory, and how its system differs from this machine's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from . import ports

Kind = Literal["good", "down", "full", "clock", "release"]


@dataclass(frozen=True)
class Host:
    name: str
    region: str
    number: int  # the last part of its address
    kind: Kind = "good"

    @property
    def address(self) -> str:
        return f"{ports.FLEET_NETWORK}.{self.number}"

    @property
    def libvirt_uri(self) -> str:
        """The lab's own libvirtd on one host, libvirt's test driver on the others."""
        return "qemu:///system" if self == REAL else f"test://{NODE_XML}"


GOOD = tuple(Host(f"r{region}-c{n}", f"region{region}", 10 * region + n) for region in (1, 2) for n in (1, 2, 3))
# The host with a real libvirtd, whose guests are on a real Ceph.
REAL = GOOD[0]
TROUBLE = (
    Host("r2-down", "region2", 31, "down"),
    Host("r2-full", "region2", 32, "full"),
    Host("r2-clock", "region2", 33, "clock"),
    Host("r2-release", "region2", 34, "release"),
)
HOSTS = {host.name: host for host in (*GOOD, *TROUBLE)}

NODE_XML = "/etc/libvirt/node.xml"
# The clock of the host of kind "clock" is behind by so much, for whatever ssh starts there.
CLOCK_BEHIND_SECONDS = 7200
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
# /opt of the host of kind "full".
OPT_MIB = 48

# A fresh machine has these, and nothing of this one's in them.
EMPTIED = (
    *("boot", "home", "media", "mnt", "opt", "root", "run", "srv", "tmp"),
    *("usr/local/bin", "usr/local/sbin", "usr/local/lib", "usr/local/share", "usr/local/etc", "usr/local/src"),
    *("var/backups", "var/cache", "var/log", "var/mail", "var/spool", "var/tmp", "var/local"),
    *("etc/systemd/system", "etc/systemd/user", "etc/ceph", "etc/libvirt", "etc/cron.d"),
    # Each command of apt would read all of Debian, each daemon-reload run thirteen programs: half a second of a core.
    *("var/lib/apt/lists", "usr/lib/systemd/system-generators"),
    *(f"etc/rc{level}.d" for level in "0123456S"),
)
HIDDEN = (
    *("etc/plimsoll", "etc/sysusers.d/plimsoll.conf", "etc/tmpfiles.d/plimsoll.conf", "etc/pip.conf"),
    *("etc/ssh/ssh_host_ed25519_key.pub", "etc/ssh/ssh_host_rsa_key", "etc/ssh/ssh_host_rsa_key.pub"),
    *("etc/ssh/ssh_host_ecdsa_key", "etc/ssh/ssh_host_ecdsa_key.pub"),
)
TOP = {
    *("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt", "opt", "proc", "root"),
    *("run", "sbin", "srv", "sys", "tmp", "usr", "var"),
}
# Of /var/lib: what the base system needs; services of this machine keep theirs to themselves.
STATE = {"apt", "dbus", "dpkg", "misc", "pam", "python", "shells.state", "systemd", "ucf", "vim"}

_HOST = """\
[Unit]
Description=What the lab's hosts need
DefaultDependencies=no
Before=network.target ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/ip address add {address}/24 dev host0
ExecStart=/sbin/ip link set host0 up
# systemd-nspawn covers it with one that units with a /proc of their own (ProtectProc=) do not see. Lazily: while
# another unit of the boot reads it, it is busy.
ExecStart=umount --lazy /proc/sys/kernel/random/boot_id
"""
# Each session of ssh would start a user's systemd through PAM.
_SSHD = """\
UsePAM no
UseDNS no
PasswordAuthentication no
HostKey /etc/ssh/ssh_host_ed25519_key
Subsystem sftp internal-sftp
MaxStartups 64
"""
# Ansible sends the source of a module and of some fifty others in an archive, and Python would compile all of it for
# each task again, which is half of what a task costs here. pip runs from its wheel, likewise. Where costs are
# measured, this file is to be removed first. /usr/lib/python3.11/sitecustomize.py is a link to it.
COMPILE_ONCE = "/etc/python3.11/sitecustomize.py"
_COMPILE_ONCE = """\
import marshal, os, zipimport
from _imp import source_hash
compile_source = zipimport._compile_source
def compile_once(path, source):
    kept = f"/run/lab-compiled/{os.path.basename(path)}-{source_hash(0, source).hex()}"
    try:
        with open(kept, "rb") as file:
            return marshal.load(file)
    except OSError:
        code = compile_source(path, source)
    try:
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        with open(f"{kept}.{os.getpid()}", "wb") as file:
            marshal.dump(code, file)
        os.rename(file.name, kept)
    except OSError:
        pass  # of a user, or of a unit that may write nowhere
    return code
zipimport._compile_source = compile_once
"""
_MASKED = (
    *("systemd-logind.service", "getty.target", "console-getty.service", "systemd-firstboot.service"),
    *("systemd-pcrphase.service", "systemd-pcrphase-sysinit.service", "systemd-journal-catalog-update.service"),
    *("ldconfig.service", "systemd-binfmt.service", "systemd-hwdb-update.service", "systemd-update-done.service"),
)
# One guest as Nova defines it, with a disk of Ceph's, which this driver takes for running.
_NODE = """\
<node>
  <domain type='test'>
    <name>instance-{number:08x}</name>
    <uuid>{uuid}</uuid>
    <metadata>
      <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
        <nova:name>guest-of-{name}</nova:name>
        <nova:flavor name="small">
          <nova:memory>512</nova:memory><nova:disk>1</nova:disk><nova:vcpus>1</nova:vcpus>
        </nova:flavor>
        <nova:owner>
          <nova:user uuid="0b5a0d6a3b0c4d5d9f0e0c1f4f6a7b8c">somebody</nova:user>
          <nova:project uuid="1c6b1e7b4c1d4e6e8a1f1d2a5a7b8c9d">somewhere</nova:project>
        </nova:owner>
      </nova:instance>
    </metadata>
    <memory unit='MiB'>512</memory>
    <os><type>hvm</type></os>
    <devices>
      <disk type='network' device='disk'>
        <driver name='qemu' type='raw' cache='writeback'/>
        <source protocol='rbd' name='volumes/volume-{volume}'><host name='127.0.0.1' port='{port}'/></source>
        <target dev='vda' bus='virtio'/>
        <serial>{volume}</serial>
      </disk>
    </devices>
  </domain>
</node>
"""


def boot_spec(host: Host, lower: Path, identity: Identity, nspawn: list[str]) -> dict[str, Any]:
    """What fleetboot is told of the host's tree: see there."""
    hidden = [*HIDDEN]
    if lower == Path("/"):
        hidden += [entry.name for entry in Path("/").iterdir() if entry.name not in TOP]
        hidden += [f"var/lib/{entry.name}" for entry in Path("/var/lib").iterdir() if entry.name not in STATE]
    return {
        "name": host.name,
        "lower": str(lower),
        "emptied": EMPTIED,
        "hidden": hidden,
        "files": _files(host, identity),
        "links": {
            "etc/systemd/system/multi-user.target.wants/ssh.service": "/lib/systemd/system/ssh.service",
            "etc/systemd/system/multi-user.target.wants/lab-host.service": "../lab-host.service",
            "etc/systemd/system/default.target": "/lib/systemd/system/multi-user.target",
            "etc/localtime": "/usr/share/zoneinfo/Etc/UTC",
            **{f"etc/systemd/system/{unit}": "/dev/null" for unit in _MASKED},
        },
        "nspawn": [
            *("--quiet", "--boot", f"--machine={host.name}", f"--hostname={host.name}"),
            *("--register=no", "--keep-unit", "--console=pipe", "--link-journal=no", "--resolv-conf=off"),
            *("--timezone=off", "--network-bridge=fleet"),
            # Else units' IPAddressDeny would be a wish.
            *("--capability=CAP_BPF,CAP_PERFMON", "--system-call-filter=bpf"),
            *([f"--tmpfs=/opt:mode=755,size={OPT_MIB}m"] if host.kind == "full" else []),
            *nspawn,
        ],
    }


@dataclass(frozen=True)
class Identity:
    """The fleet's keys: whoever holds ``authorized`` gets in, and hosts show ``host_key``."""

    authorized: str
    host_key: str


def _files(host: Host, identity: Identity) -> dict[str, tuple[int, str]]:
    faked = f"SetEnv LD_PRELOAD={FAKETIME} FAKETIME=-{CLOCK_BEHIND_SECONDS}s\n" if host.kind == "clock" else ""
    digest = hashlib.sha256(host.name.encode()).hexdigest()
    as_uuid = "-".join((digest[:8], digest[8:12], "4" + digest[13:16], "8" + digest[17:20], digest[20:32]))
    volume = "-".join((digest[32:40], digest[40:44], "4" + digest[45:48], "8" + digest[49:52], digest[52:64]))
    node = _NODE.format(name=host.name, number=host.number, uuid=as_uuid, volume=volume, port=ports.MONITOR_V1)
    return {
        # Without one, systemd would take this for a first boot and enable all that is installed.
        "etc/machine-id": (0o444, f"{digest[:32]}\n"),
        "etc/hostname": (0o644, f"{host.name}\n"),
        "etc/hosts": (0o644, f"127.0.0.1 localhost\n{host.address} {host.name}\n"),
        "etc/resolv.conf": (0o644, ""),
        "etc/environment": (0o644, ""),
        "etc/fstab": (0o644, ""),
        "etc/systemd/system/lab-host.service": (0o644, _HOST.format(address=host.address)),
        "etc/systemd/system.conf.d/lab.conf": (0o644, "[Manager]\nDefaultTimeoutStopSec=10s\nShowStatus=no\n"),
        "etc/systemd/journald.conf.d/lab.conf": (0o644, "[Journal]\nStorage=volatile\nRuntimeMaxUse=32M\n"),
        "etc/ssh/sshd_config": (0o600, _SSHD + faked),
        "etc/ssh/ssh_host_ed25519_key": (0o600, identity.host_key),
        "root/.ssh/authorized_keys": (0o600, identity.authorized),
        NODE_XML.lstrip("/"): (0o644, node),
        COMPILE_ONCE.lstrip("/"): (0o644, _COMPILE_ONCE),
        # As node_exporter's package leaves it.
        "var/lib/prometheus/node-exporter/lab.prom": (0o644, ""),
    }
