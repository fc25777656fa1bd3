"""Allows commands in the settings of a guest agent."""

from __future__ import annotations

import re

DOCUMENTATION = """
name: allow_commands
author: [The plimsoll authors]
short_description: Allows commands in the settings of a guest agent
description:
  - Removes the commands from all lists of forbidden commands, and adds them to all lists of allowed ones. Without
    any list the agent allows all commands.
  - Supports C(qemu-ga.conf), and C(/etc/sysconfig/qemu-ga) of the RHEL family, with the names of the lists in QEMU 4
    to 10.
options:
  _input: {description: The text of the file., type: str, required: true}
  commands: {description: The commands to allow., type: list, elements: str, required: true}
"""

EXAMPLES = """
- name: Show what the file should be
  ansible.builtin.debug:
    msg: "{{ text | plimsoll.cloud.allow_commands(['guest-exec', 'guest-exec-status']) }}"
"""

RETURN = """
_value: {description: The changed text, type: str}
"""

# `blacklist` became `block-rpcs` with QEMU 7.2; `allow-rpcs` came with 8.1. The variables are those of the RHEL
# family, whose FILTER_RPC_ARGS has the agent's option in it.
LIST = re.compile(
    r"(?P<name>BLACKLIST_RPC|BLOCK_RPCS|\bblacklist|\bblock-rpcs|\ballow-rpcs)(?P<equals>[ \t]*=[ \t]*[\"']?)"
    r"(?P<commands>[\w-]*(?:[ \t]*,[ \t]*[\w-]*)*)"
)


def allow_commands(text, commands):
    return "".join(_line(line, commands) for line in text.splitlines(keepends=True))


def _line(line, commands):
    return line if line.lstrip().startswith(("#", ";")) else LIST.sub(lambda found: _list(found, commands), line)


def _list(found, commands):
    there = [word for word in re.split(r"[ \t,]+", found["commands"]) if word]
    if found["name"] == "allow-rpcs":
        desired = [*there, *(command for command in commands if command not in there)]
    else:
        desired = [command for command in there if command not in commands]
    return found[0] if desired == there else found["name"] + found["equals"] + ",".join(desired)


class FilterModule:
    def filters(self):
        return {"allow_commands": allow_commands}
