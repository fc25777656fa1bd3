"""Reads a cloud user's credentials from clouds.yaml or from plimsoll's own file. No error repeats a secret."""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from keystoneauth1 import exceptions, loading
from oslo_config import cfg

from plimsoll_agent.adapters.network import plain_url
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

# These libraries log addresses and files unchanged, passwords in them included.
for _name in ("keystoneauth", "openstack", "stevedore"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False

_GROUP = "openstack"
_OWN = (cfg.StrOpt("region_name"), cfg.StrOpt("interface", default="public"))


@frozen(kw_only=True)
class Login:
    """Credentials as keystoneauth's plugin, how TLS is checked, and where services are."""

    auth: Any
    verify: bool | str | None
    cert: Any
    name: str
    interface: Callable[[str], Any]
    region: Callable[[str], str | None]
    override: Callable[[str], str | None]


def login(cloud: str, credentials_file: Path) -> Login:
    """The login for ``cloud`` in clouds.yaml; without a cloud, that of the file. Raises ``ConfigError``."""
    return _from_clouds_yaml(cloud) if cloud else _from_file(credentials_file)


def _from_clouds_yaml(name: str) -> Login:
    # Imported here: openstacksdk takes a quarter of a second, and the credentials file does not need it.
    import openstack.config
    import openstack.exceptions

    path = _clouds_yaml()
    _check_cloud(path, name)
    secure = path.with_name("secure.yaml")
    if files.exists(secure):
        _mapping(secure)
    # openstacksdk by itself would look in the current directory first, which another user may own.
    try:
        config = openstack.config.OpenStackConfig(
            config_files=[str(path)],
            secure_files=[str(secure)],
            vendor_files=[],
            load_envvars=False,
            app_name="plimsoll",
        )
        cloud = config.get_one(cloud=name)
        if str(cloud.config["auth_type"]).endswith("password") and not cloud.config["auth"].get("password"):
            raise ConfigError(f"{path}: cloud {name!r}: auth has no password")
        session = cloud.get_session()
    except (openstack.exceptions.SDKException, exceptions.ClientException) as error:
        raise ConfigError(f"{path}: cloud {name!r}: {_first_line(error)}") from error
    except (ValueError, KeyError, TypeError, AttributeError):  # without its text, which may hold the password
        raise ConfigError(
            f"{path}: cloud {name!r}: openstacksdk cannot read it; check the types of its keys"
        ) from None
    return Login(
        auth=session.auth,
        verify=session.verify,
        cert=session.cert,
        name=name,
        interface=cloud.get_interface,
        region=cloud.get_region_name,
        override=cloud.get_endpoint,
    )


def _clouds_yaml() -> Path:
    path = os.environ.get("OS_CLIENT_CONFIG_FILE")
    if path:
        return Path(path)
    places = (os.path.expanduser("~/.config/openstack/clouds.yaml"), "/etc/openstack/clouds.yaml")  # noqa: PTH111  # there may be no home
    try:
        file = next((place for place in places if files.exists(Path(place))), None)
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {files.reason(error)}") from error
    if file is None:
        raise ConfigError(
            f"no clouds.yaml: neither {places[0]} nor {places[1]} exists; OS_CLIENT_CONFIG_FILE can name another"
        )
    return Path(file)


def _check_cloud(path: Path, name: str) -> None:
    """Raises ``ConfigError`` for what openstacksdk would answer with a Python error."""
    clouds = _mapping(path).get("clouds")
    if not isinstance(clouds, dict):
        raise ConfigError(f"{path}: clouds must be a mapping from names to clouds")
    if name not in clouds:
        raise ConfigError(f"{path}: no cloud {name!r}")
    cloud = clouds[name]
    if not isinstance(cloud, dict) or not isinstance(cloud.get("auth", {}), dict):
        what = "auth must be a mapping" if isinstance(cloud, dict) else "must be a mapping"
        raise ConfigError(f"{path}: cloud {name!r}: {what}; auth_url, username and so on go below its auth")


def _mapping(path: Path) -> dict[str, Any]:
    _check_private(path)
    try:
        content = yaml.safe_load(path.read_bytes())
    except (ValueError, RecursionError, yaml.YAMLError):
        raise ConfigError(f"{path}: is not YAML") from None  # without the line, which may hold the password
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must be a mapping with the key clouds")
    return content


def _from_file(path: Path) -> Login:
    _check_private(path)
    conf = cfg.ConfigOpts()
    try:
        conf(args=[], project="plimsoll", default_config_files=[str(path)], default_config_dirs=[])
        loading.register_auth_conf_options(conf, _GROUP)
        loading.register_session_conf_options(conf, _GROUP)
        conf.register_opts(_OWN, _GROUP)
        auth_type = conf[_GROUP].auth_type
        if not auth_type:
            raise ConfigError(f"{path}: [{_GROUP}] has no auth_type; write password or v3applicationcredential")
        _check_keys(path, auth_type)
        auth = loading.load_auth_from_conf_options(conf, _GROUP)
        if auth_type.endswith("password") and not conf[_GROUP].password:
            raise ConfigError(f"{path}: [{_GROUP}] has no password")
        session = loading.load_session_from_conf_options(conf, _GROUP, auth=auth)
        url = plain_url(conf[_GROUP].auth_url or "")
        interface, region = conf[_GROUP].interface, conf[_GROUP].region_name
    except cfg.ConfigFileParseError as error:
        line = re.search(r":(\d+), ", str(error))  # not the line itself, which may hold the password
        raise ConfigError(f"{path}{f':{line.group(1)}' if line else ''}: is not KEY = VALUE") from None
    except (cfg.NoSuchOptError, cfg.TemplateSubstitutionError):  # not its text, which has a part of a password
        raise ConfigError(f"{path}: [{_GROUP}]: a $ refers to no setting; write a plain $ as $$") from None
    except (cfg.Error, ValueError, AttributeError, exceptions.ClientException) as error:
        raise ConfigError(f"{path}: [{_GROUP}]: {_first_line(error)}") from error
    return Login(
        auth=auth,
        verify=session.verify,
        cert=session.cert,
        name=url,
        interface=lambda _: interface,
        region=lambda _: region,
        override=lambda _: None,
    )


def _check_keys(path: Path, auth_type: str) -> None:
    """Raises ``ConfigError`` for an unknown key, which oslo.config would ignore."""
    sections: dict[str, dict[str, Any]] = {}
    cfg.ConfigParser(str(path), sections).parse()
    options = [
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options(auth_type),
        *loading.get_session_conf_options(),
        *_OWN,
    ]
    names = {name for one in options for name in (one.name, one.dest, *(old.name for old in one.deprecated_opts))}
    names |= {name.replace("-", "_") for name in names if name}
    if unknown := sorted(sections.get(_GROUP, {}).keys() - names):
        raise ConfigError(
            f"{path}: [{_GROUP}]: unknown with auth_type {printable(auth_type)}:"
            f" {printable(', '.join(unknown)[:200])} (misspelt?)"
        )


def _check_private(path: Path) -> None:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # before it is opened: opening a pipe waits for its writer
            raise ConfigError(f"{path}: is not a regular file")
        files.read_whole(path, 0, follow=True)
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path}: no such file; write the credentials there, or name a cloud of clouds.yaml: [catalogue] cloud in"
            " the settings, or with plimsoll qos --cloud NAME or OS_CLOUD"
        ) from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if mode & 0o007:
        raise ConfigError(f"{path}: every user may read or change it; run chmod 640 {path}")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return printable(lines[0][:300]) if lines else type(error).__name__
