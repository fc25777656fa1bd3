"""Whether a rollout goes on after a batch, and what a person is told."""

from __future__ import annotations

DOCUMENTATION = """
name: verdict
author:
  - The plimsoll authors
short_description: How a batch of a rollout went
description:
  - Of each host of a batch C(hostvars) has C(__rollout_trouble), a sentence, where something failed on it, and
    C(__rollout_node), the result of the first task, which tells that it was not reached.
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  batches:
    description: All batches, as P(plimsoll.cloud.batches#filter) makes them.
    type: list
    elements: dict
    required: true
  number:
    description: Which of them it is about, from 0.
    type: int
    required: true
  left:
    description: The hosts that Ansible has left in this batch. One that is missing was lost on the way.
    type: list
    elements: str
    required: true
  percent:
    description: How many of a batch may fail, in percent. A batch of which all failed stops the rollout in any case.
    type: float
    default: 0
  earlier:
    description: The hosts of the batches before that were not well, and were let pass.
    type: list
    elements: str
    default: []
  monitoring:
    description: What Prometheus has against going on; empty for nothing.
    type: str
    default: ""
  looking:
    description:
      - Whether nothing is changed and all that is wrong is to be found. Then it stops after the last batch, if there
        is anything.
    type: bool
    default: false
"""

EXAMPLES = """
- name: Show how it went
  ansible.builtin.debug:
    msg: "{{ hostvars | plimsoll.cloud.verdict(batches, 0, ansible_play_batch) }}"
"""

RETURN = """
_value:
  description:
    - C(stop), whether the rollout ends here; C(bad), a sentence by host; C(so_far), the hosts of all batches until
      now that are not well; C(lines), for people; C(go_on), the hosts that are still to be done; C(back), the hosts
      that were begun.
  type: dict
"""

import re

# A node says it, and others are told it.
EDITION = re.compile("[0-9a-f]{64}")
STAGES = {"canary": "canary", "fraction": "the first part", "rest": "the rest"}


def verdict(hostvars, batches, number, left, percent=0, earlier=(), monitoring="", looking=False):
    batch, to_come = batches[number], batches[number + 1 :]
    found = {host: trouble_of(host, hostvars, left) for host in batch["hosts"]}
    bad = {host: trouble for host, trouble in found.items() if trouble}
    so_far = [*earlier, *bad]
    ended = bool(so_far) and not to_come
    stop = ended if looking else bool(monitoring) or too_many(len(bad), len(found), percent)
    todo = [*so_far, *(host for each in to_come for host in each["hosts"])]
    return {
        "stop": stop,
        "bad": bad,
        "so_far": so_far,
        "lines": list(lines(batch, bad, so_far, to_come, monitoring, stop=stop, looking=looking)),
        "go_on": todo or batch["hosts"],
        "back": [host for each in batches[: number + 1] for host in each["hosts"]],
    }


def too_many(bad, hosts, percent):
    """As Ansible counts for C(max_fail_percentage)."""
    return bad == hosts or bad * 100 > float(percent) * hosts


def lines(batch, bad, so_far, to_come, monitoring, *, stop, looking):
    hosts = batch["hosts"]
    good = f"{len(hosts) - len(bad)} of {len(hosts)} {'without trouble' if looking else 'well'}"
    yield f"{'STOPPED at ' if stop and not looking else ''}{batch['region']}, {STAGES[batch['stage']]}: {good}"
    for host, trouble in bad.items():
        yield f"  {host}: {trouble}"
    if monitoring:
        yield f"  Prometheus: {monitoring}"
    if stop and looking:
        yield f"Not without trouble: {len(so_far)}. {', '.join(so_far)}"
    elif stop and to_come:
        yield f"Not begun: {not_begun(to_come)}"


def trouble_of(host, hostvars, left):
    """Why this host is not well, "" if it is."""
    known = hostvars[host]
    first = known.get("__rollout_node") or {}
    if first.get("unreachable"):
        # ssh's own words come last.
        return f"is down, or cannot be reached: {one_line(first.get('msg', '')).split('reached over ssh: ')[-1]}"
    trouble = known.get("__rollout_trouble")
    if trouble:
        return one_line(trouble)
    return "" if host in left else "was lost on the way: see above"


def one_line(text):
    return " ".join(str(text).split())


def not_begun(batches):
    """``2 of r1, 3 of r2``: hosts by region."""
    numbers = {}
    for batch in batches:
        numbers[batch["region"]] = numbers.get(batch["region"], 0) + len(batch["hosts"])
    return ", ".join(f"{number} of {region}" for region, number in numbers.items())


def editions(those):
    """What the plans of these nodes, their ``hostvars``, need an approval of; of those that enforce."""
    needed = [(each.get("__rollout_plan") or {}).get("edition") for each in those if enforces(each)]
    return sorted({edition for edition in needed if edition and EDITION.fullmatch(edition)})


def enforces(known):
    return known.get("agent_mode") == "enforce"


def alerts(answer):
    """What the result of a query for alerts says, in a sentence."""
    try:
        series = [each["metric"] for each in answer["json"]["data"]["result"]]
    except (KeyError, TypeError):
        return f"it cannot be asked: {answer.get('msg', 'no answer')}"
    return ", ".join(f"{each.get('alertname')} {each.get('instance', '')}".strip() for each in series)


class FilterModule:
    def filters(self):
        return {"alerts": alerts, "editions": editions, "verdict": verdict}
