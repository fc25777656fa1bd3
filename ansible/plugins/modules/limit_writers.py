#!/usr/bin/python
# Copyright: the plimsoll authors. Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: limit_writers
short_description: Disables cron entries that write block I/O limits, or restores them
version_added: "0.1.0"
description:
  - Comments out lines of crontabs, with a note above, and renames scripts in C(/etc/cron.*ly) so that cron ignores
    them. Nothing is removed.
  - Searches C(/etc/crontab), C(/etc/anacrontab), C(/etc/cron.d), C(/etc/cron.*ly) and C(/var/spool/cron).
options:
  state:
    description: V(retired) disables those that match O(patterns); V(restored) restores all that were retired.
    type: str
    choices: [retired, restored]
    default: retired
  patterns:
    description: Regular expressions that match an entry or a script that it calls.
    type: list
    elements: str
    default: []
attributes:
  check_mode: {description: "Reports what would change, and changes nothing.", support: full}
  diff_mode: {description: Shows the entries., support: full}
author: [The plimsoll authors (@plimsoll)]
"""

EXAMPLES = r"""
- name: Disable cron entries that write limits
  plimsoll.cloud.limit_writers:
    patterns: [blkdeviotune]

- name: Restore cron entries
  plimsoll.cloud.limit_writers:
    state: restored
"""

RETURN = r"""
entries:
  description: What was retired or restored, each with its file, its line (0 for a script) and its text.
  returned: success
  type: list
  elements: dict
  sample: [{"file": "/etc/cron.d/limits", "line": 2, "text": "*/5 * * * * root /usr/local/sbin/limits"}]
"""

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plimsoll.cloud.plugins.module_utils.limit_writers import Writers


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["retired", "restored"], "default": "retired"},
            "patterns": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )

    def write(path, text):
        path = os.path.realpath(path)
        # In the same directory, so that cron notices a change, and with a name that cron ignores.
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".", suffix=".plimsoll-new")
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        module.atomic_move(temporary, path)

    retire = module.params["state"] == "retired"
    try:
        writers = Writers(module.params["patterns"])
        entries = writers.cron() if retire else writers.retired()
        if entries and not module.check_mode:
            (writers.retire if retire else writers.restore)(entries, write)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"cron's entries: {error}")
    shown = "".join(f"{entry['file']}:{entry['line']}: {entry['text']}\n" for entry in entries)
    diff = {"before_header": "cron's entries that write limits", "after_header": "the same"}
    diff.update({"before": shown if retire else "", "after": "" if retire else shown})
    module.exit_json(changed=bool(entries), entries=entries, diff=diff)


if __name__ == "__main__":
    main()
