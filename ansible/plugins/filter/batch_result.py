"""Decides whether a rollout continues after a batch, and makes its summary."""

from __future__ import annotations

DOCUMENTATION = """
name: batch_result
author: [The plimsoll authors]
short_description: Result of a batch of a rollout
description:
  - For each host of a batch C(hostvars) has C(__rollout_trouble), a sentence, if something failed on it, and
    C(__rollout_node), the result of the first task, which shows whether it was unreachable.
options:
  _input: {description: The variable C(hostvars)., type: dict, required: true}
  batches:
    description: All batches, as P(plimsoll.cloud.batches#filter) makes them.
    type: list
    elements: dict
    required: true
  number: {description: "The number of this batch, from 0.", type: int, required: true}
  left:
    description: The hosts that Ansible still has in this batch. Missing ones have failed.
    type: list
    elements: str
    required: true
  percent:
    description: How many hosts of a batch may fail, in percent. If all failed, the rollout always stops.
    type: float
    default: 0
  earlier: {description: Unhealthy hosts that were tolerated before., type: list, elements: str, default: []}
  begun: {description: Hosts where the rollout began that is continued., type: list, elements: str, default: []}
  monitoring: {description: Why Prometheus stops the rollout; empty if it does not., type: str, default: ""}
  looking:
    description: Whether the run only checks. Then it stops after the last batch, if there were problems.
    type: bool
    default: false
"""

EXAMPLES = """
- name: Show the results
  ansible.builtin.debug:
    msg: "{{ hostvars | plimsoll.cloud.batch_result(batches, 0, ansible_play_batch) }}"
"""

RETURN = """
_value:
  description:
    - C(stop), whether the rollout ends here; C(bad), a sentence by host; C(so_far), the unhealthy hosts of all
      batches so far; C(batches), how many these are; C(lines), the summary; C(go_on), the hosts that are not done;
      C(back), the hosts that were started.
  type: dict
"""

import json
import re

# It comes from a node and is used on others, so it is checked.
REVISION = re.compile("[0-9a-f]{64}")
SHOWN = 16
STAGES = {"canary": "canary", "fraction": "the first part", "rest": "the rest"}


def batch_result(hostvars, batches, number, left, percent=0, earlier=(), begun=(), monitoring="", looking=False):
    number = int(number)  # ansible-core 2.18 and earlier give text
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
        "batches": number + 1,
        "lines": list(lines(batch, bad, so_far, to_come, monitoring, stop=stop, looking=looking)),
        "go_on": todo or batch["hosts"],
        "back": list(dict.fromkeys([*begun, *(host for each in batches[: number + 1] for host in each["hosts"])])),
    }


def too_many(bad, hosts, percent):
    """As Ansible counts for C(max_fail_percentage)."""
    return bad == hosts or bad * 100 > float(percent) * hosts


def lines(batch, bad, so_far, to_come, monitoring, *, stop, looking):
    hosts = batch["hosts"]
    good = f"{len(hosts) - len(bad)} of {len(hosts)} {'without problems' if looking else 'healthy'}"
    yield f"{'STOPPED at ' if stop and not looking else ''}{batch['region']}, {STAGES[batch['stage']]}: {good}"
    for host, trouble in bad.items():
        yield f"  {host}: {trouble}"
    if monitoring:
        yield f"  Prometheus: {monitoring}"
    if stop and looking:
        yield f"With problems: {len(so_far)}. {', '.join(so_far)}"
    elif stop and to_come:
        yield f"Not started: {not_begun(to_come)}"


def trouble_of(host, hostvars, left):
    """Why this host is unhealthy; empty if it is healthy."""
    known = hostvars[host]
    first = known.get("__rollout_node") or {}
    if first.get("unreachable"):
        # ssh's own message comes last.
        return f"is unreachable: {one_line(first.get('msg', '')).rpartition('reached over ssh: ')[2]}"
    trouble = known.get("__rollout_trouble")
    if trouble:
        return one_line(trouble)
    return "" if host in left else "failed, see above"


def one_line(text):
    return " ".join(str(text).split())


def not_begun(batches):
    """``2 of r1, 3 of r2``: hosts by region."""
    numbers = {}
    for batch in batches:
        numbers[batch["region"]] = numbers.get(batch["region"], 0) + len(batch["hosts"])
    return ", ".join(f"{number} of {region}" for region, number in numbers.items())


def revisions(those):
    """The revisions for which the plans of these nodes (``hostvars``) need approval."""
    needed = {revision_of(each) for each in those}
    return sorted(revision for revision in needed if revision and REVISION.fullmatch(revision))


def revision_of(known):
    """From the first of ``__rollout_plans``, which is JSON and skipped on a node that observes; None without one."""
    try:
        return (json.loads(known["__rollout_plans"]["results"][0]["stdout"])["braked"] or {}).get("revision")
    except (KeyError, ValueError):
        return None


def approved(needed, words):
    """Those of these revisions that are in the text C(words), whole or by their first 16 digits or more.

    With commas between: a value of C(-e) ends at its first blank.
    """
    given = [word for word in words.lower().replace(",", " ").split() if len(word) >= SHOWN]
    return [revision for revision in needed if any(revision.startswith(word) for word in given)]


def shown(needed):
    """What is enough to type of these revisions."""
    return ",".join(revision[:SHOWN] for revision in needed)


def alerts(answer):
    """The result of a query for alerts as a sentence; without any, of why a part of them may be missing."""
    try:
        content = answer["json"]
        series = [each["metric"] for each in content["data"]["result"]]
    except (KeyError, TypeError):
        return f"query failed: {answer.get('msg', 'no answer')}"
    # A pair of Prometheuses has each twice.
    names = dict.fromkeys(f"{each.get('alertname')} {each.get('instance', '')}".strip() for each in series)
    return ", ".join(names) or gaps(content)


def gaps(content):
    """What Thanos and Mimir warn of, and VictoriaMetrics marks: an answer from a part of the data proves nothing."""
    causes = [str(each) for each in content.get("warnings") or [] if not str(each).startswith("PromQL info")]
    if content.get("isPartial") is True:
        causes.append("a storage node did not answer")
    return f"the answer is incomplete: {causes[0][:200]}" if causes else ""


class FilterModule:
    def filters(self):
        return {
            "alerts": alerts,
            "approved": approved,
            "batch_result": batch_result,
            "revisions": revisions,
            "shown": shown,
        }
