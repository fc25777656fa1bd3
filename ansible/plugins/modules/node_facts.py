#!/usr/bin/python
# Copyright: the plimsoll authors. Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: node_facts
short_description: Gathers facts that decide whether plimsoll can be installed on a compute node
version_added: "0.1.0"
description:
  - Changes nothing. Unknown facts are null.
  - Runs libvirt's and QEMU's programs with C(--version), the package manager's queries, and C(systemctl show), each
    with a deadline.
options:
  sent:
    description: The controller's time in seconds since 1970, for comparison with the node's clock.
    type: float
    required: true
  libvirt_uri: {description: The URI of libvirt., type: str, default: "qemu:///system"}
  libvirt_group: {description: "The group of libvirt's socket, by name or number.", type: str, default: libvirt}
  patterns: {description: Regular expressions that match other writers., type: list, elements: str, default: []}
  places: {description: Directories that need space; they may not exist., type: list, elements: path, default: []}
  urls: {description: URLs whose hosts must accept a connection., type: list, elements: str, default: []}
  files: {description: Files of which the result has digests., type: list, elements: path, default: []}
  marked: {description: Files that a role may have written., type: list, elements: path, default: []}
  mark: {description: How files begin that a role wrote., type: str, default: "# Written by Ansible"}
  calendar: {description: "When passes run, a calendar event of systemd.time(7).", type: str, default: "*:0/5"}
  paths: {description: Files and directories that may exist., type: list, elements: path, default: []}
  reductions:
    description: Files of plimsoll that say by what limits are reduced.
    type: list
    elements: path
    default: []
  restarts: {description: "By unit, the files that it reads when it starts.", type: dict, default: {}}
  reloads: {description: "By unit, the files that it reads when it starts or is reloaded.", type: dict, default: {}}
attributes:
  check_mode: {description: Changes nothing in any case., support: full}
author: [The plimsoll authors (@plimsoll)]
"""

EXAMPLES = r"""
- name: Gather facts
  plimsoll.cloud.node_facts:
    sent: "{{ now().timestamp() }}"
    places: [/opt/plimsoll]
    patterns: [blkdeviotune]
  register: node
"""

RETURN = r"""
root: {description: "Whether it ran as root. Else part of the node is hidden from it.", returned: success, type: bool}
os: {description: "The distribution, as in the versions of packages: debian12.", returned: success, type: str}
manager: {description: "V(apt) or V(dnf); null without either.", returned: success, type: str}
packages: {description: "The version of each installed package of plimsoll.", returned: success, type: dict}
files: {description: "Mode, owner, group and SHA-256 of each file that exists.", returned: success, type: dict}
marked: {description: "Those of O(marked) that begin with O(mark).", returned: success, type: list, elements: str}
libvirt:
  description: >-
    Its version; whether the URI needs a socket; the socket, null without one; the number of the socket's group, null
    where all users may write to it; the number and the name of O(libvirt_group), null where it has none.
  returned: success
  type: dict
qemu: {description: Its version., returned: success, type: str}
clock_offset:
  description: Seconds by which the node's clock is ahead of the controller's, including the time of the request.
  returned: success
  type: float
