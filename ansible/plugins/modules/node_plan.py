#!/usr/bin/python
# Copyright: the plimsoll authors. Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: node_plan
short_description: Shows what plimsoll would change on a node
version_added: "0.1.0"
description:
  - Runs C(plimsoll plan), which changes nothing. Fails without a plan, as with invalid rules or settings, or where
    libvirt is unreachable.
options: {}
attributes:
  check_mode:
    description: Changes nothing in any case.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
author:
  - The plimsoll authors (@plimsoll)
"""

EXAMPLES = r"""
- name: Show what would change
  plimsoll.cloud.node_plan:
  register: node
"""

RETURN = r"""
lines:
  description: The plan as text.
  returned: success
  type: list
  elements: str
revision:
  description: The revision that needs approval, six characters. Empty where none does.
  returned: success
  type: str
"""

import json

from ansible.module_utils.basic import AnsibleModule

PLIMSOLL = "/usr/local/bin/plimsoll"


def main():
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    _, text, complaints = module.run_command([PLIMSOLL, "plan"])
    _, answer, errors = module.run_command([PLIMSOLL, "plan", "-f", "json"])
    try:
        report = json.loads(answer)
    except ValueError:
        module.fail_json(msg="there is no plan: " + (errors.strip() or "plimsoll plan printed nothing"))
    braked = report["braked"] or {}
    module.exit_json(
        changed=False,
        lines=text.splitlines() + complaints.splitlines(),
        revision=braked.get("revision", ""),
    )


if __name__ == "__main__":
    main()
