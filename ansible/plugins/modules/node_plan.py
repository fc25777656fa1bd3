#!/usr/bin/python
# Copyright: the plimsoll authors. Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: node_plan
short_description: What plimsoll would change on a node
version_added: "0.1.0"
description:
  - Runs C(plimsoll plan), which changes nothing. Fails where there is no plan, since the rules or settings are broken
    or libvirt cannot be reached.
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
- name: See what would be changed
  plimsoll.cloud.node_plan:
  register: node
"""

RETURN = r"""
lines:
  description: The plan, for people.
  returned: success
  type: list
  elements: str
edition:
  description: What has to be approved of, six characters. Empty where nothing has.
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
        module.fail_json(msg="there is no plan: " + (errors.strip() or "plimsoll plan says nothing"))
    braked = report["braked"] or {}
    module.exit_json(
        changed=False,
        lines=text.splitlines() + complaints.splitlines(),
        edition=braked.get("edition", ""),
    )


if __name__ == "__main__":
    main()
