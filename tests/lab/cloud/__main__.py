"""`python -m tests.lab.cloud up|status|down|image`"""

from __future__ import annotations

import argparse
import json
import sys

from .cloud import Cloud
from .command import LabError
from .progress import PARTS


def main() -> int:
    arguments = _parser().parse_args()
    # Not to be lost in a pipe's buffer when a later step takes its minute.
    cloud = Cloud(say=lambda line: print(line, flush=True))
    try:
        if arguments.command == "up":
            cloud.up(arguments.parts)
            _say_how_to_reach(cloud)
        elif arguments.command == "down":
            cloud.down()
        elif arguments.command == "image":
            cloud.make_image()
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
    parser = argparse.ArgumentParser(prog="python -m tests.lab.cloud", description="A small real cloud to test on.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start what is not up")
    up.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="default: all")
    status = commands.add_parser("status", help="what is up")
    status.add_argument("-f", "--format", choices=("text", "json"), default="text")
    commands.add_parser("image", help="make the booted guest's image, unless it is cached")
    commands.add_parser("down", help="end and remove all of it; the cached guest image stays")
    return parser


def _say_how_to_reach(cloud: Cloud) -> None:
    print(f"libvirt: {cloud.libvirt_uri}")
    print(f"Ceph:    {cloud.ceph.conf}")
    for guest in cloud.status()["guests"]:
        print(f"guest:   {guest}")


def _show(cloud: Cloud, format: str) -> None:
    status = cloud.status()
    if format == "json":
        print(json.dumps(status, indent=2))
        return
    print(f"root:    {status['root']}")
    for part, state in status["parts"].items():
        print(f"{part + ':':<8} {state}")
    for name, daemon in status["daemons"].items():
        print(f"  {name:<10} {daemon['state']}, pid {daemon['pid']}")
    print(f"guests:  {', '.join(status['guests']) or 'none'}")
    print(f"libvirt: {status['libvirt_uri']}")
    print(f"Ceph:    {status['ceph_conf']}")


if __name__ == "__main__":
    sys.exit(main())
