# ruff: noqa: E402, ARG002
"""Ansible's callback for ``script/bench rollout``: when tasks began, on how many hosts, and what the controller paid.

Writes one JSON object to the file that ``STOPWATCH`` names.
"""

from __future__ import annotations

DOCUMENTATION = """
name: stopwatch
type: aggregate
short_description: Times of tasks, and processor time of the controller
description: Writes them to the file that the environment variable STOPWATCH names.
"""

import json
import os
import resource
import time
from pathlib import Path

from ansible.plugins.callback import CallbackBase


def spent():
    """Processor seconds of the process that hands out tasks, and of all that it started and that have ended."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, others.ru_utime + others.ru_stime


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "stopwatch"

    def __init__(self):
        super().__init__()
        self.plays = []

    def v2_playbook_on_play_start(self, play):
        self.plays.append({"name": play.get_name(), "hosts": set(), "tasks": [], **self._now()})

    def v2_playbook_on_task_start(self, task, is_conditional):
        self.plays[-1]["tasks"].append({"name": task.get_name(), "ran": 0, "skipped": 0, **self._now()})

    def v2_playbook_on_handler_task_start(self, task):
        self.v2_playbook_on_task_start(task, False)

    def _count(self, result, how):
        self.plays[-1]["hosts"].add(result._host.get_name())
        self.plays[-1]["tasks"][-1][how] += 1

    def v2_runner_on_ok(self, result):
        self._count(result, "ran")

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._count(result, "ran")

    def v2_runner_on_unreachable(self, result):
        self._count(result, "ran")

    def v2_runner_on_skipped(self, result):
        self._count(result, "skipped")

    def v2_playbook_on_stats(self, stats):
        plays = [{**play, "hosts": sorted(play["hosts"])} for play in self.plays]
        told = json.dumps({"plays": plays, "ended": self._now()})
        Path(os.environ["STOPWATCH"]).write_text(told, encoding="utf-8")

    def _now(self):
        own, others = spent()
        return {"at": time.monotonic(), "own": own, "others": others}
