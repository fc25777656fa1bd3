"""The cloud's Nagios, and the NRPE of the one node that it asks; both run checks as user nagios."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Literal, NamedTuple

from . import ports
from .command import LabError
from .daemon import Daemon
from .layout import CHECKOUT, Layout
from .namespace import Namespace

HOST = "node-1"
PORTS = (ports.NRPE,)
SAMPLES = CHECKOUT / "etc/nagios"
CHECK_NRPE = "/usr/lib/nagios/plugins/check_nrpe"
STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


class Service(NamedTuple):
    """What Nagios holds of a service. ``state`` is PENDING before its first check."""

    state: str
    kind: Literal["soft", "hard"]
    output: str


class Nagios:
    """It knows one host, node-1, with the services of etc/nagios, whose minutes are seconds here."""

    def __init__(self, layout: Layout, namespace: Namespace) -> None:
        self._layout = layout
        self._home = layout.root / "nagios"
        self.nagios = Daemon(
            namespace,
            "nagios",
            ["/usr/sbin/nagios4", f"{self._home}/nagios.cfg"],
            layout.logs / "nagios.log",
            self._listens,
        )
        self.nrpe = Daemon(
            namespace,
            "nrpe",
            ["/usr/sbin/nrpe", "-c", f"{self._home}/nrpe.cfg", "-f"],
            layout.logs / "nrpe.log",
            # Without a command it is asked for its version.
            lambda: self._ask_nrpe()[0] == 0,
        )

    @property
    def nrpe_address(self) -> str:
        return f"127.0.0.1:{ports.NRPE}"

    # --- what a test does with it

    def check_nrpe(self, command: str) -> tuple[int, str]:
        """Exit status and output of one of the node's commands, as Nagios gets them."""
        return self._ask_nrpe("-c", command)

    def state(self, service: str, host: str = HOST) -> Service:
        for block in re.findall(r"^servicestatus \{\n(.*?)^\t\}", self._status(), re.MULTILINE | re.DOTALL):
            known = dict(line.strip().partition("=")[::2] for line in block.splitlines())
            if (known["host_name"], known["service_description"]) == (host, service):
                state = STATES[int(known["current_state"])] if known["has_been_checked"] == "1" else "PENDING"
                return Service(state, "hard" if known["state_type"] == "1" else "soft", known["plugin_output"])
        raise LabError(f"Nagios knows no service {service} of {host}")

    def wait_for(self, service: str, state: str, seconds: float, kind: str = "hard", host: str = HOST) -> Service:
        deadline = time.monotonic() + seconds
        while (found := self.state(service, host))[:2] != (state, kind):
            if time.monotonic() > deadline:
                raise LabError(f"{service} of {host}: after {seconds:g} s still {' '.join(found)}")
            time.sleep(0.2)
        return found

    def check_now(self, service: str, host: str = HOST) -> None:
        """Ahead of its schedule, as a person asks for it."""
        now = int(time.time())
        order = f"[{now}] SCHEDULE_FORCED_SVC_CHECK;{host};{service};{now}\n"
        descriptor = os.open(self._home / "rw/nagios.cmd", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(descriptor, order.encode())
        finally:
            os.close(descriptor)

    def home_of(self, name: str) -> Path:
        """A new directory for a plimsoll whose state, below ``state``, user nagios may read as one of its group;
        pytest's own directories let nobody in."""
        home = self._home / "nodes" / name
        shutil.rmtree(home, ignore_errors=True)
        state = home / "state"
        state.mkdir(parents=True)
        os.chown(state, -1, pwd.getpwnam("nagios").pw_gid)
        state.chmod(0o2750)  # files in it get its group
        return home

    def use_settings(self, file: Path | None) -> None:
        """The settings of plimsoll that the node's checks are run with from now on; None is a node without plimsoll,
        whose checks are UNKNOWN and cost next to nothing."""
        self._plugin("check_plimsoll", "exit 3" if file is None else self._check_plimsoll(file))

    # --- making it

    def make(self) -> None:
        self._write_files()
        for daemon in self.daemons:
            daemon.start(wait=False)
        for daemon in self.daemons:
            daemon.wait_ready()

    def heal(self) -> None:
        for daemon in self.daemons:
            daemon.heal()

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        return (self.nrpe, self.nagios)

    def _write_files(self) -> None:
        self._layout.logs.mkdir(parents=True, exist_ok=True)
        user = pwd.getpwnam("nagios")
        for name in ("var", "var/spool", "rw"):
            directory = self._home / name
            directory.mkdir(parents=True, exist_ok=True)
            os.chown(directory, user.pw_uid, user.pw_gid)
        (self._home / "plugins").mkdir(exist_ok=True)
        # Asked for at its usual port by the objects of etc/nagios.
        self._plugin("check_nrpe", f'exec {CHECK_NRPE} -p {ports.NRPE} "$@"')
        self.use_settings(None)
        for name, text in {
            "nagios.cfg": self._nagios(),
            "nrpe.cfg": self._nrpe(),
            "resource.cfg": self._macros(),
        }.items():
            (self._home / name).write_text(text)
        objects = self._home / "objects"
        objects.mkdir(exist_ok=True)
        for file in (*DEBIANS, *SAMPLES.glob("plimsoll-*.cfg")):
            shutil.copy(file, objects)
        (objects / "lab.cfg").write_text(_LAB)

    def _plugin(self, name: str, line: str) -> None:
        """A program below $USER1$, exchanged as a whole since Nagios may be about to run it."""
        new = self._home / f"{name}.new"
        new.write_text(f"#!/bin/sh\n{line}\n")
        new.chmod(0o755)
        new.rename(self._home / "plugins" / name)

    def _check_plimsoll(self, settings: Path) -> str:
        inside = self._layout.checkout_inside
        return (
            f"export PYTHONPATH={inside}/agent:{inside}/probes\n"
            f"exec {self._layout.python_inside}/bin/python -m plimsoll_monitoring.nagios"
            f' "$@" --config-file {settings}'
        )

    def _nagios(self) -> str:
        home, var = self._home, self._home / "var"
        return f"""\
cfg_dir={home}/objects
resource_file={home}/resource.cfg
log_file={var}/nagios.log
object_cache_file={var}/objects.cache
precached_object_file={var}/objects.precache
status_file={var}/status.dat
state_retention_file={var}/retention.dat
lock_file={var}/nagios.lock
temp_file={var}/nagios.tmp
temp_path={var}
check_result_path={var}/spool
query_socket={home}/rw/nagios.qh
command_file={home}/rw/nagios.cmd
check_external_commands=1
nagios_user=nagios
nagios_group=nagios
use_syslog=0
log_initial_states=1
retain_state_information=0
enable_notifications=0
check_for_updates=0
interval_length=1
sleep_time=0.25
status_update_interval=1
service_inter_check_delay_method=n
host_inter_check_delay_method=n
service_interleave_factor=1
"""

    def _nrpe(self) -> str:
        """The node's: the sample's commands, with the lab's check_plimsoll in the place of the installed one."""
        commands = (SAMPLES / "nrpe-plimsoll.cfg").read_text()
        return f"""\
server_address=127.0.0.1
server_port={ports.NRPE}
allowed_hosts=127.0.0.1
nrpe_user=nagios
nrpe_group=nagios
pid_file={self._home}/var/nrpe.pid
dont_blame_nrpe=0
command_timeout=20
{re.sub(r"(?<==)/[^ =]*/check_plimsoll", f"{self._home}/plugins/check_plimsoll", commands)}
"""

    def _macros(self) -> str:
        return f"$USER1$={self._home}/plugins\n"

    # --- asking

    def _status(self) -> str:
        """Nagios puts a new file in the place of the old one."""
        try:
            return (self._home / "var/status.dat").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as attempt:
            return attempt.connect_ex(str(self._home / "rw/nagios.qh")) == 0

    def _ask_nrpe(self, *words: str) -> tuple[int, str]:
        asked = subprocess.run(
            [CHECK_NRPE, "-H", "127.0.0.1", "-p", str(ports.NRPE), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=30,
        )
        return asked.returncode, asked.stdout.strip()


# What a site of Debian's has besides: templates (generic-service), timeperiods, contacts and their commands.
DEBIANS = tuple(
    Path("/etc/nagios4/objects", f"{name}.cfg") for name in ("commands", "contacts", "templates", "timeperiods")
)
_LAB = f"""\
define command {{
    command_name lab-alive
    command_line /bin/true
}}
define host {{
    use generic-host
    host_name {HOST}
    address 127.0.0.1
    hostgroups +plimsoll-nodes
    check_command lab-alive
    max_check_attempts 1
    contact_groups admins
}}
"""
