"""A guest's domain XML, with the metadata and devices that Nova gives it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from . import disk as disks
from .disk import Disk

NOVA = "http://openstack.org/xmlns/libvirt/nova/1.1"
USER = "f1f42be43baa414a8d04a0b6807675a8"
PROJECT = "76f321b2fd294e5fa90eb0525110f9e2"
IMAGE = "93bc7989-58a3-4318-bd5c-156055bb79ed"
# QEMU's default grows towards 1 GiB, and the guest needs a part of that.
TRANSLATIONS = "<tcg><tb-cache unit='MiB'>128</tb-cache></tcg>"
# A guest uses what its processor has, and later instructions cost more to emulate: a boot takes 17 core-seconds with
# this one, and 22 with all that QEMU 7.2 can emulate.
EMULATED = "<cpu mode='custom' match='exact' check='none'><model fallback='forbid'>Nehalem</model></cpu>"


@dataclass(frozen=True)
class Flavor:
    name: str = "m1.lab"
    id: str = "31c9b7c9-66d5-4270-9ad4-d45d25991423"
    memory: int = 512
    extra_specs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Server:
    """What a tenant asked Nova for; it ends up in the domain's metadata."""

    name: str = "lab"
    flavor: Flavor = field(default_factory=Flavor)
    project: str = PROJECT
    user: str = USER
    image: str | None = IMAGE  # None: booted from a volume


@dataclass(frozen=True)
class Boot:
    kernel: Path
    initrd: Path
    arguments: str
    console: Path
    kvm: bool


def xml(name: str, uuid: str, server: Server, attached: list[tuple[Disk, str]], boot: Boot | None = None) -> str:
    """For disks with their targets. Without `boot` it is a guest of 8 MiB, only good to be started paused."""
    memory_mib = server.flavor.memory if boot else 8
    drives = "\n".join(disks.xml(disk, target) for disk, target in attached)
    scsi = "<controller type='scsi' index='0' model='virtio-scsi'/>"
    # Each device takes a port of its own; the others are for disks attached later, as Nova's num_pcie_ports.
    ports = "<controller type='pci' model='pcie-root-port'/>" * (len(attached) + 8)
    bridges = "<controller type='pci' index='0' model='pcie-root'/>" + ports
    return f"""\
<domain type='{"kvm" if boot and boot.kvm else "qemu"}'>
<name>{name}</name>
<uuid>{uuid}</uuid>
{_metadata(server)}
<memory unit='MiB'>{memory_mib}</memory>
<vcpu>1</vcpu>
<sysinfo type='smbios'>
  <system>
    <entry name='manufacturer'>OpenStack Foundation</entry>
    <entry name='product'>OpenStack Nova</entry>
    <entry name='uuid'>{uuid}</entry>
  </system>
</sysinfo>
<os>
  <type arch='x86_64' machine='q35'>hvm</type>
  {_boot(boot) if boot else ""}
  <smbios mode='sysinfo'/>
</os>
<features><acpi/><apic/>{TRANSLATIONS if boot and not boot.kvm else ""}</features>
{"<cpu mode='host-passthrough'/>" if boot and boot.kvm else EMULATED}
<clock offset='utc'/>
<on_poweroff>destroy</on_poweroff>
<on_reboot>restart</on_reboot>
<on_crash>destroy</on_crash>
<devices>
<emulator>/usr/bin/qemu-system-x86_64</emulator>
{drives}
{scsi if any(disk.bus == "scsi" for disk, _ in attached) else ""}
{bridges}
<controller type='usb' model='none'/>
<memballoon model='none'/>
{_channels(boot) if boot else ""}
</devices>
</domain>"""


def _metadata(server: Server) -> str:
    flavor = server.flavor
    specs = "".join(
        f"<nova:extraSpec name={quoteattr(name)}>{escape(value)}</nova:extraSpec>"
        for name, value in flavor.extra_specs.items()
    )
    image = server.image
    return f"""\
<metadata>
  <nova:instance xmlns:nova="{NOVA}">
    <nova:package version="34.0.0"/>
    <nova:name>{escape(server.name)}</nova:name>
    <nova:creationTime>{datetime.now(UTC):%Y-%m-%d %H:%M:%S}</nova:creationTime>
    <nova:flavor name={quoteattr(flavor.name)} id={quoteattr(flavor.id)}>
      <nova:memory>{flavor.memory}</nova:memory>
      <nova:disk>1</nova:disk>
      <nova:swap>0</nova:swap>
      <nova:ephemeral>0</nova:ephemeral>
      <nova:vcpus>1</nova:vcpus>
      <nova:extraSpecs>{specs}</nova:extraSpecs>
    </nova:flavor>
    {f'<nova:image uuid="{image}"/>' if image else ""}
    <nova:owner>
      <nova:user uuid="{server.user}">admin</nova:user>
      <nova:project uuid="{server.project}">demo</nova:project>
    </nova:owner>
    {f'<nova:root type="image" uuid="{image}"/>' if image else ""}
    <nova:ports/>
  </nova:instance>
</metadata>"""


def _boot(boot: Boot) -> str:
    return f"""\
<kernel>{boot.kernel}</kernel>
  <initrd>{boot.initrd}</initrd>
  <cmdline>{escape(boot.arguments)}</cmdline>"""


def _channels(boot: Boot) -> str:
    return f"""\
<serial type='file'><source path='{boot.console}'/></serial>
<channel type='unix'><source mode='bind'/><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>"""


def without_limits(text: str) -> str:
    """A domain XML without any ``iotune``, as one that was written before there were limits."""
    return re.sub(r"<iotune>.*?</iotune>", "", text, flags=re.DOTALL)
