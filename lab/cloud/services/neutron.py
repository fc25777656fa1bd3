"""`neutron.py PORT ACCESS_LOG`: enough of Neutron's API for guests without networks: there is nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import accesslog
import waitress


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    path = environ["PATH_INFO"].rstrip("/")
    last = path.rpartition("/")[2].removesuffix(".json")
    answer: dict[str, Any]
    if not path:
        address = f"http://{environ['HTTP_HOST']}/v2.0/"
        links = [{"rel": "self", "href": address}]
        answer = {"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]}
    elif last == "v2.0":
        answer = {"resources": []}
    elif "quotas" in path:
        answer = {"quota": {}}
    else:
        answer = {last.replace("-", "_"): []}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


if __name__ == "__main__":
    waitress.serve(accesslog.logged(application, "neutron", sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]))
