#!/usr/bin/env bash
# keystoneauth1 5.18.1, through openstacksdk 4.22.0: with connect_retries=3 one create_volume that is answered late
# makes four volumes.
#
# One expects connect_retries (retries "for connection errors") to repeat what did not reach the server. An answer that
# does not come within the session's timeout (api_timeout of clouds.yaml) counts too: it is raised as ConnectTimeout,
# which is retried, and so is a POST. Cinder has made a volume each time, and the caller gets ConnectTimeout and no id.
# Of a QoS spec, whose name Cinder takes once, the caller is told that it exists already (409), though the call made it.
# And the call takes four timeouts and the pauses (0.5, 1 and 2 s), not one. The service here answers as Cinder's API
# does, after two seconds; the requests are the SDK's own.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openstacksdk==4.22.0 keystoneauth1==5.18.1
cat > service.py << 'PYTHON'
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from keystoneauth1.exceptions import ConnectTimeout
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from openstack.config.cloud_region import CloudRegion
from openstack.config.defaults import get_defaults
from openstack.connection import Connection
from openstack.exceptions import ConflictException

made = []


class Cinder(BaseHTTPRequestHandler):
    def do_GET(self):
        links = [{"rel": "self", "href": f"{url}/"}]
        version = {"id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0", "links": links}
        self.answer({"versions": [version]})

    def do_POST(self):
        (kind, content) = json.loads(self.rfile.read(int(self.headers["Content-Length"]))).popitem()
        if kind == "qos_specs" and made:
            reason = f"QoS Specs {content['name']} already exists."
            self.answer({"conflictingRequest": {"code": 409, "message": reason}}, 409)
            return
        made.append((kind, content["name"]))
        time.sleep(2)
        self.answer({kind: {"id": str(len(made)), **content}})

    def answer(self, content, status=200):
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Service(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


def made_by(retries, call):
    settings = {**get_defaults(), "block_storage_endpoint_override": url, "block_storage_api_version": "3"}
    settings["block_storage_connect_retries"] = retries
    session = Session(auth=NoAuth(endpoint=url), timeout=1)
    made.clear()
    start = time.monotonic()
    try:
        call(Connection(config=CloudRegion(name="cloud", config=settings, session=session)).block_storage)
        told = "no error"
    except (ConnectTimeout, ConflictException) as error:
        told = type(error).__name__
    print(f"connect_retries {retries}: {made}, {told} after {time.monotonic() - start:.1f} s")
    return len(made), told


server = Service(("127.0.0.1", 0), Cinder)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}/v3"
problems = [
    name
    for name, holds in {
        "volume": made_by(3, lambda storage: storage.create_volume(name="disk", size=1)) == (4, "ConnectTimeout"),
        "QoS spec": made_by(3, lambda storage: storage.create_qos_spec(name="gold")) == (1, "ConflictException"),
        "no retries": made_by(0, lambda storage: storage.create_volume(name="disk", size=1)) == (1, "ConnectTimeout"),
    }.items()
    if not holds
]
sys.exit(f"other than stated: {problems}" if problems else 0)
PYTHON
venv/bin/python -W ignore service.py
