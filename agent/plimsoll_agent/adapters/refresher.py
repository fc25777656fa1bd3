"""Runs ``plimsoll catalogue refresh`` as another process: a pass has no HTTP client and no keys."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path

from plimsoll_agent.adapters import program
from plimsoll_agent.adapters.program import ProgramUser
from plimsoll_agent.config.options import OPTIONS
from plimsoll_agent.errors import ConfigError, Rejected

# Seconds beyond its own deadline, to start the interpreter and to print an error.
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
    # CA certificates of requests and of Python.
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
}


def refresh(options: Sequence[str], directory: Path, deadline: float) -> str:
    """Run it to its end, as the owner of the catalogue's directory; returns what it printed.

    ``options`` come before the command; ``deadline`` is its own, in seconds. Raises ``PlimsollError`` when the
    catalogue was not refreshed.
    """
    argv = [sys.executable, "-I", "-m", "plimsoll_agent.terminal.main", *options, "catalogue", "refresh", "--now"]
    account = _owner(directory)
    result = program.run(
        "plimsoll catalogue refresh",
        argv,
        deadline + _GRACE,
        environment=_environment(account),
        account=account,
        directory="/",
    )
    if result.status != 0:
        raise Rejected(result.last_complaint)
    return result.out.decode("utf-8", "replace").strip()


def _owner(directory: Path) -> ProgramUser | None:
    """The refresher's user, with the groups that may read the attachments file; None to stay the user of the pass."""
    if os.geteuid() != 0:
        return None
    try:
        owner = directory.stat()
        user = pwd.getpwuid(owner.st_uid)
    except OSError as error:
        raise ConfigError(
            f"{directory}: {error.strerror}; create it, owned by the user that plimsoll catalogue refresh runs as"
        ) from error
    except KeyError as error:
        raise ConfigError(f"{directory}: its owner, uid {owner.st_uid}, has no account here; chown it") from error
    if owner.st_uid == 0:
        return None
    return ProgramUser(user.pw_uid, user.pw_gid, tuple(os.getgrouplist(user.pw_name, user.pw_gid)))


def _environment(account: ProgramUser | None) -> dict[str, str]:
    """The variables that the refresher uses, and no others: they may hold secrets that its user must not read.

    ``HOME`` is that of its user, since clouds.yaml may be there.
    """
    ours = {f"OS_{group}__{option.dest}".upper() for group, options in OPTIONS.items() for option in options}
    variables = {
        name: value for name, value in os.environ.items() if name in _PASSED | ours or name.startswith("LC_")
    }
    if clouds := variables.get("OS_CLIENT_CONFIG_FILE"):
        variables["OS_CLIENT_CONFIG_FILE"] = str(Path(clouds).absolute())
    home = {} if account is None else {"HOME": pwd.getpwuid(account.user).pw_dir}
    return variables | home
