#!/usr/bin/env bash
# promtool 2.42 (Debian 12): a unit test of an alert that is in no rule passes, and so does one without its file of
# rules.
#
# One expects a test that names DiskAtLimitt, where the rules have DiskAtLimit, to fail. `exp_alerts: []` asks that no
# alert of that name fires, and none can: SUCCESS. A file of rules that does not exist, not even by a pattern, is a
# WARNING, and the test of what stands in it succeeds with status 0. So after an alert is renamed, what shows that it
# stays silent where it should holds for ever, and shows nothing.
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
      - {alert: DiskAtLimit, expr: "used / limit > 0.9"}
RULES
ask() {
    cat > test.yaml << TEST
rule_files: [$1]
tests:
  - input_series:
      - {series: used, values: "99x9"}
      - {series: limit, values: "100x9"}
    alert_rule_test:
      - {eval_time: 5m, alertname: $2, exp_alerts: []}
TEST
    local status=0
    usr/bin/promtool test rules test.yaml > out 2>&1 || status=$?
    echo "$1, $2: status $status, $(grep -oE 'SUCCESS|FAILED|WARNING: .*' out | tr '\n' ' ')"
}
ask rules.yaml DiskAtLimit | tee right
ask rules.yaml DiskAtLimitt | tee misspelled
ask rulez.yaml DiskAtLimit | tee absent
grep -q "status 1.*FAILED" right
grep -q "status 0.*SUCCESS" misspelled
grep -q "status 0.*WARNING.*SUCCESS\|status 0.*SUCCESS.*WARNING" absent
