#!/usr/bin/env bash
# cliff 4.11.0: a list with a time in it, asked for as JSON, ends in the middle of the document.
#
# cliff is what the command line of OpenStack is made with: a command returns rows, and -f table, csv, value, yaml or json
# prints them. One expects of a datetime in a cell a text in each format, or an error and no output. json writes the
# document up to that cell, then says "Object of type datetime is not JSON serializable" and ends with 1: a pipe has half a
# document. The other four print the time.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install cliff==4.11.0
cat > list.py << 'PYTHON'
import datetime
import sys

from cliff.app import App
from cliff.commandmanager import CommandManager
from cliff.lister import Lister


class Volumes(Lister):
    def take_action(self, parsed_args):
        return ("name", "created"), [("root", datetime.datetime(2026, 1, 2, 3, 4))]


commands = CommandManager("none")
commands.add_command("volumes", Volumes)
sys.exit(App("lists", "1", commands).run(["volumes", "-f", sys.argv[1]]))
PYTHON
for format in table csv value yaml; do
    venv/bin/python list.py "$format" > out.txt
    grep -q "2026-01-02 03:04:00" out.txt
done
status=0
venv/bin/python list.py json > out.json 2> error.txt || status=$?
echo "json: status $status, $(cat error.txt | tail -1); on standard output:"
cat out.json
echo
[ "$status" = 1 ]
grep -q "datetime is not JSON serializable" error.txt
[ -s out.json ]
! python3 -m json.tool out.json > /dev/null 2>&1
