"""Sums what C(plimsoll undo) would do, or did, on many nodes, for the playbook undo."""

from __future__ import annotations

DOCUMENTATION = """
name: undo_plan
author: [The plimsoll authors]
short_description: Plans of an undo over all nodes
description:
  - Each host in C(hostvars) has C(__undo_node), the result of the first task, and C(__undo_plan), the result of
    C(plimsoll undo --dry-run -f json).
options:
  _input: {description: The variable C(hostvars)., type: dict, required: true}
  hosts: {description: The hosts of the run., type: list, elements: str, required: true}
  paused:
    description: Whether limits of nodes that an operator has paused are restored too.
    type: bool
    default: false
"""

EXAMPLES = """
- name: Show the plan
  ansible.builtin.debug:
    msg: "{{ (hostvars | plimsoll.cloud.undo_plan(ansible_play_hosts_all)).lines }}"
"""

RETURN = """
_value:
  description:
    - C(hosts), those with disks to restore, or with restored ones and a timer that was not started again;
      C(disks), how many are to restore; C(since), the moment with its date; C(lines), what stands in the plan of each
      host.
  type: dict
"""

import json
from collections import Counter

OURS = "undo: "
"""How the reason of a pause begins that this playbook began."""
NOT_BEGUN = "was not begun, since the first node failed"
SHOWN = 10
"""Of how many disks of a node the reason is shown."""
RESTORED = {"changed": "restored", "planned": "to restore", "in-sync": "already restored"}


def undo_plan(hostvars, hosts, paused=False):
    plans = {host: answer(hostvars[host].get("__undo_plan")) for host in hosts}
    blocks = {host: pause_of(plan) if plan and not paused else "" for host, plan in plans.items()}
    todo = {host: plan["counts"]["planned"] for host, plan in plans.items() if plan and not blocks[host]}
    # One that was interrupted is to start its timer again, too.
    half = [host for host in todo if plans[host]["counts"]["in-sync"] and stopped(hostvars[host])]
    todo = {host: disks for host, disks in todo.items() if disks or host in half}
    lines = []
    for host, plan in plans.items():
        lines += lines_of(host, plan, blocks[host]) if plan else [f"{host}: {silence(hostvars[host])}"]
        lines += [f"  to start again: {', '.join(stopped(hostvars[host]))}"] if host in half else []
    disks = sum(todo.values())
    total = f"{count(disks, 'disk')} to restore on {sum(map(bool, todo.values()))} of {count(len(hosts), 'node')}"
    return {
        "hosts": list(todo),
        "disks": disks,
        "since": next((plan["since"] for plan in plans.values() if plan), ""),
        "lines": [*lines, total],
    }


def undo_result(hostvars, hosts, todo):
    """C(lines), what was done on each host; C(bad), why by host where something is left; C(again), these hosts.

    C(todo) are the hosts with disks to restore. A host that could not say its plan is one where to try again.
    """
    lines, bad = [], {}
    for host in hosts:
        known = hostvars[host]
        planned = answer(known.get("__undo_plan"))
        if not planned:
            bad[host] = silence(known)
        elif host not in todo:
            block = pause_of(planned) if planned["counts"]["planned"] else ""
            lines += lines_of(host, planned, block)
            if block:
                bad[host] = block
            continue
        else:
            done = answer(known.get("__undo_done"))
            trouble = known.get("__undo_trouble") or ("" if done else silence(known, "__undo_done", NOT_BEGUN))
            trouble = "; ".join(each for each in (trouble, not_started(known)) if each)
            lines += lines_of(host, done, "") if done else []
            if trouble:
                bad[host] = one_line(trouble)
            else:
                lines += [f"  {then}" for then in [next_pass(known, done)] if then]
                if left := retried(done):
                    bad[host] = f"{count(left, 'disk')} not restored, see above"
                continue
        lines.append(f"{host}: {bad[host]}")
    return {"lines": lines, "bad": bad, "again": list(bad)}


