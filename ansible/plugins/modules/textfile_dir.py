#!/usr/bin/python
# Copyright: the plimsoll authors. Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: textfile_dir
short_description: Lets users write to node_exporter's directory of text files
version_added: "0.1.0"
description:
  - Creates the directory if it is missing, and adds the users to its access control list. Other entries stay.
  - systemd-tmpfiles refuses this on Debian, where the parent directory belongs to node_exporter's user, and not all
    nodes have C(setfacl).
options:
  path:
    description: The directory.
    type: path
    required: true
  users:
    description: Names of the users.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: Reports whether something would change, and changes nothing.
    support: full
author:
  - The plimsoll authors (@plimsoll)
"""

EXAMPLES = r"""
- name: Let plimsoll write its metrics
  plimsoll.cloud.textfile_dir:
    path: /var/lib/prometheus/node-exporter
    users: [plimsoll, plimsoll-probe]
"""

RETURN = r"""
"""

import errno
import os
import pwd
import stat
import struct

from ansible.module_utils.basic import AnsibleModule

# The kernel's form of the list is in linux/posix_acl_xattr.h.
ATTRIBUTE = "system.posix_acl_access"
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
NOBODY = 0xFFFFFFFF
ALL = 7
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")


def read(packed, mode):
    """{(tag, id): permissions}; for a directory without a list, from its mode."""
    if not packed:
        return {
            (USER_OBJ, NOBODY): mode >> 6 & ALL,
            (GROUP_OBJ, NOBODY): mode >> 3 & ALL,
            (OTHER, NOBODY): mode & ALL,
        }
    if packed[:4] != _VERSION:
        raise ValueError("its access control list has an unknown format")
    return {(tag, who): permissions for tag, permissions, who in _ENTRY.iter_unpack(packed[4:])}


def granted(entries, uids):
    """The list with all permissions for these users. The mask, which bounds permissions, allows all too."""
    return {**entries, **{(USER, uid): ALL for uid in uids}, (MASK, NOBODY): ALL}


def pack(entries):
    return _VERSION + b"".join(_ENTRY.pack(tag, entries[tag, who], who) for tag, who in sorted(entries))


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "users": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    path = module.params["path"]
    try:
        uids = [pwd.getpwnam(user).pw_uid for user in module.params["users"]]
    except KeyError as error:
        if module.check_mode:  # in check mode the users were not created either
            module.exit_json(changed=True)
        module.fail_json(msg=f"{error.args[0]}; install plimsoll first, which creates its users")
    try:
        if not os.path.isdir(path):
            if module.check_mode:
                module.exit_json(changed=True)
            os.makedirs(path, 0o755)
        try:
            before = os.getxattr(path, ATTRIBUTE)
        except OSError as error:
            if error.errno != errno.ENODATA:
                raise
            before = b""
        entries = read(before, stat.S_IMODE(os.stat(path).st_mode))
        after = granted(entries, uids)
        if after != entries and not module.check_mode:
            os.setxattr(path, ATTRIBUTE, pack(after))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        module.fail_json(msg=f"{path}: plimsoll's users cannot get access: {reason}; see agent_textfile_dir")
    module.exit_json(changed=after != entries)


if __name__ == "__main__":
    main()
