#!/usr/bin/env bash
# openstacksdk 4.22.0: update_type cannot change whether a volume type is public, and Type has no QoS spec.
#
# `update_type(type, is_public=False)` sends the key that Cinder's POST has, os-volume-type-access:is_public. Cinder's
# PUT takes is_public and refuses all other keys (cinder/api/schemas/volume_types.py, update), so the call ends with
# 400. And what `types()` returns has no qos_specs_id, which Cinder sends: to know a type's QoS spec one asks each
# spec for its associations. The service here answers as Cinder's API does; the requests are the SDK's own.
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

TYPE = {"id": "1", "name": "gold", "qos_specs_id": "7", "is_public": True, "os-volume-type-access:is_public": True}
bodies = []


class Cinder(BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, content = 200, {"volume_types": [TYPE]}
        if self.path.rstrip("/") == "/v3":
            links = [{"rel": "self", "href": f"{url}/"}]
            version = {"id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0", "links": links}
            content = {"versions": [version]}
        elif self.command == "PUT":
            bodies.append(json.loads(body)["volume_type"])
            content = {"volume_type": TYPE}
            if bodies[-1].keys() - {"name", "description", "is_public"}:
                status, content = 400, {"badRequest": {"message": "Additional properties are not allowed"}}
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = answer

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Cinder)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}/v3"
cloud = openstack.connection.Connection(
    session=Session(auth=NoAuth(endpoint=url)), block_storage_endpoint_override=url, block_storage_api_version="3"
)
storage = cloud.block_storage
(type,) = storage.types()
print("qos_specs_id", type.to_dict().get("qos_specs_id"))
refused = ""
try:
    storage.update_type("1", is_public=False)
except openstack.exceptions.BadRequestException as error:
    refused = str(error)
print("sent", bodies, "answer", refused)
right = (
    "qos_specs_id" not in type.to_dict()
    and bodies == [{"os-volume-type-access:is_public": False}]
    and "Additional properties" in refused
)
sys.exit(0 if right else 1)
PYTHON
venv/bin/python -W ignore service.py
