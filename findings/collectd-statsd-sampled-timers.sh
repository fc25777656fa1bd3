#!/usr/bin/env bash
# collectd 5.12.0 (Debian 12) with statsd 4.0.1 (PyPI): a request of 20 ms, of which one in ten is sent, took 200 ms.
#
# A statsd client that sends each tenth time only (rate=0.1) says so, "20|ms|@0.1", so that the server counts that
# time as ten. One expects the time itself to stay what it is, as it does in statsd. collectd's plugin divides the
# time by the rate: mean, bounds and percentiles are ten times too long, and the count is that of what was sent, a
# tenth. Of a counter it is right to divide. So the requests that are so many that they are sampled are the slow ones
# in the graph, and a client that lowers its rate makes a disk seem slower. Issue 1935 of collectd, closed, tells of
# it.
set -euo pipefail
directory=$(mktemp -d)
trap 'kill "${server:-}" 2> /dev/null && wait "$server" || true; rm -rf "$directory"' EXIT
cd "$directory"
# holds COMMAND...: it succeeds, or the behaviour has changed.
holds() { "$@" || { echo "other than stated: $*"; exit 1; }; }
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check statsd==4.0.1
apt-get -q -o APT::Sandbox::User=root download collectd-core=5.12.0-14 > /dev/null
dpkg -x collectd-core_*.deb .
port=$(python3 -c "
import socket
one = socket.socket(type=socket.SOCK_DGRAM)
one.bind(('127.0.0.1', 0))
print(one.getsockname()[1])")
cat > collectd.conf << CONF
Hostname "hypervisor"
Interval 4
BaseDir "$PWD"
PIDFile "$PWD/pid"
PluginDir "$PWD/usr/lib/collectd"
TypesDB "$PWD/usr/share/collectd/types.db"
LoadPlugin statsd
<Plugin statsd>
  Host "127.0.0.1"
  Port "$port"
  TimerLower true
  TimerUpper true
  TimerCount true
</Plugin>
LoadPlugin csv
<Plugin csv>
  DataDir "$PWD/values"
  StoreRates false
</Plugin>
CONF
usr/sbin/collectd -f -C collectd.conf 2> log &
server=$!
sleep 1
venv/bin/python - "$port" << 'PYTHON'
import random
import sys
import time

import statsd

random.seed(1)
client = statsd.StatsClient("127.0.0.1", int(sys.argv[1]))
for _ in range(500):
    client.timing("each", 20)
    client.timing("sampled", 20, rate=0.1)
    client.incr("requests", rate=0.1)
    time.sleep(0.002)
PYTHON
sleep 6
# all NAME: its values, one for each interval.
all() { grep -h -v '^epoch' values/hypervisor/statsd/"$1"-20* | cut -d, -f2 | grep -v nan; }
highest() { all "$1" | sort -g | tail -n 1; }
sum() { all "$1" | python3 -c 'import sys; print(sum(map(float, sys.stdin)))'; }
for name in each sampled; do
    for part in average lower upper; do echo "$name, $part: $(highest latency-$name-$part) s"; done
    echo "$name, count: $(sum gauge-$name-count)"
done
echo "counter: $(highest derive-requests)"
# between VALUE LOW HIGH
between() {
    python3 -c "import sys; value, low, high = map(float, sys.argv[1:]); sys.exit(not low <= value <= high)" "$@"
}
for part in average lower upper; do
    holds between "$(highest latency-each-$part)" 0.0199 0.0201
    holds between "$(highest latency-sampled-$part)" 0.199 0.201
done
holds between "$(sum gauge-each-count)" 450 500
holds between "$(sum gauge-sampled-count)" 20 90
holds between "$(highest derive-requests)" 200 900
