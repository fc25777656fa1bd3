#!/usr/bin/env bash
# openstacksdk 4.22.0 with prometheus_client 0.26.0 and statsd 4.0.1: each volume that is asked for has metrics of its
# own in Prometheus, and none in statsd.
#
# openstacksdk counts and times the requests of an application, for statsd and for Prometheus. One expects both to
# count kinds of requests. The name for statsd has no ids (block-storage.GET.volume.200), but the label `endpoint` for
# Prometheus is the whole URL, with the volume's id: 100 volumes, asked for once each, are 2000 series (of a counter
# and a histogram), which stay until the process ends. An agent that looks at volumes so has twenty series for each
# that was ever there, and the rate of a kind of request needs a regular expression over all of them. The service here
# answers as Cinder's API does; the requests are the SDK's own.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openstacksdk==4.22.0 prometheus_client==0.26.0 statsd==4.0.1
cat > service.py << 'PYTHON'
import json
import socket
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer

import prometheus_client
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
statsd = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
statsd.bind(("127.0.0.1", 0))
statsd.settimeout(1)
registry = prometheus_client.CollectorRegistry()
settings = {**get_defaults(), "block_storage_endpoint_override": url, "block_storage_api_version": "3"}
region = CloudRegion(
    name="cloud",
    config=settings,
    session=Session(auth=NoAuth(endpoint=url)),
    prometheus_config={"collector_registry": registry},
    statsd_config={"host": "127.0.0.1", "port": statsd.getsockname()[1]},
)
storage = Connection(config=region).block_storage
names = set()
for _ in range(100):
    storage.get_volume(str(uuid.uuid4()))
    packet = b""
    while b"volume" not in packet:
        packet = statsd.recv(65536)
    names |= {line.split(b":")[0].decode() for line in packet.splitlines()}
series = [sample for family in registry.collect() for sample in family.samples if "/volumes/" in sample.labels["endpoint"]]
endpoints = {sample.labels["endpoint"] for sample in series}
print("statsd:", sorted(names))
print(f"Prometheus: {len(series)} series, {len(endpoints)} endpoints, as {sorted(endpoints)[0]}")
problems = [
    name
    for name, holds in {
        "statsd": len(names) <= 4,
        "endpoints": len(endpoints) == 100,
        "series": len(series) >= 1500,
    }.items()
    if not holds
]
sys.exit(f"other than stated: {problems}" if problems else 0)
PYTHON
venv/bin/python -W ignore service.py
