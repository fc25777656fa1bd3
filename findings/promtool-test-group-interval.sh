#!/usr/bin/env bash
# promtool and Prometheus 2.42 (Debian 12): a unit test evaluates each group at the test's interval, not at the group's.
#
# One expects `promtool test rules` to follow the `interval` that a group has, as the server does. It evaluates all of
# them at evaluation_interval: a group with `interval: 4s` has nine results in the last 8 s of a test, and two or three
# on a server. So an alert with `for:` shorter than its group's interval fires in the test minutes before it can on a
# server, and `count_over_time` or `changes` over a recorded series, right in the test, is a fraction of that in
# operation.
set -euo pipefail
directory=$(mktemp -d)
trap 'kill "${server:-}" 2> /dev/null && wait "$server" || true; rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download prometheus=2.42.0+ds-5+deb12u1 > /dev/null
dpkg -x prometheus_*.deb .
cat > rules.yaml << 'RULES'
groups:
  - name: costly
    interval: 4s
    rules:
      - {record: "result", expr: "vector(1)"}
RULES
cat > test.yaml << 'TEST'
rule_files: [rules.yaml]
evaluation_interval: 1s
tests:
  - interval: 1s
    promql_expr_test:
      - {expr: "count_over_time(result[8s])", eval_time: 20s, exp_samples: [{labels: "{}", value: 9}]}
TEST
usr/bin/promtool test rules test.yaml
printf 'global: {evaluation_interval: 1s}\nrule_files: [rules.yaml]\n' > prometheus.yml
usr/bin/prometheus --config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address=127.0.0.1:19491 2> log &
server=$!
sleep 16
count=$(curl -sf --data-urlencode 'query=count_over_time(result[8s])' http://127.0.0.1:19491/api/v1/query |
    grep -oE '"[0-9]+"\]' | tr -dc 0-9)
echo "results in 8 s: 9 in promtool's test, $count on the server"
[ "$count" -ge 2 ] && [ "$count" -le 3 ]
