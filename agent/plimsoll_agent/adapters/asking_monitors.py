"""Asks the monitors through librados what ``ceph`` would ask, at a fifth of its cost.

``python3 -I asking_monitors.py CONF CLIENT SECONDS [QUESTION]``

It is run by the interpreter of this machine's ``ceph``, which has Ceph's binding, may be older than plimsoll's, and
has no module of plimsoll. QUESTION is a command in JSON as monitors take it, with ``"to": "mgr"`` or ``"osd.N"`` as
these do; the answer goes to standard output, and the exit status is its error number. Without one each line of
standard input is a question, and each answer follows a line with its error number, its length in bytes and, if there
is one, the error.
"""

from __future__ import annotations

import errno
import json
import os
import sys

import rados  # type: ignore[import-not-found]


def main(conf: str, client: str, seconds: str, *questions: str) -> int:
    try:
        cluster = rados.Rados(conffile=conf, rados_id=client, conf={"client_mount_timeout": seconds})
        cluster.connect()
    except rados.Error as error:
        sys.stderr.write(f"{error}\n")
        return int(abs(getattr(error, "errno", None) or errno.EIO))
    if questions:
        status, answer, error_text = ask(cluster, questions[0], int(seconds))
        sys.stdout.buffer.write(answer)
        sys.stderr.write(f"{error_text}\n" if status else "")
        return status
    for line in sys.stdin:
        status, answer, error_text = ask(cluster, line, int(seconds))
        sys.stdout.buffer.write(f"{status} {len(answer)} {error_text}\n".encode() + answer)
        sys.stdout.flush()
    return 0


def ask(cluster: rados.Rados, question: str, seconds: int) -> tuple[int, bytes, str]:
    """The error number, the answer, and what monitors say of the error in one line."""
    command = json.loads(question)
    to = command.pop("to", "mon")
    command_text = json.dumps(command)
    if to == "mgr":
        status, answer, words = cluster.mgr_command(command_text, b"", seconds)
    elif to.startswith("osd."):
        status, answer, words = cluster.osd_command(int(to[4:]), command_text, b"", seconds)
    else:
        status, answer, words = cluster.mon_command(command_text, b"", seconds)
    if not status:
        return 0, answer, ""
    return abs(status), b"", " ".join(f"Error {errno.errorcode.get(abs(status), abs(status))}: {words}".split())


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # without librados' own end, which may wait for monitors