def answer(result):
    """The object that C(plimsoll undo -f json) printed; None where it printed none."""
    try:
        read = json.loads((result or {})["stdout"])
    except (KeyError, ValueError):
        return None
    return read if isinstance(read, dict) and "counts" in read else None


def silence(known, step="__undo_plan", nothing="no answer"):
    """Why a host did not print an object."""
    results = [known.get("__undo_node") or {}, known.get(step) or {}]
    for result in results:
        if result.get("unreachable"):
            # ssh's own message comes last.
            return f"cannot be reached: {one_line(result.get('msg', '')).rpartition('ssh: ')[2]}"
    first = (results[0].get("stdout_lines") or [""])[0]
    if first == "none":
        return "plimsoll is not installed"
    return one_line(results[1].get("stderr") or results[1].get("stdout") or results[1].get("msg") or nothing)


def stopped(known):
    """Units that are enabled and not active."""
    words = [line.split() for line in (known.get("__undo_node") or {}).get("stdout_lines", ())]
    return [each[0] for each in words if each[2:] == ["enabled"] and each[1] != "active"]


def not_started(known):
    """Why the timer or the daemon did not start again; empty where they did, or were not stopped."""
    result = known.get("__undo_start") or {}
    items = [each for each in [*result.get("results", ()), result] if each.get("failed") or each.get("unreachable")]
    return f"not started: {items[0].get('item', 'timer and daemon')}: {items[0].get('msg', '')}" if items else ""


def pause_of(plan):
    """Why an undo writes no limit there; empty where it does."""
    paused = plan["paused"] or {}
    why = str(paused.get("why", ""))
    if not paused or OURS in why:
        return ""
    if paused.get("region"):
        return "paused by the region: first plimsoll region resume"
    return f"paused ({one_line(why)}): -e plimsoll_undo_paused=true restores its limits too, and it stays paused"


def next_pass(known, done):
    """What the next pass does to the restored limits; empty where it leaves them."""
    if done["mode"] != "enforce" or not done["counts"]["changed"]:
        return ""
    if known.get("__undo_paused", {}).get("rc") in (0, 3) or done["paused"] or answer(known["__undo_plan"])["paused"]:
        return "paused: no limit is written until plimsoll resume"
    return "mode enforce and not paused: its next pass sets the desired limits again, with the daemon at once"


def retried(done):
    """Of how many disks another undo may restore the limits."""
    return sum(done["counts"].get(kind, 0) for kind in ("deferred", "failed", "unknown"))


def lines_of(host, answered, block):
    disks = [each for each in answered["disks"] if each["result"] not in RESTORED]
    kinds = Counter(each["result"] for each in answered["disks"])
    parts = [f"{kinds[kind]} {words}" for kind, words in RESTORED.items() if kinds[kind]]
    reasons = Counter(each["reason"]["code"].replace("-", " ") for each in disks)
    if disks:
        why = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
        parts.append(f"{len(disks)} left ({why})")
    if answered["unrecorded"]:
        parts.append(f"{answered['unrecorded']} limited by plimsoll but missing in the record")
    guests = len({each["guest_uuid"] for each in answered["disks"]})
    of = f", of {count(guests, 'guest')}" if guests else ""
    yield f"{host}: {', '.join(parts) or 'no change since then'}{of}{f'; {block}' if block else ''}"
    for each in disks[:SHOWN]:
        yield f"  {each['guest']} {each['disk']} left: {each['reason']['code'].replace('-', ' ')}"
    if len(disks) > SHOWN:
        yield f"  {len(disks) - SHOWN} more: plimsoll undo --since {answered['since']} --dry-run on that node"


def count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def one_line(text):
    return " ".join(str(text).split())


class FilterModule:
    def filters(self):
        return {"undo_plan": undo_plan, "undo_result": undo_result}
