#!/usr/bin/env bash
# openstacksdk 4.22.0 with prometheus_client 0.26.0: of three answers 503 and one 200 the metrics have the last, in a
# millisecond.
#
# With block_storage_status_code_retries=3 in clouds.yaml a request that is answered 503 is sent again, after 0.5, 1
# and 2 s. openstacksdk counts and times its requests by status; one expects the 503s among them, or the 3.5 s that
# the call took. The retries are made a layer below (keystoneauth), and what is counted is the last answer, with its
# own time. So a Cinder that refuses three of four requests has no errors in these metrics, and latencies of some
# milliseconds while each caller waits for seconds. What statsd is sent comes of the same answer. The service here
# answers as Cinder's API does; the requests are the SDK's own.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openstacksdk==4.22.0 prometheus_client==0.26.0
cat > service.py << 'PYTHON'
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import prometheus_client
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from openstack.config.cloud_region import CloudRegion
from openstack.config.defaults import get_defaults
from openstack.connection import Connection

answered = []


class Cinder(BaseHTTPRequestHandler):
    def do_GET(self):
        status, content = 200, {"volume": {"id": "1"}}
        if self.path.rstrip("/") == "/v3":
            links = [{"rel": "self", "href": f"{url}/"}]
            version = {"id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0", "links": links}
            content = {"versions": [version]}
        else:
            if len(answered) % 4 < 3:
                status, content = 503, {}
            answered.append(status)
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Cinder)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}/v3"
settings = {
    **get_defaults(),
    "block_storage_endpoint_override": url,
    "block_storage_api_version": "3",
    "block_storage_status_code_retries": 3,
}
registry = prometheus_client.CollectorRegistry()
region = CloudRegion(
    name="cloud", config=settings, session=Session(auth=NoAuth(endpoint=url)), collector_registry=registry
)
storage = Connection(config=region).block_storage
began = time.monotonic()
storage.get_volume("1")
took = time.monotonic() - began
samples = [
    (sample.name, sample.labels["status_code"], sample.value)
    for family in registry.collect()
    for sample in family.samples
    if sample.name.endswith(("requests_total", "time_sum", "time_count"))
]
counts = [(status, value) for name, status, value in samples if name.endswith("requests_total")]
seconds = sum(value for name, _, value in samples if name.endswith("time_sum"))
print(f"answered: {answered}, the call took {took:.1f} s")
print(*samples, sep="\n")
problems = [
    name
    for name, holds in {
        "answered": answered == [503, 503, 503, 200],
        "took": took > 3.4,
        "counts": counts == [("200", 1.0)],
        "seconds": 0 < seconds < 1,
    }.items()
    if not holds
]
sys.exit(f"other than stated: {problems}" if problems else 0)
PYTHON
venv/bin/python -W ignore service.py
