#!/usr/bin/env bash
# openstacksdk 4.22.0: after update_qos_spec the object shows the old limits, and what `specs` shows cannot be written.
#
# One reads limits of a QoS spec from `spec.specs`, so one expects to write them there, and to read there what was
# written. But `create_qos_spec(specs={...})` sends one key that is named specs (Cinder takes keys with texts only), the
# limits must be keywords of their own; and after `update_qos_spec(spec, total_iops_sec="600")` the object that is
# returned has both: specs with 500 and an attribute total_iops_sec with 600. A tool that compares `specs` before and
# after sees no change. The service here answers as Cinder's API does; the requests are the SDK's own.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openstacksdk==4.22.0
cat > service.py << 'PYTHON'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import openstack
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

SPEC = {"id": "1", "name": "gold", "consumer": "front-end", "specs": {"total_iops_sec": "500"}}
bodies = []


class Cinder(BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.rstrip("/") == "/v3":
            links = [{"rel": "self", "href": f"{url}/"}]
            version = {"id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0", "links": links}
            content = {"versions": [version]}
        elif self.command == "GET":
            content = {"qos_specs": SPEC}
        else:
            bodies.append(json.loads(body)["qos_specs"])
            content = {"qos_specs": SPEC if self.command == "POST" else bodies[-1]}
        text = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Cinder)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}/v3"
cloud = openstack.connection.Connection(
    session=Session(auth=NoAuth(endpoint=url)), block_storage_endpoint_override=url, block_storage_api_version="3"
)
storage = cloud.block_storage
storage.create_qos_spec(name="gold", consumer="front-end", specs={"total_iops_sec": "500"})
storage.create_qos_spec(name="gold", consumer="front-end", total_iops_sec="500")
spec = storage.update_qos_spec(storage.get_qos_spec("1"), total_iops_sec="600")
for body in bodies:
    print("sent", body)
print("after the update: specs", spec.specs, "total_iops_sec", spec.total_iops_sec)
as_specs, as_keywords, update = bodies
right = (
    as_specs["specs"] == {"total_iops_sec": "500"}
    and "specs" not in as_keywords
    and as_keywords["total_iops_sec"] == "500"
    and update == {"total_iops_sec": "600"}
    and spec.specs == {"total_iops_sec": "500"}
    and spec.total_iops_sec == "600"
)
sys.exit(0 if right else 1)
PYTHON
venv/bin/python -W ignore service.py
