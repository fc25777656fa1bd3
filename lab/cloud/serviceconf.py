"""The configuration of OpenStack's services."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path

from . import ports
from .libvirtd import SECRET

REGION = "RegionOne"
PASSWORD = "secret"
AUTH_URL = f"http://127.0.0.1:{ports.KEYSTONE}/v3"
# The project of the services' own users.
SERVICE_PROJECT = "service"
# The types are those of OpenStack's service types authority; `block-storage` is also what an access rule of an
# application credential has to name, as it is Cinder's `service_type`.
ENDPOINTS = {
    "cinder": ("block-storage", f"http://127.0.0.1:{ports.CINDER}/v3"),
    "nova": ("compute", f"http://127.0.0.1:{ports.NOVA}/v2.1"),
    "placement": ("placement", f"http://127.0.0.1:{ports.PLACEMENT}"),
    "glance": ("image", f"http://127.0.0.1:{ports.GLANCE}"),
    "neutron": ("network", f"http://127.0.0.1:{ports.NEUTRON}"),
}

Sections = Mapping[str, Mapping[str, object]]


def text(sections: Sections) -> str:
    """As oslo.config reads it."""
    lines = []
    for section, options in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {_value(value)}" for name, value in options.items()]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def service_user(name: str) -> dict[str, object]:
    """How a service signs in to Keystone."""
    return {
        "auth_url": AUTH_URL,
        "auth_type": "password",
        "username": name,
        "password": PASSWORD,
        "project_name": SERVICE_PROJECT,
        "user_domain_id": "default",
        "project_domain_id": "default",
        "region_name": REGION,
    }


def authtoken(name: str) -> dict[str, object]:
    """How a service judges the tokens that it is given."""
    return service_user(name) | {
        "www_authenticate_uri": AUTH_URL,
        "service_type": ENDPOINTS[name][0],
        "service_token_roles": "service",
        "service_token_roles_required": True,
    }


def privileged_helper(environment: Path, conf: Path) -> dict[str, object]:
    """How a service runs what needs root: the same user here, without sudo."""
    helper = f"{environment}/bin/python {environment}/bin/privsep-helper"
    return {"helper_command": f"{helper} --config-file {conf}"}


def fernet_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def keystone(home: Path, logs: Path) -> str:
    return text(
        {
            "DEFAULT": {"log_file": logs / "keystone.log", "use_stderr": False},
            "database": {"connection": f"sqlite:///{home}/keystone.db", "sqlite_synchronous": False},
            # Made to be slow: a quarter of a second for each sign-in.
            "identity": {"password_hash_rounds": 4},
            "token": {"expiration": 86400},
            "fernet_tokens": {"key_repository": home / "fernet-keys"},
            "fernet_receipts": {"key_repository": home / "fernet-keys"},
            "credential": {"key_repository": home / "credential-keys"},
            # Without it a request takes 0.25 s.
            "cache": {"enabled": True, "backend": "oslo_cache.dict"},
        }
    )


def cinder(home: Path, logs: Path, environment: Path, ceph_conf: Path) -> str:
    """``environment`` is where the services' Python environment is seen in the namespace."""
    privileged = privileged_helper(environment, home / "cinder.conf")
    return text(
        {
            "DEFAULT": {
                "state_path": home / "state",
                "log_file": logs / "cinder.log",
                "use_stderr": False,
                "api_paste_config": environment / "etc/cinder/api-paste.ini",
                "resource_query_filters_file": environment / "etc/cinder/resource_filters.json",
                "rootwrap_config": environment / "etc/cinder/rootwrap.conf",
                "auth_strategy": "keystone",
                "transport_url": "fake://",
                "host": "lab",
                "osapi_volume_listen": "127.0.0.1",
                "osapi_volume_listen_port": ports.CINDER,
                "osapi_volume_workers": 1,
                "enabled_backends": "rbd",
                "report_interval": 5,
                "periodic_interval": 10,
                "periodic_fuzzy_delay": 0,
                "quota_volumes": -1,
                "quota_gigabytes": -1,
                "quota_snapshots": -1,
                "glance_api_servers": ENDPOINTS["glance"][1],
            },
            "database": {"connection": f"sqlite:///{home}/cinder.db", "sqlite_synchronous": False},
            "oslo_concurrency": {"lock_path": home / "state/locks"},
            # As Cinder is up to 2026.1: every role may do more.
            "oslo_policy": {"policy_file": home / "policy.yaml", "enforce_new_defaults": False},
            "coordination": {"backend_url": f"file://{home}/state/coordination"},
            "cinder_sys_admin": privileged,
            "privsep_osbrick": privileged,
            "rbd": {
                "volume_driver": "cinder.volume.drivers.rbd.RBDDriver",
                "volume_backend_name": "rbd",
                "rbd_pool": "volumes",
                "rbd_ceph_conf": ceph_conf,
                "rbd_user": "cinder",
                "rbd_secret_uuid": SECRET,
                # Else the size of every image in the pool is asked for, again and again.
                "rbd_exclusive_cinder_pool": True,
                # The cluster is small, and hardly anything is written to a volume.
                "max_over_subscription_ratio": 1000,
            },
            "nova": service_user("cinder"),
            "service_user": {"send_service_user_token": True} | service_user("cinder"),
            "keystone_authtoken": authtoken("cinder"),
        }
    )
