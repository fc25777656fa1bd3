"""Who somebody is to Keystone, as `clouds.yaml` says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from . import serviceconf


@dataclass(frozen=True)
class Login:
    auth_type: str
    auth: dict[str, str]

    def cloud(self) -> dict[str, Any]:
        """The entry of this cloud in `clouds.yaml`."""
        return {
            "auth_type": self.auth_type,
            "auth": {"auth_url": serviceconf.AUTH_URL} | self.auth,
            "region_name": serviceconf.REGION,
            "interface": "public",
            "identity_api_version": 3,
        }


def by_password(user: str, project: str, password: str = serviceconf.PASSWORD) -> Login:
    names = {"username": user, "password": password, "project_name": project}
    return Login("password", names | {"user_domain_id": "default", "project_domain_id": "default"})


def by_application_credential(credential: str, secret: str) -> Login:
    return Login(
        "v3applicationcredential",
        {"application_credential_id": credential, "application_credential_secret": secret},
    )


def write_clouds_yaml(path: Path, clouds: dict[str, Login]) -> Path:
    """Readable by its owner only, as it holds passwords."""
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump({"clouds": {name: login.cloud() for name, login in clouds.items()}}))
    return path
