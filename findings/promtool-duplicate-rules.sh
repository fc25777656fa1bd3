#!/usr/bin/env bash
# promtool 2.42 (Debian 12): `check rules` prints FAILED for duplicate recording rules, and its exit status is 0.
#
# One expects the status that a pipeline asks for to follow the word on the screen. It does with --lint-fatal only, and
# is 3 then; a rule that cannot be parsed is 1. So a gate of `promtool check rules FILE && deploy` lets two rules pass
# that record one series with two values.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download prometheus=2.42.0+ds-5+deb12u1 > /dev/null
dpkg -x prometheus_*.deb .
cat > rules.yaml << 'RULES'
groups:
  - name: limits
    rules:
      - {record: "pool:limit:sum", expr: "vector(1)"}
      - {record: "pool:limit:sum", expr: "vector(2)"}
RULES
status=0
usr/bin/promtool check rules rules.yaml > out 2>&1 || status=$?
fatal=0
usr/bin/promtool check rules --lint-fatal rules.yaml > /dev/null 2>&1 || fatal=$?
tr '\n' ' ' < out
echo "status $status, with --lint-fatal $fatal"
grep -q FAILED out && grep -q "1 duplicate rule" out && [ $status = 0 ] && [ $fatal = 3 ]
