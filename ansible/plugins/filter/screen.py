"""Lines as the screen shows them best."""

from __future__ import annotations

DOCUMENTATION = """
name: screen
author:
  - The plimsoll authors
short_description: Lines for the message of a task
description:
  - Ansible's screen shows a text with many lines as such where results are shown as YAML (C(result_format=yaml) in
    C([defaults]) as C(callback_result_format)), and else as one line with C(\\n) in it, where a list is better.
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
