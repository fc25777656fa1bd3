"""Copies a wheelhouse to a node that does not have it, and runs its installer there."""

# Copyright: the plimsoll authors. Apache-2.0
from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible.plugins.action import ActionBase


def sums_digest(archive: Path) -> str:
    """The digest of a wheelhouse's list of digests, which differs between two builds of the same name."""
    name = archive.name.removesuffix(".tar.gz")
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.name == f"{name}/SHA256SUMS" and (content := tar.extractfile(member)):
                    return hashlib.sha256(content.read()).hexdigest()
    except (OSError, tarfile.TarError) as error:
        raise AnsibleActionFail(f"{archive}: cannot be read: {error}") from error
    raise AnsibleActionFail(f"{archive}: is not a wheelhouse: it has no {name}/SHA256SUMS; see script/wheelhouse")


class ActionModule(ActionBase):
    """Gives the module the archive only where the node needs it, and never in check mode."""

    TRANSFERS_FILES = False  # otherwise each run would create a directory on the node
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        words = dict(self._task.args)
        archive, known = Path(words.pop("archive")), words.pop("known", None) or {}
        words |= {"name": archive.name.removesuffix(".tar.gz"), "digest": sums_digest(archive)}
        if known.get(words["name"]) != words["digest"] and not self._task.check_mode:
            there = self._connection._shell.join_path(self._make_tmp_path(), archive.name)
            words["archive"] = self._transfer_file(str(archive), there)
        try:
            return dict(self._execute_module(module_name=self._task.action, module_args=words, task_vars=task_vars))
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
