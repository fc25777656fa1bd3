"""A guest of the cloud: its disks, its QEMU process, and commands inside it."""

from __future__ import annotations

import base64
import json
import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import disk as disk_module
from .command import LabError
from .disk import Disk, Image
from .libvirtd import bindings, qemu_bindings

if TYPE_CHECKING:
    from .cloud import Cloud


# Seen with QEMU 7.2: of a request beyond some 128 KiB the guest gets only a part when its agent was idle
# before, and the request fails after 20 s or as a JSON error. 40000 bytes of input always arrived.
INPUT_LIMIT = 40000

_LIVE = 1  # VIR_DOMAIN_AFFECT_LIVE
_LIVE_AND_CONFIG = 3
_INACTIVE = 2  # VIR_DOMAIN_XML_INACTIVE
_START_PAUSED = 1  # VIR_DOMAIN_START_PAUSED


@dataclass(frozen=True)
class Completed:
    exit_code: int
    out: str
    err: str


class Guest:
    """A handle: all that it knows it asks libvirt for, so it stays true over restarts of libvirtd."""

    def __init__(self, cloud: Cloud, name: str, uuid: str) -> None:
        self.name = name
        self.uuid = uuid
        self._cloud = cloud

    def __repr__(self) -> str:
        return f"Guest({self.name!r}, {self.uuid!r})"

    def domain(self) -> Any:
        """The libvirt.virDomain. Raises LabError when libvirtd does not know it."""
        try:
            return self._cloud.libvirt.shared().lookupByUUIDString(self.uuid)
        except bindings().libvirtError as error:
            raise LabError(f"{self.name}: {error}") from None

    @property
    def disks(self) -> dict[str, Image]:
        """Target → image, as libvirt has it now."""
        found = {}
        for element in ET.fromstring(self.domain().XMLDesc()).iterfind("devices/disk"):
            target, source = element.find("target"), element.find("source")
            if target is None or source is None:
                continue
            pool, _, image = source.get("name", "").partition("/")
            found[target.get("dev", "")] = Image(pool, image, element.findtext("serial"))
        return found

    @property
    def qemu_pid(self) -> int:
        """Pid on this host. Raises LabError when QEMU does not run."""
        pid_file = self._cloud.libvirt.home / f"run/libvirt/qemu/{self.name}.pid"
        try:
            inner = int(pid_file.read_text())
        except (FileNotFoundError, ValueError):
            raise LabError(f"{self.name} has no QEMU process") from None
        pid = self._cloud.namespace.host_pid(inner)
        if pid is None:
            raise LabError(f"{self.name} has no QEMU process")
        return pid

    def attach(self, disk: Disk) -> str:
        """Make the image and attach it to the running guest; returns the target.

        On the scsi bus only where the guest was made with a disk on it, which brings the controller.
        """
        disk = disk_module.belonging_to(self.uuid, disk)
        target = self.free_target(disk)
        self._cloud.ceph.create_image(disk.image.pool, disk.image.image, disk.size)
        self._on_domain("attachDevice", disk_module.xml(disk, target))
        return target

    def free_target(self, disk: Disk) -> str:
        """Where the disk would be attached."""
        (target,) = disk_module.targets([disk], taken=set(self.disks))
        return target

    def plug(self, disk: Disk, target: str) -> None:
        """Attach a disk whose image is there, as Nova does: to what runs and to the definition alike."""
        self._on_domain("attachDeviceFlags", disk_module.xml(disk, target), _LIVE_AND_CONFIG)

    def detach(self, target: str, timeout: float = 30, plugged: bool = False) -> None:
        """Detach, and wait until the guest has let go, which a paused one never does. The image stays.

        ``plugged``: it was attached by ``plug``, so it goes from the definition as well.
        """
        for element in ET.fromstring(self.domain().XMLDesc()).iterfind("devices/disk"):
            found = element.find("target")
            if found is not None and found.get("dev") == target:
                break
        else:
            raise LabError(f"{self.name} has no disk {target}")
        flags = _LIVE_AND_CONFIG if plugged else _LIVE
        self._on_domain("detachDeviceFlags", ET.tostring(element, encoding="unicode"), flags)
        deadline = time.monotonic() + timeout
        while target in self.disks:
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} did not let go of {target} in {timeout:g} s")
            time.sleep(0.2)

    def destroy(self) -> None:
        """End the guest and remove its images. A guest that is gone already is no error."""
        self._cloud.destroy_guests([self])

    def hard_reboot(self, *, other: Disk | None = None) -> None:
        """As Nova does it: ended, defined without limits, started again; paused, as nothing runs in it.

        With ``other`` its vdb is that disk from then on, whose image is made here.
        """
        domain = self.domain()
        definition = re.sub(r"<iotune>.*?</iotune>", "", domain.XMLDesc(_INACTIVE), flags=re.DOTALL)
        if other is not None:
            self._cloud.ceph.create_image(other.image.pool, other.image.image, other.size)
            root = ET.fromstring(definition)
            devices = root.find("devices")
            (former,) = (
                each for each in root.iterfind("devices/disk") if each.find("target[@dev='vdb']") is not None
            )
            assert devices is not None
            devices.remove(former)
            devices.append(ET.fromstring(disk_module.xml(other, "vdb")))
            definition = ET.tostring(root, encoding="unicode")
        if domain.isActive():
            domain.destroy()
        domain.connect().defineXML(definition).createWithFlags(_START_PAUSED)

    def undefine(self) -> list[Image]:
        """End the guest; returns the images that it leaves."""
        libvirt = bindings()
        try:
            domain = self.domain()
            images = list(self.disks.values())
            if domain.isActive():
                domain.destroy()
            domain.undefine()
        except (LabError, libvirt.libvirtError):
            return []
        return images

    def exec(self, argv: list[str], timeout: float = 60, input: str | None = None) -> Completed:
        """Run a program inside the guest through its agent and wait for it."""
        arguments: dict[str, Any] = {"path": argv[0], "arg": argv[1:], "capture-output": True}
        if input is not None:
            if len(input) > INPUT_LIMIT:
                raise LabError(f"{argv[0]}: {len(input)} bytes of input, and the agent takes {INPUT_LIMIT}")
            arguments["input-data"] = base64.b64encode(input.encode()).decode()
        pid = self.agent("guest-exec", arguments)["pid"]
        deadline = time.monotonic() + timeout
        pause = 0.05
        while True:
            status = self.agent("guest-exec-status", {"pid": pid})
            if status["exited"]:
                break
            if time.monotonic() > deadline:
                raise LabError(f"{self.name}: {argv[0]} is not done after {timeout:g} s")
            time.sleep(pause)
            pause = min(pause * 1.5, 1)  # each question costs the emulated guest a few milliseconds
        # A program ended by a signal has that instead; told the way a shell tells it.
        code = status["exitcode"] if "exitcode" in status else 128 + status["signal"]
        return Completed(code, _text(status, "out-data"), _text(status, "err-data"))

    def fio(self, words: Sequence[str], timeout: float) -> list[dict[str, Any]]:
        """What it says of each job. Raises LabError where it fails."""
        done = self.exec(["fio", "--output-format=json", *words], timeout=timeout)
        if done.exit_code:
            raise LabError(f"{self.name}: fio: {done.err or done.out}")
        # It may say something before that.
        jobs: list[dict[str, Any]] = json.loads(done.out[done.out.index("{") :])["jobs"]
        return jobs

    def agent(self, command: str, arguments: dict[str, Any] | None = None, timeout: int = 20) -> Any:
        """What the guest agent returned for one command."""
        request = json.dumps({"execute": command, "arguments": arguments or {}})
        try:
            answer = qemu_bindings().qemuAgentCommand(self.domain(), request, timeout, 0)
        except bindings().libvirtError as error:
            raise LabError(f"{self.name}: {command}: {error}") from None
        return json.loads(answer)["return"]

    def wait_for_agent(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            try:
                self.agent("guest-ping", timeout=5)
                return
            except LabError as error:
                if time.monotonic() > deadline:
                    raise LabError(f"{self.name}: no guest-ping after {timeout:g} s ({error})") from None
            time.sleep(0.3)

    def _on_domain(self, method: str, *arguments: object) -> None:
        try:
            getattr(self.domain(), method)(*arguments)
        except bindings().libvirtError as error:
            raise LabError(f"{self.name}: {method}: {error}") from None


def _text(status: dict[str, Any], key: str) -> str:
    return base64.b64decode(status.get(key, "")).decode(errors="replace")
