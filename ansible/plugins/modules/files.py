#!/usr/bin/python
# Copyright: the plimsoll authors. Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: files
short_description: Writes several small text files at once
version_added: "0.1.0"
description:
  - Files that differ are replaced atomically, in the order given. Missing directories are created.
  - If the check of a file fails, that file and those after it stay unchanged.
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Its path.
        type: path
        required: true
      content:
        description: Its content.
        type: str
        required: true
      mode:
        description: Its mode.
        type: str
        default: "0644"
      owner:
        description: Its owner.
        type: str
        default: root
      group:
        description: Its group.
        type: str
        default: root
      check:
        description:
          - A program with its arguments that must succeed before the file is replaced; V(%s) among them is the new
            file. In check mode it does not run if it is not installed, or if a file before this one differs.
        type: list
        elements: str
        default: []
      keep:
        description: Whether an existing file stays unchanged.
        type: bool
        default: false
attributes:
  check_mode:
    description: Reports what would change, and changes nothing.
    support: full
  diff_mode:
    description: Shows the changes of each file.
    support: full
author:
  - The plimsoll authors (@plimsoll)
"""

EXAMPLES = r"""
- name: Write rules after a check
  plimsoll.cloud.files:
    files:
      - path: /etc/plimsoll/rules.yaml
        content: "{}"
        check: [/opt/plimsoll/current/bin/plimsoll, rules, check, "%s"]
"""

RETURN = r"""
written:
  description: The paths of changed files.
  returned: success
  type: list
  elements: str
  sample: [/etc/plimsoll/rules.yaml]
"""

import os
import subprocess
import tempfile

from ansible.module_utils.basic import AnsibleModule


def missing_parents(path):
    """Parent directories that are missing, topmost first."""
    found = []
    parent = os.path.dirname(path)
    while not os.path.lexists(parent):
        found.insert(0, parent)
        parent = os.path.dirname(parent)
    return found


class File:
    """One file. ``differs`` compares it, ``write`` changes it."""

    def __init__(self, module, desired):
        self._module = module
        self._desired = desired
        self.path = desired["path"]
        self._before = self._read()
        # A template may end without a newline, or with several.
        self._after = desired["content"].rstrip("\n") + "\n"

    @property
    def differs(self):
        return self._before is None or (not self._desired["keep"] and self._before != self._after)

    @property
    def diff(self):
        if not self.differs:
            return []
        return [
            {
                "before": self._before or "",
                "after": self._after,
                "before_header": self.path,
                "after_header": self.path,
            }
        ]

    def write(self, looked_only):
        """Replace the file. An error ends the module with a message."""
        parent = os.path.dirname(self.path)
        made = self._module.tmpdir if self._module.check_mode else parent
        new = None
        try:
            for directory in [] if self._module.check_mode else missing_parents(self.path):
                os.mkdir(directory)
                os.chmod(directory, 0o755)  # noqa: S103  # with any umask
            # Only root can read it until its owner and mode are set. Programs ignore names that begin with a dot.
            descriptor, new = tempfile.mkstemp(dir=made, prefix=f".{os.path.basename(self.path)}.")
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(self._after)
                file.flush()
                os.fsync(file.fileno())
            self._check(new, looked_only)
            if not self._module.check_mode:
                # Not atomic_move, which resets a new file to the default mode.
                self._attributes(new)
                os.rename(new, self.path)
                new = None
        except OSError as error:
            self._module.fail_json(msg=f"{error.filename or self.path}: {error.strerror}")
        finally:
            if new is not None:
                os.unlink(new)

    def adjust(self):
        """Correct mode and owner; returns whether they were wrong."""
        return self._attributes(self.path)

    def _attributes(self, path):
        words = {"path": path, **{key: self._desired[key] for key in ("mode", "owner", "group")}}
        known = self._module.load_file_common_arguments({**words, "attributes": None})
        return self._module.set_fs_attributes_if_different(known, False)

    def _read(self):
        try:
            with open(self.path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._module.fail_json(msg=f"{self.path}: {error.strerror}")

    def _check(self, new, looked_only):
        argv = [word.replace("%s", new) for word in self._desired["check"]]
        if not argv or looked_only or (self._module.check_mode and not os.access(argv[0], os.X_OK)):
            return
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if done.returncode != 0:
            said = done.stdout.decode("utf-8", "replace").replace(new, self.path).strip()
            said = said or f"{argv[0]}: ended with {done.returncode}"
            self._module.fail_json(msg=f"{said}\n{self.path} was not changed.")


def main():
    module = AnsibleModule(
        argument_spec={
            "files": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "path": {"type": "path", "required": True},
                    "content": {"type": "str", "required": True, "no_log": False},
                    "mode": {"type": "str", "default": "0644"},
                    "owner": {"type": "str", "default": "root"},
                    "group": {"type": "str", "default": "root"},
                    "check": {"type": "list", "elements": "str", "default": []},
                    "keep": {"type": "bool", "default": False},
                },
            }
        },
        supports_check_mode=True,
    )
    written, diff = [], []
    for desired in module.params["files"]:
        file = File(module, desired)
        if file.differs:
            file.write(looked_only=module.check_mode and bool(written))
            diff += file.diff
            written.append(file.path)
        elif not desired["keep"] and file.adjust():
            written.append(file.path)
    module.exit_json(changed=bool(written), written=written, diff=diff)


if __name__ == "__main__":
    main()
