#!/usr/bin/env bash
# autopage 0.6.0, by which cliff (and so the openstack command) pages its help: on a terminal the columns are ragged.
#
# One expects that help on a terminal has the layout that it has in a pipe. It writes metavars in italics there, and
# argparse counts the escape codes as width: each option with a value begins its text too far to the left. A test of
# help in a pipe never sees it. Seen with Python 3.11: the texts of two options begin at columns 14 and 14 in a pipe, and
# at 13 (option with a value) and 21 (without) on a terminal.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install autopage==0.6.0
cat > command.py << 'PYTHON'
import argparse

import autopage.argparse

autopage.argparse.monkey_patch()
parser = argparse.ArgumentParser("command")
parser.add_argument("--uri", metavar="URI", help="text of an option with a value")
parser.add_argument("--plain", action="store_true", help="text of one without")
parser.parse_args(["--help"])
PYTHON
cat > columns.py << 'PYTHON'
import os
import pty
import re
import subprocess
import sys

COMMAND = [sys.executable, "command.py"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "PYTHON_COLORS")}
ENVIRONMENT |= {"PAGER": "cat", "COLUMNS": "80", "TERM": "xterm"}


def on_a_terminal():
    process, terminal = pty.fork()
    if process == 0:
        os.execve(COMMAND[0], COMMAND, ENVIRONMENT)
    shown = b""
    while True:
        try:
            more = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        shown += more
    os.waitpid(process, 0)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())


def columns(text):
    lines = [line for line in text.splitlines() if "text of" in line]
    return [line.index("text of") for line in lines]


piped = subprocess.run(COMMAND, capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout
print("pipe", *columns(piped))
print("terminal", *columns(on_a_terminal()))
PYTHON
venv/bin/python columns.py | tee columns.txt
grep -qE '^pipe ([0-9]+) \1$' columns.txt
if grep -qE '^terminal ([0-9]+) \1$' columns.txt; then
    echo "the columns are straight now" >&2
    exit 1
fi
