"""A table of nodes, from ``plimsoll status -f json`` as ``status.yml`` gathered it."""

from __future__ import annotations

DOCUMENTATION = """
name: node_table
author:
  - The plimsoll authors
short_description: A table of nodes
description:
  - The rows of P(plimsoll.cloud.node_rows#filter) as lines, below a line of headings.
options:
  _input:
    description: The rows.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = """
- name: Show the nodes
  ansible.builtin.debug:
    msg: "{{ rows | plimsoll.cloud.node_table }}"
  vars:
    rows: "{{ hostvars | plimsoll.cloud.node_rows(groups, ['r1', 'r2'], ansible_play_hosts_all) }}"
"""

RETURN = """
_value:
  description: Lines for people
  type: list
  elements: str
"""

import json

FORMAT = 3
"""The version of the JSON of ``plimsoll status`` that is read here."""
STATES = {"in-sync": ("in-sync", "changed"), "behind": ("planned", "deferred"), "failed": ("failed", "unknown")}
BROKEN = ("short", "over-limit", "slow")


def node_rows(hostvars, groups, regions, hosts):
    """A dict for each host, in the order of the regions. The region of hosts in none is None."""
    region_of = {host: region for region in regions for host in groups.get(region, ())}
    ordered = [host for region in regions for host in groups.get(region, ()) if host in set(hosts)]
    ordered += [host for host in hosts if host not in region_of]
    return [row(host, region_of.get(host), hostvars[host].get("__status_node") or {}) for host in ordered]


def row(host, region, answer):
    """``level`` is that of the status, or ``unreachable``, ``absent`` (not installed), ``no answer``; ``older`` or
    ``newer`` for a node of a version whose JSON is not read here."""
    known = {"host": host, "region": region, "level": "unreachable", "version": None, "trouble": None}
    if answer.get("unreachable"):
        return {**known, "trouble": " ".join(answer.get("msg", "").split())}
    try:
        told = json.loads(answer.get("stdout", ""))
    except ValueError:
        return {**known, "level": "no answer", "trouble": " ".join(answer.get("msg", "").split())}
    status = told["status"]
    known["version"] = told["version"] or None
    if status is None:
        return {**known, "level": "no answer" if known["version"] else "absent"}
    if status["version"] < FORMAT:
        return {**known, "level": "older", "trouble": "older version: run plimsoll status there"}
    if status["version"] > FORMAT:
        return {**known, "level": "newer", "trouble": "newer version: update plimsoll here to read it"}
    made, disks, probes = status["pass"], status["disks"], status["probes"]
    ages = [each["value"] for each in status["findings"] if each["name"] == "pass_age"]
    known.update(level=status["level"], trouble=worst(status), paused=status["paused"] is not None)
    if made is not None:
        known.update(
            pass_version=made["plimsoll"],
            mode="enforce" if made["enforcing"] else "observe",
            pass_age=ages[0] if ages else None,
            result=made["result"],
        )
    if disks is not None:
        known["disks"] = {name: sum(disks["states"].get(each, 0) for each in of) for name, of in STATES.items()}
    if probes is not None:
        runs = probes["newest_runs"]
        known["probes"] = {"runs": sum(runs.values()), "broken": sum(runs.get(each, 0) for each in BROKEN)}
    return known


def worst(status):
    """The worst problem in short; None without problems."""
    if status["complaints"]:
        return status["complaints"][0]
    wrong = [each for each in status["findings"] if each["level"] != "ok"]
    if not wrong:
        return None
    about = f" ({wrong[0]['about']})" if wrong[0]["about"] else ""
    return wrong[0]["name"] + about + (f" and {len(wrong) - 1} more" if len(wrong) > 1 else "")


COLUMNS = (
    ("HOST", lambda row: row["host"]),
    ("REGION", lambda row: row["region"]),
    ("VERSION", lambda row: row["version"]),
    ("PASS BY", lambda row: row.get("pass_version")),
    ("MODE", lambda row: row.get("mode")),
    ("LAST PASS", lambda row: age(row.get("pass_age"))),
    ("RESULT", lambda row: row.get("result")),
    ("IN SYNC/BEHIND/FAILED", lambda row: counts(row.get("disks"), ("in-sync", "behind", "failed"))),
    ("PROBES/BROKEN", lambda row: counts(row.get("probes"), ("runs", "broken"))),
    ("PAUSED", lambda row: {True: "yes", False: "no"}.get(row.get("paused"))),
    ("LEVEL", lambda row: row["level"]),
    ("PROBLEM", lambda row: row["trouble"] or ""),
)


def node_table(rows):
    cells = [[name for name, _ in COLUMNS], *([text(cell(each)) for _, cell in COLUMNS] for each in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]


def text(value):
    return "-" if value is None else str(value)


def age(seconds):
    """``40 s ago``; only the largest unit."""
    if seconds is None:
        return None
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds)} s ago"


def counts(numbers, names):
    return None if numbers is None else "/".join(str(numbers[name]) for name in names)


class FilterModule:
    def filters(self):
        return {"node_rows": node_rows, "node_table": node_table}
