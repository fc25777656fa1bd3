#!/usr/bin/python
# Copyright: the plimsoll authors. Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: files
short_description: Writes several small text files at once, or removes them
version_added: "0.1.0"
description:
  - Files that differ are replaced atomically, in the order given. Missing directories are created. One task for all
    of them takes a twelfth of the time of a loop with M(ansible.builtin.copy).
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
        description: Its content. If empty, a file that begins with O(mark) is removed, and any other one stays.
        type: str
        required: true
      mode:
        description: Its mode.
        type: str
        default: "0644"
      group:
        description: Its group; its owner is root.
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
  mark:
    description: How files begin that this module wrote.
    type: str
    default: "# Written by Ansible"
attributes:
  check_mode: {description: Reports what would change and changes nothing., support: full}
  diff_mode: {description: Shows the changes of each file., support: full}
author: [The plimsoll authors (@plimsoll)]
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
written: {description: The paths of changed and removed files., returned: success, type: list, elements: str}
"""

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule


def read(path):
    """None where there is no file. Raises ``OSError``."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None


def desired_text(desired, before, mark):
    """What the file should be; None for no file."""
    # A template may end without a newline, or with several.
    after = desired["content"].rstrip("\n") + "\n"
    if after == "\n":
        return None if before is None or before.startswith(mark) else before
    return before if desired["keep"] and before is not None else after


def make_parents(path):
    parent = os.path.dirname(path)
    if not os.path.lexists(parent):
        make_parents(parent)
        os.mkdir(parent)
        os.chmod(parent, 0o755)  # noqa: S103  # with any umask


def checked(module, argv, new, path):
    """Run the check of the new file. A fault ends the module with a message."""
    status, out, complaint = module.run_command([word.replace("%s", new) for word in argv])
    if status != 0:
        said = (out + complaint).replace(new, path).strip() or f"{argv[0]}: ended with {status}"
        module.fail_json(msg=f"{said}\n{path} was not changed.")


def attributes(module, desired, path):
    """Correct mode and owner; whether they were wrong."""
    words = {"path": path, "mode": desired["mode"], "owner": "root", "group": desired["group"], "attributes": None}
    return module.set_fs_attributes_if_different(module.load_file_common_arguments(words), False)


def write(module, desired, text, *, first):
    """Replace the file, ``first``: no file before it differs. Raises ``OSError``."""
    path, new = desired["path"], None
    try:
        if not module.check_mode:
            make_parents(path)
        # Only root can read it until its owner and mode are set. Programs ignore names that begin with a dot.
        parent = module.tmpdir if module.check_mode else os.path.dirname(path)
        descriptor, new = tempfile.mkstemp(dir=parent, prefix=f".{os.path.basename(path)}.")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        argv = desired["check"]
        if argv and (not module.check_mode or (first and os.access(argv[0], os.X_OK))):
            checked(module, argv, new, path)
        if not module.check_mode:
            # Not atomic_move, which resets a new file to the default mode.
            attributes(module, desired, new)
            os.rename(new, path)
            new = None
    finally:
        if new is not None:
            os.unlink(new)


def main():
    one = {
        "path": {"type": "path", "required": True},
        "content": {"type": "str", "required": True, "no_log": False},
        "mode": {"type": "str", "default": "0644"},
        "group": {"type": "str", "default": "root"},
        "check": {"type": "list", "elements": "str", "default": []},
        "keep": {"type": "bool", "default": False},
    }
    spec = {
        "files": {"type": "list", "elements": "dict", "required": True, "options": one},
        "mark": {"type": "str", "default": "# Written by Ansible"},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    written, diff = [], []
    for desired in module.params["files"]:
        path = desired["path"]
        try:
            before = read(path)
            after = desired_text(desired, before, module.params["mark"])
            if after != before:
                if after is not None:
                    write(module, desired, after, first=not written)
                elif not module.check_mode:
                    os.unlink(path)
                # What is removed may be a secret.
                shown = (before or "") if after is not None else "a file that Ansible wrote\n"
                diff.append({"before": shown, "after": after or "", "before_header": path, "after_header": path})
            elif not desired["content"] or desired["keep"] or not attributes(module, desired, path):
                continue
        except OSError as error:
            module.fail_json(msg=f"{error.filename or path}: {error.strerror}")
        written.append(path)
    module.exit_json(changed=bool(written), written=written, diff=diff)


if __name__ == "__main__":
    main()
