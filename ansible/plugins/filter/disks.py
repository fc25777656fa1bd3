"""Outcomes of disks: the reports of ``plimsoll undo`` and ``plimsoll enforce``, both with ``-f json``."""

from __future__ import annotations

DOCUMENTATION = """
name: disk_lines
author:
  - The plimsoll authors
short_description: A line for each disk in a report
description:
  - All disks in the report of C(plimsoll undo -f json); of C(plimsoll enforce -f json) those that are or were out of
    sync. A line has the limits, the outcome, and the code of the reason.
options:
  _input:
    description: The report.
    type: dict
    required: true
"""

EXAMPLES = """
- name: Show the disks
  ansible.builtin.debug:
    msg: "{{ undo.stdout | from_json | plimsoll.cloud.disk_lines }}"
"""

RETURN = """
_value:
  description: Lines for people
  type: list
  elements: str
"""

OPEN = ("deferred", "failed", "unknown")
ENDS = {"changed": "done", "in-sync": "already so", "left-alone": "left alone"}


def disk_lines(report):
    return [line(each) for each in told(report)]


def open_disks(report):
    """The lines of disks whose change is still open."""
    return [line(each) for each in told(report) if each["result"] in OPEN]


def told(report):
    if "disks" in report:
        return report["disks"]
    return [each for each in report["outcomes"] if each["change"] is not None or each["result"] in OPEN]


def line(disk):
    change = disk.get("change", disk)
    limits = f": {in_words(change['before'])} → {in_words(change['after'])}" if change else ""
    end, reason = ENDS.get(disk["result"], disk["result"]), ""
    if disk["result"] not in ("changed", "in-sync"):
        reason = f" ({because(disk['reason'])})"
    return f"{disk['guest']} {disk['disk']}{limits}: {end}{reason}"


def in_words(limits):
    if limits is None:
        return "unknown"
    return " ".join(f"{name} {value}" for name, value in limits.items()) or "unlimited"


def because(reason):
    facts = [str(reason[name]) for name in ("checks", "detail", "why") if reason.get(name)]
    return ": ".join([reason["code"], *facts])


class FilterModule:
    def filters(self):
        return {"disk_lines": disk_lines, "open_disks": open_disks}