clock_synchronised: {description: Whether NTP synchronises the kernel's clock., returned: success, type: bool}
free_mib: {description: MiB that are free for root in each of the places., returned: success, type: dict}
unanswered: {description: The URLs' hosts that did not answer and the reason., returned: success, type: dict}
cron: {description: "As limit_writers returns them.", returned: success, type: list, elements: dict}
units: {description: Enabled units that write limits., returned: success, type: list, elements: dict}
ceph: {description: Whether the program ceph is installed., returned: success, type: bool}
setfacl: {description: Whether the program setfacl is installed., returned: success, type: bool}
paths: {description: "Those of O(paths) that exist.", returned: success, type: list, elements: str}
reductions:
  description: Those of O(reductions) by which a limit is reduced, or that cannot be read.
  returned: success
  type: list
  elements: str
calendar: {description: Whether the calendar event is valid., returned: success, type: bool}
plimsoll:
  description: >-
    reload_needed is whether systemd has yet to read changed units; timers are those timers, and the path unit and the
    services that run all the time, that are enabled or active; restarts and reloads are units of O(restarts) and of
    O(reloads) that are active and have not read their files since these were changed.
  returned: success
  type: dict
"""

import ctypes
import grp
import hashlib
import json
import os
import platform
import pwd
import re
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plimsoll.cloud.plugins.module_utils.limit_writers import Writers

_UNITS = [
    *(f"plimsoll-{name}.{kind}" for name in ("enforce", "catalogue", "probe") for kind in ("service", "timer")),
    "plimsoll-catalogue.path",
    "plimsoll-daemon.service",
    "plimsoll-congestion-fetch.service",
    "plimsoll-congestion-publish.service",
]
_LASTING = (".timer", ".path", "-daemon.service", "-fetch.service", "-publish.service")
STARTED = "ActiveEnterTimestampMonotonic"
LOADED = "StateChangeTimestampMonotonic"  # a reload is a change of state, too
DEADLINE = 10  # seconds
_TIME_ERROR = 5  # what adjtimex(2) returns for a clock that is not synchronised


def os_tag(os_release):
    """The system as in the versions of packages, see script/machine.py: debian12, ubuntu24.04, el9."""
    known = dict(re.findall(r"^(\w+)=[\"']?([^\"'\n]*)", os_release, re.MULTILINE))
    rebuilt = re.fullmatch(r"platform:(el\d+)", known.get("PLATFORM_ID", ""))
    if rebuilt:
        return rebuilt.group(1)
    return re.sub(r"[^a-z0-9.]", "", (known.get("ID", "linux") + known.get("VERSION_ID", "")).lower())


def first_version(text):
    found = re.search(r"\d+(?:\.\d+)+", text)
    return found.group() if found else None


def socket_of(uri):
    """Paths of which one must exist, the most likely first; empty if the URI needs no socket of this node."""
    if not re.match(r"qemu(\+unix)?:///", uri):
        return []
    named = re.search(r"[?&]socket=([^&]+)", uri)
    return [named.group(1)] if named else ["/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"]


def gid_of(group):
    """The number of a group, given its name or number; null for an unknown name."""
    if group.isdigit():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def name_of_gid(gid):
    """The group's name; null where it has none on this node, as for a group of a container."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return None


def free_mib(place):
    path = Path(place)
    while not path.exists():
        path = path.parent
    space = os.statvfs(path)
    return space.f_bavail * space.f_frsize // 2**20


def digest(path):
    """Mode, owner, group and SHA-256 of the content; null where there is no file."""
    try:
        status, content = os.stat(path), Path(path).read_bytes()
        names = pwd.getpwuid(status.st_uid).pw_name, grp.getgrgid(status.st_gid).gr_name
    except (OSError, KeyError):
        return None
    return f"{stat.S_IMODE(status.st_mode):04o} {' '.join(names)} {hashlib.sha256(content).hexdigest()}"


def installed(text):
    """Parse lines of name, version and status as dpkg and rpm print them: the version of each installed package."""
    lines = [line.split() for line in text.splitlines()]
    return {line[0]: line[1] for line in lines if line[2:] == ["installed"]}


def address(url):
    """HOST:PORT. Raises ``ValueError``."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError(f"{url!r} has no host")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or {'https': 443}.get(parts.scheme, 80)}"


def shown_units(text):
    """Parse the output of systemctl show for several units: a mapping for each."""
    return [dict(line.split("=", 1) for line in unit.splitlines() if "=" in line) for unit in text.split("\n\n")]


def reduces(text):
    """Whether a limit is reduced by these factors, or by ceilings that are split; true where that is unknown."""
    try:
        known = json.loads(text)
        factors = any(pool["x"] < 1 for pool in known.get("pools", ()))
        return factors or any(any(ceiling["parts"].values()) for ceiling in known.get("ceilings", ()))
    except (AttributeError, KeyError, TypeError, ValueError):
        return True


def unread(units, stamp, reads, behind):
    """The active ones of these units with a file that was changed after ``stamp``, a property of systemd in
    microseconds of CLOCK_MONOTONIC, which is so many seconds ``behind`` the time of files.
    """
    since = {
        unit["Id"]: int(unit.get(stamp) or 0) / 1e6 + behind
        for unit in units
        if unit.get("ActiveState") in ("active", "reloading")
    }
    return [unit for unit, paths in reads.items() if unit in since and newest(paths) > since[unit]]


def newest(paths):
    """When the last of these was changed, in seconds since 1970; 0 where none exists."""
    return max([os.stat(path).st_mtime for path in paths if os.path.exists(path)], default=0)


class Node:
    """Queries programs and hosts, each with a deadline in seconds."""

    def __init__(self, deadline):
        self._deadline = deadline

    def says(self, *argv):
        """The output of a program; empty where it is missing, fails or takes too long."""
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=self._deadline,
                env=environment,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""

    def version(self, *programs):
        """The version of the first of these programs that reports one."""
        return next(filter(None, (first_version(self.says(program, "--version")) for program in programs)), None)

    def packages(self, manager):
        if manager == "apt":
            form = "${Package} ${Version} ${db:Status-Status}\\n"
            return installed(self.says("dpkg-query", "--show", f"--showformat={form}", "plimsoll*"))
        return installed(self.says("rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE} installed\\n", "plimsoll*"))

    def libvirt(self, uri, group):
        paths = socket_of(uri)
        path = next((path for path in paths if os.path.exists(path)), None)
        status = os.stat(path) if path else None
        gid = gid_of(group)
        return {
            "version": self.version("libvirtd", "virtqemud", "virsh"),
            "needed": bool(paths),
            "desired": " or ".join(paths),
            "socket": path,
            "socket_group": status.st_gid if status and not status.st_mode & stat.S_IWOTH else None,
            "group": gid,
            "group_name": None if gid is None else name_of_gid(gid),
        }

    def unanswered(self, hosts):
        """Connect to the hosts, each in a thread, since a name server that does not answer has no other deadline."""
        outcomes = {}

        def connect(host):
            name, port = host.rsplit(":", 1)
            try:
                socket.create_connection((name.strip("[]"), int(port)), timeout=self._deadline).close()
                outcomes[host] = None
            except (OSError, ValueError) as error:
                outcomes[host] = getattr(error, "strerror", None) or str(error)

        threads = [threading.Thread(target=connect, args=(host,), daemon=True) for host in hosts]
        for thread in threads:
            thread.start()
        until = time.monotonic() + self._deadline
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        silent = f"no answer within {self._deadline} s"
        return {host: outcomes.get(host, silent) for host in hosts if outcomes.get(host, silent)}

    def plimsoll(self, restarts, reloads):
        names = f"--property=Id,NeedDaemonReload,UnitFileState,ActiveState,{STARTED},{LOADED}"
        units = shown_units(self.says("systemctl", "show", names, *_UNITS))
        return {
            "reload_needed": any(unit.get("NeedDaemonReload") == "yes" for unit in units),
            "timers": [
                unit["Id"]
                for unit in units
                if unit.get("Id", "").endswith(_LASTING)
                and (unit.get("UnitFileState") == "enabled" or unit.get("ActiveState") in ("active", "failed"))
            ],
            "restarts": unread(units, STARTED, restarts, time.time() - time.monotonic()),
            "reloads": unread(units, LOADED, reloads, time.time() - time.monotonic()),
        }


def clock_synchronised():
    """Null where unknown."""
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))  # struct timex, all zero: reads only
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR


def _read(path):
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def main():
    module = AnsibleModule(
        argument_spec={
            "sent": {"type": "float", "required": True},
            "libvirt_uri": {"type": "str", "default": "qemu:///system"},
            "libvirt_group": {"type": "str", "default": "libvirt"},
            "patterns": {"type": "list", "elements": "str", "default": []},
            "places": {"type": "list", "elements": "path", "default": []},
            "urls": {"type": "list", "elements": "str", "default": []},
            "files": {"type": "list", "elements": "path", "default": []},
            "marked": {"type": "list", "elements": "path", "default": []},
            "mark": {"type": "str", "default": "# Written by Ansible"},
            "calendar": {"type": "str", "default": "*:0/5"},
            "paths": {"type": "list", "elements": "path", "default": []},
            "reductions": {"type": "list", "elements": "path", "default": []},
            "restarts": {"type": "dict", "default": {}},
            "reloads": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    clock_offset = time.time() - module.params["sent"]
    node = Node(DEADLINE)
    try:
        others = Writers(module.params["patterns"])
        cron, units = others.cron(), others.units()
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"other writers are unknown: {error}; correct plimsoll_cron_patterns or the file")
    try:
        addresses = [address(url) for url in module.params["urls"]]
    except ValueError as error:
        module.fail_json(msg=f"the catalogue's source: {error}")
    manager = next(filter(module.get_bin_path, ("apt", "dnf")), None)
    module.exit_json(
        changed=False,
        root=os.geteuid() == 0,
        os=os_tag(_read("/etc/os-release")),
        manager=manager,
        packages=node.packages(manager),
        files={path: digest(path) for path in module.params["files"]},
        marked=[path for path in module.params["marked"] if _read(path).startswith(module.params["mark"])],
        libvirt=node.libvirt(module.params["libvirt_uri"], module.params["libvirt_group"]),
        qemu=node.version("qemu-system-x86_64", f"qemu-system-{platform.machine()}", "/usr/libexec/qemu-kvm"),
        clock_offset=round(clock_offset, 1),
        clock_synchronised=clock_synchronised(),
        free_mib={place: free_mib(place) for place in module.params["places"]},
        unanswered=node.unanswered(addresses),
        cron=cron,
        units=units,
        ceph=bool(module.get_bin_path("ceph")),
        setfacl=bool(module.get_bin_path("setfacl")),
        paths=[path for path in module.params["paths"] if os.path.exists(path)],
        reductions=[path for path in module.params["reductions"] if os.path.exists(path) and reduces(_read(path))],
        calendar=bool(node.says("systemd-analyze", "calendar", module.params["calendar"])),
        plimsoll=node.plimsoll(module.params["restarts"], module.params["reloads"]),
    )


if __name__ == "__main__":
    main()
