#!/usr/bin/env bash
# cliff 4.17.0: `-f value -c LIMIT -c NAME` prints the columns in the command's order, and one that is misspelled is
# left out.
#
# One expects of two -c the columns in the order in which they are asked for, as ps -o or SQL has them; scripts read
# them so (`read limit name`). They come in the order in which the command has them, in JSON too. And a column that is
# not there is an error only when no other is: `-c NAME -c LIMT` prints NAME alone, with status 0 and not a word. So
# after a release that renames a column, a script goes on with one field less.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check cliff==4.17.0
cat > disks.py << 'PYTHON'
import sys

from cliff.app import App
from cliff.commandmanager import CommandManager
from cliff.lister import Lister


class List(Lister):
    def take_action(self, parsed):
        return ("name", "limit"), [("vda", 500)]


commands = CommandManager("no.such.group")
commands.add_command("list", List)
sys.exit(App(description="disks", version="1", command_manager=commands).run(["list", "-f", "value", *sys.argv[1:]]))
PYTHON
ask() {
    local status=0
    venv/bin/python disks.py "$@" > out 2> err || status=$?
    echo "$*: status $status, output '$(cat out)', $(wc -c < err) bytes on stderr"
}
ask -c limit -c name | tee order
ask -c name -c limt | tee misspelled
ask -c limt | tee none
grep -q "status 0, output 'vda 500', 0 bytes" order
grep -q "status 0, output 'vda', 0 bytes" misspelled
grep -q "status 1, output ''" none
