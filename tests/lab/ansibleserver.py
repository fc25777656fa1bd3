"""Has imported Ansible, which takes it two thirds of the time of a small playbook, and forks for each that is to run.

Started by tests/lab/playbook.py, in the environment that Ansible is to have, of which it reads much when imported.
Each line of standard input is {"argv": [...], "cwd": PATH, "output": PATH}. The answer is the number of the process
that runs ``ansible-playbook`` with these words, and in a second line its exit status.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from typing import Any, NoReturn

import ansible.executor.module_common
import ansible.executor.task_queue_manager
import ansible.plugins.strategy.linear  # noqa: F401
from ansible.cli.playbook import PlaybookCLI


def main() -> None:
    # What the playbooks write is in files of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then end what runs
    gc.freeze()  # else the first collection of each playbook copies every page
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            run(request)
        print(pid, file=answers, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=answers, flush=True)


def run(request: dict[str, Any]) -> NoReturn:
    os.setsid()  # so that it can be ended with all that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    for descriptor, path in enumerate((os.devnull, request["output"], f"{request['output']}.err")):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.argv = ["ansible-playbook", *request["argv"]]
    status = 250  # as ansible-playbook's for what it did not expect
    try:
        PlaybookCLI.cli_executor(sys.argv)
    except SystemExit as exit:
        status = int(exit.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
