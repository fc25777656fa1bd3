#!/usr/bin/env bash
# promtool 2.42 and node_exporter 1.5.0 (Debian 12): a file that promtool finds nothing wrong with is served in part.
#
# `promtool check metrics` is the judge that writers of textfiles ask. One expects of a series that is there twice, with
# two values, a line and status 3, as for a HELP that is missing. It says nothing and ends with 0; so it does for a
# histogram whose buckets fall (5, then 3) and whose count is none of them. node_exporter drops one of the two values,
# and serves the falling histogram as it is.
set -euo pipefail
directory=$(mktemp -d)
trap 'kill "${exporter:-}" 2> /dev/null || true; rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download prometheus=2.42.0+ds-5+deb12u1 prometheus-node-exporter=1.5.0-1+b6 > /dev/null
for package in *.deb; do dpkg -x "$package" .; done
mkdir textfiles
cat > textfiles/limits.prom << 'METRICS'
# HELP disk_limit The limit in force.
# TYPE disk_limit gauge
disk_limit{disk="vda"} 500
disk_limit{disk="vda"} 250
# HELP wait_seconds How long requests waited.
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.5"} 5
wait_seconds_bucket{le="1"} 3
wait_seconds_bucket{le="+Inf"} 4
wait_seconds_sum 2
wait_seconds_count 9
METRICS
usr/bin/promtool check metrics < textfiles/limits.prom 2>&1 | tee said
usr/bin/prometheus-node-exporter --collector.disable-defaults --collector.textfile \
    --collector.textfile.directory=textfiles --web.listen-address=127.0.0.1:19492 2> log &
exporter=$!
sleep 2
curl -sf http://127.0.0.1:19492/metrics | grep -E '^(disk_limit|wait_seconds)' | tee served
[ ! -s said ]
[ "$(grep -c '^disk_limit' served)" = 1 ]
grep -qx 'wait_seconds_bucket{le="1"} 3' served
grep -qx 'wait_seconds_count 9' served
