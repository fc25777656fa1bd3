"""Connects to the cloud; imports its adapter only for commands that need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plimsoll_agent.config.settings import CatalogueSettings
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.util.distribution import needs

if TYPE_CHECKING:
    from plimsoll_agent.adapters.openstack import OpenStack


def connected(settings: CatalogueSettings, *, deadline: float, total: float | None = None) -> OpenStack:
    """The cloud with the credentials of [catalogue]; no call is made yet.

    A call may take ``deadline`` seconds, all together ``total``. Raises ``ConfigError``.
    """
    try:
        from plimsoll_agent.adapters.openstack import connect
    except ImportError as error:
        raise ConfigError(f"{error.name or 'openstacksdk'} is missing: {needs('openstack')}") from error
    return connect(settings.cloud, settings.credentials_file, deadline=deadline, total=total)
