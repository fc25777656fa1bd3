#!/usr/bin/python
# Copyright: the plimsoll authors. Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: release
short_description: Installs a version of plimsoll on a node from a wheelhouse
version_added: "0.1.0"
description:
  - Copies the wheelhouse to the node unless the node has it, and runs its installer, which reports what it changes.
options:
  archive:
    description: The wheelhouse on the controller, plimsoll-VERSION-OS-PYTHON-ARCH.tar.gz.
    type: path
    required: true
  known:
    description:
      - The wheelhouses that the node has, with their digests, as M(plimsoll.cloud.node_facts) returns them. Without
        it the wheelhouse is always copied.
    type: dict
    default: {}
  extras:
    description: Extras to install.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Runs the installer with C(--check); without the wheelhouse on the node it only reports the copy.
    support: full
author:
  - The plimsoll authors (@plimsoll)
"""

EXAMPLES = r"""
- name: Install plimsoll
  plimsoll.cloud.release:
    archive: wheelhouses/plimsoll-0.1.0-debian12-cp311-x86_64.tar.gz
    extras: [openstack]
"""

RETURN = r"""
version:
  description: The current version, or what it would be.
  returned: success
  type: str
  sample: 0.1.0
previous:
  description: The version that a rollback would switch to; empty if there is none.
  returned: success
  type: str
did:
  description: What was done, a sentence each.
  returned: success
  type: list
  elements: str
  sample: ["switched to 0.1.0"]
"""

import hashlib
import json
import os
import subprocess
import tarfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

WHEELHOUSES = Path("/opt/plimsoll/wheelhouses")


def unpack(archive, to):
    """The unpacked directory. Raises ``OSError``, ``TarError``; ``ValueError`` where it is not a wheelhouse."""
    name = os.path.basename(archive)[: -len(".tar.gz")]
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
        for member in members:
            parts = member.name.split("/")
            if parts[0] != name or len(parts) > 2 or ".." in parts or not (member.isfile() or member.isdir()):
                raise ValueError(f"{archive}: is not a wheelhouse: it contains {member.name!r}")
        tar.extractall(to, members)  # noqa: S202  # each name was checked
    return Path(to) / name


def is_here(name, digest):
    try:
        return hashlib.sha256((WHEELHOUSES / name / "SHA256SUMS").read_bytes()).hexdigest() == digest
    except OSError:
        return False


def main():
    module = AnsibleModule(
        argument_spec={
            "archive": {"type": "path"},  # from the action, only where it must be unpacked
            "name": {"type": "str", "required": True},
            "digest": {"type": "str", "required": True},
            "extras": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    name = module.params["name"]
    if is_here(name, module.params["digest"]):
        home = WHEELHOUSES / name
    elif module.check_mode:
        version = name.split("-")[1]
        module.exit_json(changed=True, version=version, previous="", did=[f"would copy and install {name}"])
    elif module.params["archive"] is None:
        module.fail_json(msg=f"{WHEELHOUSES / name}: was removed or changed during this run; run it again")
    else:
        try:
            home = unpack(module.params["archive"], module.tmpdir)
        except (OSError, ValueError, tarfile.TarError) as error:
            module.fail_json(msg=f"{name}: cannot be unpacked in {module.tmpdir}: {error}")
    argv = [str(home / "install"), "install", "-f", "json"]
    argv += ["--extras", ",".join(module.params["extras"])]
    argv += ["--check"] if module.check_mode else []
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    words = done.stderr.decode("utf-8", "replace").strip()
    if done.returncode != 0:
        module.fail_json(msg=words or f"{' '.join(argv)}: ended with {done.returncode}", rc=done.returncode)
    told = json.loads(done.stdout)
    for note in told.get("notes", []):
        module.warn(note)
    module.exit_json(changed=told["changed"], version=told["version"], previous=told["previous"], did=told["did"])


if __name__ == "__main__":
    main()
