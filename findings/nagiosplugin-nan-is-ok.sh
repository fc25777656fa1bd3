#!/usr/bin/env bash
# nagiosplugin 1.4.0: a metric that is not a number is OK, whatever its thresholds are.
#
# One expects a value that cannot be judged to be UNKNOWN. A range asks whether the value lies below its start or above
# its end, and NaN does neither: a ScalarContext with 60 and 300 says OK with status 0, and prints age=nan as performance
# data, where the plugins' guidelines have U. A check that computes a share of nothing (0 of 0 in numpy, say) is green.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check nagiosplugin==1.4.0
status=0
"$directory/venv/bin/python" - > "$directory/out" << 'PYTHON' || status=$?
import nagiosplugin


class Age(nagiosplugin.Resource):
    def probe(self):
        yield nagiosplugin.Metric("age", float("nan"), "s")


nagiosplugin.Check(Age(), nagiosplugin.ScalarContext("age", "60", "300")).main()
PYTHON
cat "$directory/out"
echo "status $status"
[ $status = 0 ] && grep -q "^AGE OK .*age=nans;60;300" "$directory/out"
