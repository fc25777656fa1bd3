"""``plimsoll catalogue refresh`` as another process: a pass itself has no HTTP client, and no keys."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path

from plimsoll_agent.adapters import program
from plimsoll_agent.adapters.program import Account
from plimsoll_agent.config import OPTIONS
from plimsoll_agent.errors import ConfigError, Rejected

# Beyond its own deadline: for the start of an interpreter, and to say what went wrong.
_GRACE = 10.0
_PROXIES = ("http_proxy", "https_proxy", "no_proxy")
_PASSED = {
    "HOME",
    "LANG",
    "OS_CLIENT_CONFIG_FILE",
    "PATH",
    "TZ",
    *_PROXIES,
    *map(str.upper, _PROXIES),
    # Where requests, and Python itself, have their CA certificates from.
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
}


def refresh(options: Sequence[str], directory: Path, deadline: float) -> str:
    """Run it to its end, as the user whom the catalogue's directory belongs to; returns what it said.

    ``options`` stand before the command; ``deadline`` is its own, in seconds. Raises ``PlimsollError`` when the
    catalogue is not what the control plane says now.
    """
    argv = [sys.executable, "-I", "-m", "plimsoll_agent.cli.app", *options, "catalogue", "refresh", "--now"]
    account = _owner(directory)
    ended = program.run(
        "plimsoll catalogue refresh",
        argv,
        deadline + _GRACE,
        environment=_environment(account),
        account=account,
        directory="/",
    )
    if ended.status != 0:
        raise Rejected(ended.last_complaint)
    return ended.out.decode("utf-8", "replace").strip()


def _owner(directory: Path) -> Account | None:
    """Whom root stands aside for: the refresher's user, with the groups that let it read what a pass met."""
    if os.geteuid() != 0:
        return None
    try:
        owner = directory.stat()
        user = pwd.getpwuid(owner.st_uid)
    except OSError as error:
        raise ConfigError(
            f"{directory}: {error.strerror}; make it, owned by the user that plimsoll catalogue refresh runs as"
        ) from error
    except KeyError as error:
        raise ConfigError(f"{directory}: belongs to nobody who has a name here") from error
    if owner.st_uid == 0:
        return None
    return Account(user.pw_uid, user.pw_gid, tuple(os.getgrouplist(user.pw_name, user.pw_gid)))


def _environment(account: Account | None) -> dict[str, str]:
    """What a refresher goes by, and none of the secrets that may be beside it: another user could read them.

    The home is that of who runs it, since clouds.yaml may be there.
    """
    ours = {f"OS_{group}__{option.dest}".upper() for group, options in OPTIONS.items() for option in options}
    passed = {name: value for name, value in os.environ.items() if name in _PASSED | ours or name.startswith("LC_")}
    if clouds := passed.get("OS_CLIENT_CONFIG_FILE"):
        passed["OS_CLIENT_CONFIG_FILE"] = str(Path(clouds).absolute())
    home = {} if account is None else {"HOME": pwd.getpwuid(account.user).pw_dir}
    return passed | home
