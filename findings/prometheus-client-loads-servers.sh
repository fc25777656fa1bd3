#!/usr/bin/env bash
# prometheus_client 0.26.0: to write a textfile loads an HTTP client, two HTTP servers and TLS.
#
# One expects `from prometheus_client import CollectorRegistry, generate_latest` to load what makes text of metrics. The
# package imports its exposition as a whole: http.server, wsgiref, urllib.request and ssl come with it, some 50 ms of a
# short-lived process, and a process that must have no HTTP client (by a rule of a site, or a test) has one.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check prometheus_client==0.26.0
"$directory/venv/bin/python" - << 'PYTHON'
import sys

before = set(sys.modules)
from prometheus_client import CollectorRegistry, Gauge, generate_latest

registry = CollectorRegistry()
Gauge("limit", "A limit", registry=registry).set(500)
print(generate_latest(registry).decode().splitlines()[-1])
found = {"http.server", "wsgiref.simple_server", "urllib.request", "ssl"} & (set(sys.modules) - before)
print("loaded:", ", ".join(sorted(found)))
sys.exit(0 if len(found) == 4 else 1)
PYTHON
