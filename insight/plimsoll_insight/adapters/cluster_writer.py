"""The only place that changes a cluster. Its client needs more than to read: ``docs/guide/return.rst``."""

from __future__ import annotations

import json

from plimsoll_agent.errors import Rejected
from plimsoll_insight.adapters.cluster import LiveCluster


class ClusterWriter(LiveCluster):
    """Each raises as ``LiveCluster.map`` does."""

    def set_flag(self, flag: str, on: bool) -> None:
        self._change("osd", "set" if on else "unset", flag)

    def set_for_osds(self, name: str, value: str | None) -> None:
        """For all OSDs, in the monitors' configuration; None removes it."""
        self._change("config", *(("rm", "osd", name) if value is None else ("set", "osd", name, value)))

    def _change(self, *words: str) -> None:
        """It is killed with this process: else it might be carried out after ``return stop`` has looked."""
        argv = ["setpriv", "--pdeathsig", "KILL", *self.program(self.deadline).argv(words, None)]
        self._run_program(f"ceph {' '.join(words)}", argv, self.deadline)

    def may_stop(self, osd: int) -> bool:
        """Whether all its placement groups stay active without it."""
        try:
            answer = json.loads(self._run("osd", "ok-to-stop", str(osd)))
        except Rejected:  # it ends with EBUSY then
            return False
        except ValueError:  # before Pacific it has no JSON, and its status says it
            return True
        return bool(answer.get("ok_to_stop", True))
