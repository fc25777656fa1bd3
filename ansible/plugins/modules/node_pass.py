#!/usr/bin/python
# Copyright: the plimsoll authors. Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: node_pass
short_description: Runs a pass, and fails unless the node is healthy after it
version_added: "0.1.0"
description:
  - Starts C(plimsoll-enforce.service), as the timer does, waits for its end, and runs C(plimsoll status). Where
    C(plimsoll-daemon.service) runs, the pass is the daemon's, after a reload.
  - A node is healthy when the pass began after this task did, no figure of C(plimsoll status) is critical, and none
    is a warning except for those that O(tolerated) or O(warnings_pass) allows. In mode observe the figures C(behind)
    and C(unlimited) are ignored.
  - Runs another pass every ten seconds until the node is healthy or O(timeout) is over. It does not wait for the end
    of a pause or of a stop by the brake, which only an operator can end.
options:
  version:
    description: The version of plimsoll that must have made the pass; any version if empty.
    type: str
    default: ""
  timeout:
    description: Seconds until the node must be healthy. 0 runs one pass.
    type: int
    default: 60
  warnings_pass:
    description:
      - Whether figures may be warnings, except C(failed), C(probe_broken), C(sources_down) and C(unlimited), which
        pass only by O(tolerated).
    type: bool
    default: false
  tolerated:
    description: Names of figures that may be warnings. C(check_plimsoll(1)) lists all names.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Does nothing, and reports that the node is healthy.
    support: partial
  diff_mode:
    description: There is nothing to show.
    support: none
author:
  - The plimsoll authors (@plimsoll)
"""

EXAMPLES = r"""
- name: Run a pass, and continue only if the node is healthy
  plimsoll.cloud.node_pass:
    tolerated: [unreachable_guests]
"""

RETURN = r"""
wrong:
  description: Why the node is unhealthy, a sentence each, worst first.
  returned: always
  type: list
  elements: str
passes:
  description: The number of passes.
  returned: always
  type: int
disks:
  description: The number of disks by state, as in C(plimsoll status -f json).
  returned: when they were observed
  type: dict
"""

import json
import time
from datetime import datetime, timezone

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plimsoll.cloud.plugins.module_utils.node_health import LASTING, Tolerance, moment, wrong

BETWEEN_PASSES = 10.0
POLL = 0.5
ENFORCE, DAEMON = "plimsoll-enforce.service", "plimsoll-daemon.service"


def main():
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 60},
            "warnings_pass": {"type": "bool", "default": False, "no_log": False},
            "tolerated": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, wrong=[], passes=0)
    result = passes_until_healthy(module)
    if result["wrong"]:
        module.fail_json(msg="; ".join(result["wrong"] + result.pop("last_words")), **result)
    del result["last_words"]
    module.exit_json(**result)


def passes_until_healthy(module):
    tolerance = Tolerance(module.params["tolerated"], module.params["warnings_pass"])
    since = datetime.now(timezone.utc)
    deadline = time.monotonic() + module.params["timeout"]
    passes = 0
    while True:
        unit, made, status = one_pass(module)
        passes += 1
        found = wrong(status, since, module.params["version"], tolerance)
        names = {name for name, _ in found}
        if not found or names & LASTING or time.monotonic() + BETWEEN_PASSES > deadline:
            break
        time.sleep(BETWEEN_PASSES)
    result = {
        "changed": False,
        "wrong": [sentence for _, sentence in found],
        "passes": passes,
        "last_words": [] if made or "" not in names else [last_words(module, unit)],
    }
    if status is not None and status["disks"] is not None:
        result["disks"] = status["disks"]["states"]
    return result


def one_pass(module):
    """The unit that was to make it, whether it did, and the status after it."""
    if module.run_command(["systemctl", "is-active", "--quiet", DAEMON])[0] != 0:
        made = module.run_command(["systemctl", "start", ENFORCE])[0] == 0
        return ENFORCE, made, how_it_is(module)
    # The timer's pass does nothing beside it. A reload is over before the pass that follows it.
    asked = datetime.now(timezone.utc)
    until = time.monotonic() + BETWEEN_PASSES
    module.run_command(["systemctl", "reload", DAEMON])
    while True:
        status = how_it_is(module)
        made = status is not None and status["pass"] is not None and moment(status["pass"]["started"]) >= asked
        if made or time.monotonic() >= until:
            return DAEMON, made, status
        time.sleep(POLL)


def last_words(module, unit):
    """The last line of the service in the journal, without systemd's own."""
    asked = ["journalctl", "--lines", "1", "--output", "cat", "_SYSTEMD_UNIT=" + unit]
    return "last line of %s: %s" % (unit, module.run_command(asked)[1].strip() or "none")


def how_it_is(module):
    _, answer, _ = module.run_command(["/usr/local/bin/plimsoll", "status", "-f", "json"])
    try:
        return json.loads(answer)
    except ValueError:
        return None


if __name__ == "__main__":
    main()
