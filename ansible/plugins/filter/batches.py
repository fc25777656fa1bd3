"""Divides the hosts of a rollout into batches."""

from __future__ import annotations

DOCUMENTATION = """
name: batches
author: [The plimsoll authors]
short_description: Hosts in the batches of a rollout
description:
  - Region by region; in each first the canaries, then a share of the region, then the rest.
  - A region's canaries are the hosts of the group REGION_canary that take part; if there are none, the first host
    that takes part.
options:
  _input: {description: The variable C(groups)., type: dict, required: true}
  regions:
    description: Names of groups, in the order of the rollout. Hosts in none of them do not take part.
    type: list
    elements: str
    required: true
  hosts: {description: "The hosts within C(--limit).", type: list, elements: str, required: true}
  members:
    description:
      - The hosts of the group that is rolled out to. What else a region has, such as hosts of Ceph, does not count.
        Without it all hosts of the regions are members.
    type: list
    elements: str
  percent:
    description: The share of a region in the second batch. At least one host, if one is left.
    type: float
    default: 10
"""

EXAMPLES = """
- name: Show the batches
  ansible.builtin.debug:
    msg: "{{ groups | plimsoll.cloud.batches(['r1', 'r2'], ansible_play_hosts_all, percent=10) }}"
"""

RETURN = """
_value:
  description:
    - Batches with C(region), C(stage) (V(canary), V(fraction), V(rest)) and C(hosts), in order. None is empty.
  type: list
  elements: dict
"""

from ansible.errors import AnsibleFilterError

SHOWN = 5
STAGES = {"canary": "canary", "fraction": "the first part", "rest": "the rest"}


def batches(groups, regions, hosts, percent=10, members=None):
    """Hosts of ``regions`` as a list of ``{"region", "stage", "hosts"}``. Raises ``AnsibleFilterError``."""
    share = checked_percent(percent)
    refuse_unknown(regions, groups)
    if members is not None:
        inside = set(members)
        groups = {**groups, **{region: [host for host in groups[region] if host in inside] for region in regions}}
    refuse_twice(regions, groups)
    return [batch for region in regions for batch in batches_of(region, groups, set(hosts), share)]


def batches_of(region, groups, taking_part, percent):
    whole = groups[region]
    left = [host for host in whole if host in taking_part]
    named = set(groups.get(f"{region}_canary", ()))
    canaries = [host for host in left if host in named] or left[:1]
    others = [host for host in left if host not in set(canaries)]
    size = max(1, int(len(whole) * percent / 100))
    stages = (("canary", canaries), ("fraction", others[:size]), ("rest", others[size:]))
    return [{"region": region, "stage": stage, "hosts": those} for stage, those in stages if those]


def checked_percent(percent):
    try:
        number = float(percent)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 100:
        raise AnsibleFilterError(f"plimsoll_rollout_fraction is {percent!r}: give a percentage from 0 to 100")
    return number


def refuse_unknown(regions, groups):
    unknown = [region for region in regions if region not in groups]
    if unknown:
        raise AnsibleFilterError(f"plimsoll_rollout_regions has groups that the inventory has not: {some(unknown)}")


def refuse_twice(regions, groups):
    region_of = {}
    for region in regions:
        for host in groups[region]:
            if host in region_of:
                raise AnsibleFilterError(
                    f"{host} is in two regions, {region_of[host]} and {region}: remove it from one"
                )
            region_of[host] = region


def some(names):
    """Up to five names, and the number of others."""
    shown = ", ".join(names[:SHOWN])
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def batch_words(batch):
    """``r1, canary: r1-c1``."""
    return f"{batch['region']}, {STAGES[batch['stage']]}: {some(batch['hosts'])}"


def batch_numbers(batches):
    """The number of each host's batch, from 0."""
    return {host: number for number, batch in enumerate(batches) for host in batch["hosts"]}


class FilterModule:
    def filters(self):
        return {
            "batches": batches,
            "batch_numbers": batch_numbers,
            "batch_words": batch_words,
            "some": some,
        }
