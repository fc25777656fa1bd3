"""A host of the lab's OSDs, as ``plimsoll return`` reaches one: ``python lab/osdhost.py HOST COMMAND``.

All hosts are this machine. The OSDs of one are started in its memory cgroup, where there is one (``bounded``), and
what is free on it is what that leaves; one that the kernel kills for want of memory stays dead.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from lab.cloud import cephconf, ports

CGROUPS = Path("/sys/fs/cgroup/memory")
FAILS = "PLIMSOLL_LAB_OSDHOST_FAILS"
"""In the environment: a word, with which commands end with an error instead."""


def group(host: str) -> Path:
    return CGROUPS / f"plimsoll-return-{ports.OFFSET}-{host}"


def osds(host: str) -> list[int]:
    return [osd for osd in cephconf.OSDS if cephconf.host(osd) == host]


def words(host: str = "{host}") -> str:
    """For ``--on-host``."""
    return f"{sys.executable} {Path(__file__).resolve()} {host}"


@contextmanager
def bounded(each: Mapping[str, int]) -> Iterator[None]:
    """Hosts with so many bytes of memory. OSDs that run go on without a bound until they are started again."""
    for host, limit in each.items():
        group(host).mkdir(exist_ok=True)
        (group(host) / "memory.limit_in_bytes").write_text(str(limit))
    try:
        yield
    finally:
        for host in each:
            for pid in (group(host) / "cgroup.procs").read_text().split():
                (CGROUPS / "cgroup.procs").write_text(pid)
            group(host).rmdir()


def kills(host: str) -> int:
    """By the kernel, for want of memory."""
    lines = (group(host) / "memory.oom_control").read_text().splitlines()
    return int(dict(line.split() for line in lines)["oom_kill"])


def main(host: str, command: str, *more: str) -> int:
    if os.environ.get(FAILS, "") in (f"{host} {command}", host):
        print(f"{host}: out of reach", file=sys.stderr)
        return 255
    if command == "cat":
        sys.stdout.write(_meminfo(host))
    elif command == "ps":
        sys.stdout.write("".join(_processes(host, more)))
    elif command == "systemctl" and more[0] == "show":
        sys.stdout.write("\n".join(_state(unit) for unit in more[2:]))
    elif command == "systemctl" and more[0] in ("start", "restart"):
        for unit in more[1:]:
            _start(host, int(unit.partition("@")[2].partition(".")[0]), again=more[0] == "restart")
    elif command == "tee":
        content = sys.stdin.read()
        for path in more:
            _inside(path).write_text(content)
    elif command in ("mkdir", "rm"):
        subprocess.run([command, more[0], *(str(_inside(path)) for path in more[1:])], check=True)
    return 0


def _inside(path: str) -> Path:
    """Not on this machine: below the cloud's root."""
    from lab.cloud.layout import Layout

    return Layout.from_environment().root / "osdhosts" / path.lstrip("/")


def _meminfo(host: str) -> str:
    if not group(host).is_dir():
        return Path("/proc/meminfo").read_text()
    stat = dict(line.split() for line in (group(host) / "memory.stat").read_text().splitlines())
    total = int((group(host) / "memory.limit_in_bytes").read_text())
    free = total - int(stat["total_rss"]) - int(stat["total_mapped_file"])
    sizes = {"MemTotal": total, "MemAvailable": max(free, 0), "SwapTotal": 0, "SwapFree": 0}
    return "".join(f"{name}: {size // 1024} kB\n" for name, size in sizes.items())


def _processes(host: str, options: Sequence[str]) -> Iterator[str]:
    own = {f"-i {osd} -c {_conf()}" for osd in osds(host)}
    ran = subprocess.run(["ps", *options], capture_output=True, text=True)
    return (f"{line}\n" for line in ran.stdout.splitlines() if any(line.strip().endswith(each) for each in own))


def _conf() -> Path:
    from lab.cloud.layout import Layout

    return Layout.from_environment().ceph_conf


def _state(unit: str) -> str:
    running = f"-i {unit.partition('@')[2].partition('.')[0]} -c {_conf()}"
    lines = subprocess.run(
        ["ps", "-C", "ceph-osd", "-o", "args="], capture_output=True, text=True
    ).stdout.splitlines()
    is_up = any(line.strip().endswith(running) for line in lines)
    return f"Id={unit}\nActiveState={'active' if is_up else 'failed'}\nResult={'success' if is_up else 'signal'}\n"


def _start(host: str, osd: int, *, again: bool) -> None:
    from lab.cloud import Cloud

    daemon = Cloud(say=lambda _: None).ceph.daemon(f"osd.{osd}", group=group(host) if group(host).is_dir() else None)
    os.setpriority(os.PRIO_PROCESS, 0, 0)  # not that of what starts it, which is another machine elsewhere
    if again and daemon.running:
        os.kill(daemon.pid, signal.SIGTERM)
        while daemon.running:
            time.sleep(0.1)
    if not daemon.running:
        daemon.start(wait=False)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
