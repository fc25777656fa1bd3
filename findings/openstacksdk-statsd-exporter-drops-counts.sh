#!/usr/bin/env bash
# openstacksdk 4.22.0 with statsd 4.0.1 and statsd_exporter 0.31.0: the counter of each answer is dropped, as its timer
# has the same name.
#
# openstacksdk sends for each answer a time and a count, both as openstack.api.block-storage.GET.volume.200. In statsd
# a timer and a counter are two things; one expects both in Prometheus. There a name has one type: the exporter has
# registered a summary when the counter comes, so it drops the counter, with no word in its log below debug, and
# statsd_exporter_events_conflict_total grows by one with each answer. So a rule on
# openstack_api_block_storage_GET_volume_200 finds nothing to count, an alert on conflicts fires for ever, and what is
# left of the counts is ..._200_count of the summary, beside ..._attempted, which is a counter. A mapping that gives
# counters (match_metric_type) a name of their own keeps both. The service here answers as Cinder's API does; the
# requests are the SDK's own. Go builds the exporter.
set -euo pipefail
directory=$(mktemp -d)
trap 'kill "${exporter:-}" 2> /dev/null || true; rm -rf "$directory"' EXIT
cd "$directory"
# holds COMMAND...: it succeeds, or the behaviour has changed.
holds() { "$@" || { echo "other than stated: $*"; exit 1; }; }
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openstacksdk==4.22.0 statsd==4.0.1
GOPATH=$PWD/go GOCACHE=$PWD/cache GOBIN=$PWD GOFLAGS=-modcacherw \
    go install github.com/prometheus/statsd_exporter@v0.31.0 2> go.log || { cat go.log; exit 1; }
cat > mapping.yaml << 'MAPPING'
mappings:
  - match: "openstack.api.*.*.*.*"
    match_metric_type: counter
    name: openstack_requests
    labels: {service: $1, method: $2, kind: $3, answer: $4}
MAPPING
cat > service.py << 'PYTHON'
import json
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer

from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from openstack.config.cloud_region import CloudRegion
from openstack.config.defaults import get_defaults
from openstack.connection import Connection


class Cinder(BaseHTTPRequestHandler):
    def do_GET(self):
        content = {"volume": {"id": self.path.split("/")[-1]}}
        if self.path.rstrip("/") == "/v3":
            links = [{"rel": "self", "href": f"{url}/"}]
            version = {"id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0", "links": links}
            content = {"versions": [version]}
        text = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Cinder)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}/v3"
settings = {**get_defaults(), "block_storage_endpoint_override": url, "block_storage_api_version": "3"}
region = CloudRegion(
    name="cloud",
    config=settings,
    session=Session(auth=NoAuth(endpoint=url)),
    statsd_config={"host": "127.0.0.1", "port": int(sys.argv[1])},
)
storage = Connection(config=region).block_storage
for _ in range(20):
    storage.get_volume(str(uuid.uuid4()))
PYTHON
cat > ports.py << 'PYTHON'
import socket

for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as each:
        each.bind(("127.0.0.1", 0))
        print(each.getsockname()[1])
PYTHON
# served OUT OPTION...: what the exporter serves after 20 requests.
served() {
    local out=$1 statsd web ports
    shift
    mapfile -t ports < <(python3 ports.py)
    statsd=${ports[0]} web=${ports[1]}
    ./statsd_exporter --statsd.listen-udp=127.0.0.1:"$statsd" --statsd.listen-tcp= \
        --web.listen-address=127.0.0.1:"$web" "$@" 2> "$out.log" &
    exporter=$!
    sleep 2
    venv/bin/python -W ignore service.py "$statsd"
    sleep 2
    python3 -c "import urllib.request as r; print(r.urlopen('http://127.0.0.1:$web/metrics').read().decode())" |
        grep -E '^(# TYPE )?openstack|^statsd_exporter_events_(conflict_)?total' | tee "$out"
    kill "$exporter"
}
served plain
echo "in the log: $(grep -c -i 'conflict\|registered' plain.log || true) lines of it; with a mapping:"
served mapped --statsd.mapping-config=mapping.yaml
name=openstack_api_block_storage_GET_volume
holds grep -qx "# TYPE ${name}_200 summary" plain
holds grep -qx "${name}_200_count 20" plain
holds grep -qx "${name}_attempted 20" plain
holds [ "$(grep -c '^# TYPE .* counter' plain)" = 1 ]
holds grep -qx "statsd_exporter_events_conflict_total{metric_name=\"${name}_200\",type=\"counter\"} 20" plain
holds [ "$(grep -c -i 'conflict\|registered' plain.log)" = 0 ]
holds grep -qx 'openstack_requests{answer="200",kind="volume",method="GET",service="block-storage"} 20' mapped
holds grep -qx "${name}_200_count 20" mapped
holds [ "$(grep -c conflict mapped)" = 0 ]
