#!/usr/bin/env bash
# PyYAML 6.0.3 and voluptuous 0.16.0: `total_iops_sec: yes` is a valid limit, of one request a second.
#
# One expects a schema of All(int, Range(min=1)) to refuse what is no number. YAML's yes (on, true) is True, and True is
# an int of Python and not below 1: it passes, as True. A %d of it, or a C function, makes 1: the disk stands still. off
# and no are refused by the range alone, and pass where 0 means no limit. jsonschema and msgspec refuse both.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check PyYAML==6.0.3 voluptuous==0.16.0 msgspec==0.21.0 jsonschema==4.25.1
venv/bin/python - << 'PYTHON'
import sys
from typing import Annotated

import jsonschema
import msgspec
import voluptuous
import yaml

KEY = "total_iops_sec"
READERS = {
    "voluptuous": voluptuous.Schema({KEY: voluptuous.All(int, voluptuous.Range(min=0))}),
    "jsonschema": lambda value: jsonschema.validate(value, {"properties": {KEY: {"type": "integer", "minimum": 0}}}),
    "msgspec": lambda value: msgspec.convert(value, dict[str, Annotated[int, msgspec.Meta(ge=0)]]),
}
seen = {}
for word in ("500", "yes", "off"):
    value = yaml.safe_load(f"{KEY}: {word}")
    for name, read in READERS.items():
        try:
            read(value)
            seen[name, word] = True
        except (voluptuous.Invalid, jsonschema.ValidationError, msgspec.ValidationError):
            seen[name, word] = False
    print(word, value, {name: "taken" if seen[name, word] else "refused" for name in READERS}, "as %d" % value[KEY])
taken = {pair for pair, good in seen.items() if good}
wanted = {(name, "500") for name in READERS} | {("voluptuous", "yes"), ("voluptuous", "off")}
sys.exit(0 if taken == wanted else 1)
PYTHON
