"""Lists that are set as text, as C(-e NAME=VALUE) and INI inventories do."""

from __future__ import annotations

DOCUMENTATION = """
name: entries
author: [The plimsoll authors]
short_description: The entries of a list that may be text
description:
  - Text has commas between its entries, as for the options of modules, or is a list in YAML's C([a, b]). A number is
    one entry. Jinja would take text for the list of its characters.
options:
  _input: {description: A list or text or a number., type: raw, required: true}
"""

EXAMPLES = """
- name: Show two OSDs
  ansible.builtin.debug:
    msg: "{{ '3,12' | plimsoll.cloud.entries }}"
"""

RETURN = """
_value: {description: The entries as text., type: list, elements: str}
"""

import shlex

import yaml
from ansible.errors import AnsibleFilterError


def entries(value):
    """Raises ``AnsibleFilterError`` for what is no list."""
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [entry.strip() for entry in value.split(",") if entry.strip()]
    return _listed(value)


def words(value):
    """The words of a command: a list, or text as a shell has it. Raises ``AnsibleFilterError``."""
    if isinstance(value, str) and not value.lstrip().startswith("["):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise AnsibleFilterError(f"not the words of a command: {value!r}: {error}") from error
    return _listed(value)


def _listed(value):
    try:
        known = yaml.safe_load(value) if isinstance(value, str) else value
    except yaml.YAMLError:
        known = None
    if isinstance(known, int) and not isinstance(known, bool):
        known = [known]
    if not isinstance(known, (list, tuple)):
        raise AnsibleFilterError(f"not a list: {value!r}: write [a, b], or a,b")
    return [str(entry) for entry in known]


class FilterModule:
    def filters(self):
        return {"entries": entries, "words": words}
