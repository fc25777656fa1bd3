#!/usr/bin/env bash
# msgspec 0.21.0: a number that is not finite is written as null, which the same type then refuses to read.
#
# One expects of a Struct that its JSON can be read back, or that writing it fails. NaN and infinity (a share of
# nothing, a rate over no time) are written as null without an error; decode says "Expected `float`, got `null`", so a
# state file that was written well is a broken one at the next start. Standard json writes NaN, which is no JSON, and
# reads it. With `float | None` nothing is raised at all: what could not be computed comes back as what was not there.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check msgspec==0.21.0
venv/bin/python - << 'PYTHON'
import sys

import msgspec


class Use(msgspec.Struct):
    share: float


class Perhaps(msgspec.Struct):
    share: float | None


right = True
for share in (0.5, float("nan"), float("inf")):
    text = msgspec.json.encode(Use(share))
    try:
        back = msgspec.json.decode(text, type=Use)
    except msgspec.ValidationError as error:
        back = f"refused: {error}"
    perhaps = msgspec.json.decode(text, type=Perhaps)
    print(f"{share}: written {text.decode()}, read {back}, with None allowed {perhaps}")
    finite = share == 0.5
    right &= (back == Use(0.5)) if finite else (text == b'{"share":null}' and "refused" in back and perhaps.share is None)
sys.exit(0 if right else 1)
PYTHON
