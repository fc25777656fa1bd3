"""What a guest's agent may be asked for: the lists in its settings, of what is forbidden or of what is allowed."""

from __future__ import annotations

import re

DOCUMENTATION = """
name: allow_commands
author:
  - The plimsoll authors
short_description: An agent's settings with some of its commands allowed
description:
  - Takes the commands out of every list of what is forbidden, and adds them to every list of what is allowed.
    All else stays as it is. Without any such list the agent allows everything.
  - Knows C(qemu-ga.conf), and C(/etc/sysconfig/qemu-ga) of the RHEL family, with the names of the lists in the agents
    of QEMU 4 to 10.
options:
  _input:
    description: The text of the file.
    type: str
    required: true
  commands:
    description: Which commands are to be allowed.
    type: list
    elements: str
    required: true
"""

EXAMPLES = """
- name: Show what the file should be
  ansible.builtin.debug:
    msg: "{{ text | plimsoll.cloud.allow_commands(['guest-exec', 'guest-exec-status']) }}"
"""

RETURN = """
_value:
  description: The text as it should be
  type: str
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
        wanted = [*there, *(command for command in commands if command not in there)]
    else:
        wanted = [command for command in there if command not in commands]
    return found[0] if wanted == there else found["name"] + found["equals"] + ",".join(wanted)


class FilterModule:
    def filters(self):
        return {"allow_commands": allow_commands}
