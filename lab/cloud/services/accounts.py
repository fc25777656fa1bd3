"""`accounts.py`: the services' users, and Keystone's catalogue, before anything is served.

The configuration is that of ``OS_KEYSTONE_CONFIG_DIR``; standard input says what is to be there, as JSON (see
databases.py). Keystone's own application is asked, in this process, so that it takes no port.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def main() -> None:
    desired = json.load(sys.stdin)
    sys.argv = sys.argv[:1]  # Keystone reads it, too
    test: Any = importlib.import_module("werkzeug.test")
    client = test.Client(importlib.import_module("keystone.wsgi.api").application)

    def ask(method: str, path: str, body: object = None) -> Any:
        answer = client.open(f"/v3{path}", method=method, json=body, headers={"X-Auth-Token": token})
        if answer.status_code >= 400:
            sys.exit(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer

    token = ""
    token = ask("POST", "/auth/tokens", {"auth": desired["auth"]}).headers["X-Subject-Token"]
    roles = {role["name"]: role["id"] for role in ask("GET", "/roles").json["roles"]}
    project = ask("POST", "/projects", {"project": desired["project"]}).json["project"]["id"]
    for service in desired["services"]:
        user = desired["user"] | {"name": service["name"], "default_project_id": project}
        user_id = ask("POST", "/users", {"user": user}).json["user"]["id"]
        for role in desired["roles"]:
            ask("PUT", f"/projects/{project}/users/{user_id}/roles/{roles[role]}")
        url = service.pop("url")
        made = ask("POST", "/services", {"service": service}).json["service"]
        for interface in ("public", "internal"):
            endpoint = {"service_id": made["id"], "interface": interface, "url": url, "region_id": desired["region"]}
            ask("POST", "/endpoints", {"endpoint": endpoint})


if __name__ == "__main__":
    main()
