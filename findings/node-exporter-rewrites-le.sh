#!/usr/bin/env bash
# prometheus_client 0.26.0 through node_exporter 1.5.0 (Debian 12): the bucket le="1.0" of a textfile is served as
# le="1".
#
# One expects a textfile to be served as it was written. node_exporter reads the bound of a bucket as a number and
# writes it as Go does: 1.0 is 1, 100000.0 is 100000. The same program, scraped by HTTP, has le="1.0". So of one metric
# that comes both ways, `sum by (le)` has two series for each whole bound, and a query with le="1.0" that was tried on
# the one finds nothing on the other. 0.005, 1e+06 and +Inf are alike in both.
set -euo pipefail
directory=$(mktemp -d)
trap 'kill "${exporter:-}" 2> /dev/null || true; rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download prometheus-node-exporter=1.5.0-1+b6 > /dev/null
dpkg -x prometheus-node-exporter_*.deb .
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install prometheus_client==0.26.0
mkdir textfiles
venv/bin/python - << 'PYTHON'
from prometheus_client import CollectorRegistry, Histogram, write_to_textfile

registry = CollectorRegistry()
Histogram("wait_seconds", "Wait", buckets=(0.005, 1, 100000, 1e6), registry=registry).observe(0.5)
write_to_textfile("textfiles/wait.prom", registry)
PYTHON
usr/bin/prometheus-node-exporter --collector.disable-defaults --collector.textfile \
    --collector.textfile.directory=textfiles --web.listen-address=127.0.0.1:19493 2> log &
exporter=$!
sleep 2
bounds() { grep -oE '^wait_seconds_bucket.*le="[^"]*' | sed 's/.*"//' | tr '\n' ' '; }
written=$(bounds < textfiles/wait.prom)
served=$(curl -sf http://127.0.0.1:19493/metrics | bounds)
echo "written: $written"
echo "served:  $served"
[ "$written" = "0.005 1.0 100000.0 1e+06 +Inf " ]
[ "$served" = "0.005 1 100000 1e+06 +Inf " ]
