"""Finds the child groups of a group, which Ansible's variables do not contain."""

from __future__ import annotations

DOCUMENTATION = """
name: child_groups
author:
  - The plimsoll authors
short_description: The children of a group, in the order of the inventory
description:
  - Reads the sources of the inventory again. Groups that a playbook creates are not included.
options:
  _terms:
    description: Names of groups. A group that does not exist has no children.
    type: list
    elements: str
    required: true
"""

EXAMPLES = """
- name: Show the regions
  ansible.builtin.debug:
    msg: "{{ query('plimsoll.cloud.child_groups', 'plimsoll') }}"
"""

RETURN = """
_raw:
  description: Names of groups
  type: list
  elements: str
"""

from ansible.inventory.manager import InventoryManager

from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **_):
        manager = InventoryManager(loader=self._loader, sources=list(variables["ansible_inventory_sources"]))
        groups = manager.groups
        return [child.name for term in terms if term in groups for child in groups[term].child_groups]
