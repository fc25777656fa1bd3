"""`python -m lab.cloud up|status|down`"""

from __future__ import annotations

import argparse
import json
import shlex
import sys

from .cloud import Cloud
from .command import LabError
from .progress import PARTS
from .serviceconf import PASSWORD


def main() -> int:
    arguments = _parser().parse_args()
    # Not to be lost in a pipe's buffer when a later step takes its minute.
    cloud = Cloud(say=lambda line: print(line, flush=True))
    try:
        if arguments.command == "up":
            cloud.up([part for several in arguments.parts for part in several if part])
            _say_how_to_reach(cloud)
        elif arguments.command == "down":
            cloud.down()
        else:
            _show(cloud, arguments.format)
    except LabError as error:
        print(f"lab cloud: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab cloud: interrupted; the next up or down cleans up", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.cloud", description="A small real cloud to test on.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start what is not up")
    usual = ["ceph", "libvirt", "guest"]
    up.add_argument(
        "--parts",
        nargs="+",
        type=lambda words: words.split(","),
        metavar="PART",
        default=[usual],
        help=f"of {', '.join(PARTS)}, separated by spaces or commas; default: {','.join(usual)}",
    )
    status = commands.add_parser("status", help="what is up")
    status.add_argument("-f", "--format", choices=("text", "json"), default="text")
    commands.add_parser("down", help="end and remove all of it; what is cached stays")
    return parser


def _say_how_to_reach(cloud: Cloud) -> None:
    print(f"libvirt: {cloud.libvirt_uri}")
    print(f"Ceph:    {cloud.ceph.conf}")
    if cloud.openstack.keystone.running:
        print(f"Keystone: {cloud.openstack.auth_url}, user and project admin, password {PASSWORD}")
    if cloud.etcd.daemon.running:
        print(f"etcd:    {cloud.etcd.url}")
    if cloud.prometheus.prometheus.running:
        print(f"Prometheus: {cloud.prometheus.url}, Alertmanager: {cloud.prometheus.alertmanager_url}")
    if cloud.nagios.nrpe.running:
        print(f"NRPE:    {cloud.nagios.nrpe_address}")
    if cloud.fleet.inventory_file.exists():
        print(f"hosts:   {cloud.fleet.inventory_file}; {shlex.join(cloud.fleet.ssh('r1-c1'))}")
    for guest in cloud.status()["guests"]:
        print(f"guest:   {guest}")


def _show(cloud: Cloud, format: str) -> None:
    status = cloud.status()
    if format == "json":
        print(json.dumps(status, indent=2))
        return
    print(f"root:      {status['root']}")
    for part, state in status["parts"].items():
        print(f"{part + ':':<10} {state}")
    for name, daemon in status["daemons"].items():
        print(f"  {name:<14} {daemon['state']}, pid {daemon['pid']}")
    print(f"guests:    {', '.join(status['guests']) or 'none'}")
    print(f"libvirt: {status['libvirt_uri']}")
    print(f"Ceph:    {status['ceph_conf']}")


if __name__ == "__main__":
    sys.exit(main())
