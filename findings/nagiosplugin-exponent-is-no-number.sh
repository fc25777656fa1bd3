#!/usr/bin/env bash
# nagiosplugin 1.4.0: a small or large value is written with an exponent, which performance data do not have.
#
# The guidelines for plugins allow digits, minus and a point in performance data ([-0-9.]), and what reads them does so
# by such a pattern. One expects a latency of 38 microseconds in seconds as 0.000038. It is written as 3.8e-05, and a
# rate of 10^16 as 1e+16: a reader by the guidelines' pattern takes 3.8 with the unit "e-05s", or nothing. Here the
# reader is that pattern; a bound of a threshold is written in the same way.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check nagiosplugin==1.4.0
cat > check.py << 'PYTHON'
import sys

import nagiosplugin


class Latency(nagiosplugin.Resource):
    def probe(self):
        yield nagiosplugin.Metric("latency", float(sys.argv[1]), "s", context="latency")


nagiosplugin.Check(Latency(), nagiosplugin.ScalarContext("latency", "0.00005", "0.5")).main()
PYTHON
for latency in 0.038 0.000038; do
    said=$(venv/bin/python check.py $latency || true)
    data=${said#*|}
    echo "$latency: $data; by the pattern: $(sed -nE 's/^ ?latency=(-?[0-9.]+)([^;]*).*/number \1 unit \2/p' <<< "$data")"
    echo "$data" > "$latency"
done
grep -q "latency=0.038s;5e-05;0.5" 0.038
grep -q "latency=3.8e-05s" 0.000038
