"""Formats lines for Ansible's output."""

from __future__ import annotations

DOCUMENTATION = """
name: screen
author:
  - The plimsoll authors
short_description: Lines for the message of a task
description:
  - Returns one text where Ansible shows results as YAML (C(callback_result_format=yaml) in C([defaults])). Other
    formats show a text as a single line with C(\\n) in it, so for these it returns a list.
options:
  _input:
    description: The lines.
    type: list
    elements: str
    required: true
"""

EXAMPLES = """
- name: Show a plan
  ansible.builtin.debug:
    msg: "{{ plan.lines | plimsoll.cloud.screen }}"
"""

RETURN = """
_value:
  description: The lines, or one text.
  type: raw
"""

from ansible import constants


def screen(lines):
    yaml = constants.config.get_config_value("result_format", plugin_type="callback", plugin_name="default") == "yaml"
    return "\n".join(lines) if yaml else list(lines)


class FilterModule:
    def filters(self):
        return {"screen": screen}
