#!/usr/bin/env bash
# openstacksdk 4.22.0: volumes(details=False, volume_type="gold") is empty, and volumes(volume_typ="gold") has all.
#
# Cinder cannot filter by everything: the SDK sends what it knows as a query, and compares the rest itself. One expects
# the same volumes in the short list (details=False), and an error of a name that a volume does not have. The short list
# has ids and names, the type that is compared is None, and the answer is empty. A name that is no attribute is left
# out, and the answer is every volume. Neither has a warning. So a tool that sets the limits of a type finds nothing to
# do, or sets them on all disks. The comparison is by type too: size="20" finds nothing where size=20 does. And the
# volume type is in no query: all volumes are read to find those of one type. The service here answers as Cinder's API
# does; the requests are the SDK's own.
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

from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from openstack.config.cloud_region import CloudRegion
from openstack.config.defaults import get_defaults
from openstack.connection import Connection

VOLUMES = [
    {"id": str(number), "name": f"disk-{number}", "size": 10 * number, "volume_type": ("iron", "gold")[number % 2]}
    for number in range(1, 7)
]
asked = []


class Cinder(BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        content = {"volumes": VOLUMES}
        if self.path.rstrip("/") == "/v3":
            links = [{"rel": "self", "href": f"{url}/"}]
            version = {"id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0", "links": links}
            content = {"versions": [version]}
        elif "/detail" not in self.path:
            content = {"volumes": [{"id": each["id"], "name": each["name"], "links": []} for each in VOLUMES]}
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
region = CloudRegion(name="cloud", config=settings, session=Session(auth=NoAuth(endpoint=url)))
storage = Connection(config=region).block_storage


def found(**conditions):
    ids = "".join(each.id for each in storage.volumes(**conditions))
    print(f"{conditions}: {ids or 'none'}, asked {asked[-1]}")
    return ids, asked[-1]


problems = [
    name
    for name, holds in {
        "brief": found(details=False) == ("123456", "/v3/volumes"),
        "type, brief": found(details=False, volume_type="gold") == ("", "/v3/volumes"),
        "type": found(volume_type="gold") == ("135", "/v3/volumes/detail"),
        "misspelled": found(volume_typ="gold") == ("123456", "/v3/volumes/detail"),
        "size": found(size=20) == ("2", "/v3/volumes/detail"),
        "size as text": found(size="20") == ("", "/v3/volumes/detail"),
    }.items()
    if not holds
]
sys.exit(f"other than stated: {problems}" if problems else 0)
PYTHON
venv/bin/python service.py
