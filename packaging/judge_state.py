"""Part of the packages' scripts: which files of the node the version to come cannot read."""

import json
import sys
from pathlib import PurePath


def refused(found, reads):
    """``found``: what the present version's ``plimsoll state check -f json`` printed.

    ``reads``: the first and the last version that the other one reads, by file.
    """
    for row in found:
        name, version = PurePath(row["file"]).name, row["version"]
        if version is None:
            if row["condition"] in ("corrupt", "unreadable"):
                yield f"{row['file']}: {row['condition']}: {row['detail']}"
        elif name in reads and version > reads[name][1]:
            yield f"{row['file']}: has version {version}, and the version to install reads up to {reads[name][1]}"
        elif name in reads and version < reads[name][0]:
            yield f"{row['file']}: has version {version}, and the version to install reads from {reads[name][0]} on"


def main(reads):
    try:
        faults = list(refused(json.load(sys.stdin), reads))
    except (ValueError, KeyError, TypeError):
        faults = ["the state of this node could not be checked: correct what plimsoll state check prints"]
    for fault in faults:
        print(f"plimsoll: {fault}")
    return int(bool(faults))
