"""OpenStack's databases: migrated once, kept, and copied to where a cloud begins.

Kept under a name made of what they hold or depend on: the services and their versions, MariaDB's, the ports, and the
modules that say what is written. The cloud's root is not among these, so nothing in them may name a path below it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import keep, mariadb, novaconf, ports, preflight, release, serviceconf, servicesenv
from .command import LabError, run

Say = Callable[[str], None]

SERVICES = Path(__file__).with_name("services")
ACCOUNTS = SERVICES / "accounts.py"
SPACE = 1024**3
# In the catalogue from the beginning; those of Nova's part are shown in it when that comes up.
OF_NOVAS_PART = ("nova", "placement", "glance", "neutron")


def openstacks_cached(cache: Path) -> bool:
    return (cache / _openstacks()).is_dir()


def novas_cached(cache: Path) -> bool:
    try:
        return (cache / _novas()).is_dir()
    except LabError:
        return False  # no MariaDB


def ensure_openstack(cache: Path, say: Say) -> Path:
    """Where Keystone's and Cinder's are, with Keystone's keys; made first if there are none."""
    servicesenv.ensure(cache, say)
    return keep.ensure(
        cache,
        _openstacks(),
        lambda build: _make_openstack(cache, build),
        outdated=lambda: cache.glob(f"{_prefix('openstack')}*"),
        space=SPACE,
        before=lambda: say("openstack: migrating Keystone's and Cinder's databases, once, in about 20 s"),
    )


def ensure_nova(cache: Path, say: Say) -> Path:
    """Where MariaDB's data directory is, with the databases of Nova, Placement and Glance; likewise."""
    preflight.check_these({name: preflight.FOR_NOVA[name] for name in ("mariadb-client-core", "mariadb-server-core")})
    servicesenv.ensure(cache, say, "nova")
    return keep.ensure(
        cache,
        _novas(),
        lambda build: _make_nova(cache, build),
        outdated=lambda: cache.glob(f"{_prefix('nova')}*"),
        space=SPACE,
        before=lambda: say("nova: migrating the databases of Nova, Placement and Glance, once, in about a minute"),
    )


def copy(kept: Path, to: Path) -> None:
    run(["cp", "--archive", "--reflink=auto", f"{kept}/.", to], timeout=120)


def _openstacks() -> str:
    somewhere = Path()
    confs = serviceconf.keystone(somewhere, somewhere), serviceconf.cinder(*[somewhere] * 4)
    written = "".join(confs) + json.dumps(_accounts())
    return _prefix("openstack") + _digest("openstack", written, __file__, ACCOUNTS)


def _novas() -> str:
    written = novaconf.create_databases() + json.dumps(_cells()) + mariadb.version()
    return _prefix("nova") + _digest("nova", written, __file__, mariadb.__file__)


def _prefix(whose: str) -> str:
    # Clouds of other ports and releases have theirs beside it.
    return f"{release.prefix()}databases-{whose}-{ports.OFFSET}-"


def _digest(whose: servicesenv.Of, written: str, *makers: str | Path) -> str:
    text = servicesenv.key(whose) + written + "".join(Path(maker).read_text() for maker in makers)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _make_openstack(cache: Path, build: Path) -> Path:
    out = build / "out"
    for name in ("fernet-keys", "credential-keys"):
        keys = out / name
        keys.mkdir(mode=0o700, parents=True)
        # 0 is the staged one, 1 the primary; `keystone-manage fernet_setup` takes seconds for it.
        for number in ("0", "1"):
            (keys / number).touch(mode=0o600)
            (keys / number).write_text(serviceconf.fernet_key())
    keystone, cinder = build / "keystone.conf", build / "cinder.conf"
    keystone.write_text(serviceconf.keystone(out, build))
    # The whole of it: a migration writes the quotas that are set there.
    cinder.write_text(serviceconf.cinder(out, build, cache / servicesenv.key(), build / "ceph.conf"))
    with ThreadPoolExecutor() as pool:
        of_cinder = pool.submit(servicesenv.manage, cache, "cinder", cinder, "db", "sync")
        servicesenv.manage(cache, "keystone", keystone, "db_sync")
        words = ["--bootstrap-password", serviceconf.PASSWORD, "--bootstrap-region-id", serviceconf.REGION]
        for interface in ("admin", "internal", "public"):
            words += [f"--bootstrap-{interface}-url", serviceconf.AUTH_URL]
        servicesenv.manage(cache, "keystone", keystone, "bootstrap", *words)
        environ = {"OS_KEYSTONE_CONFIG_DIR": str(build)}
        servicesenv.script(cache, ACCOUNTS, environ, stdin=json.dumps(_accounts()))
        of_cinder.result()
    return _without_paths(out, build)


def _accounts() -> dict[str, object]:
    """What accounts.py makes."""
    domain = {"id": "default"}
    admin = {"name": "admin", "domain": domain, "password": serviceconf.PASSWORD}
    return {
        "auth": {
            "identity": {"methods": ["password"], "password": {"user": admin}},
            "scope": {"project": {"name": "admin", "domain": domain}},
        },
        "region": serviceconf.REGION,
        "project": {"name": serviceconf.SERVICE_PROJECT, "domain_id": "default"},
        "user": {"domain_id": "default", "password": serviceconf.PASSWORD},
        "roles": ["admin", "service"],
        "services": [
            {"name": name, "type": kind, "url": url, "enabled": name not in OF_NOVAS_PART}
            for name, (kind, url) in serviceconf.ENDPOINTS.items()
        ],
    }


def _make_nova(cache: Path, build: Path) -> Path:
    with mariadb.making(build, novaconf.create_databases()) as socket:

        def conf(name: str, **databases: str) -> Path:
            sections = {
                section: {"connection": novaconf.database(database, socket)}
                for section, database in databases.items()
            }
            (build / name).write_text(serviceconf.text(sections))
            return build / name

        nova = conf("nova.conf", api_database="nova_api", database="nova")
        cell0 = conf("cell0.conf", api_database="nova_api", database="nova_cell0")
        placement = conf("placement.conf", placement_database="placement")
        glance = conf("glance.conf", database="glance")
        with ThreadPoolExecutor(2) as pool:
            jobs = [
                pool.submit(servicesenv.manage, cache, *words)
                for words in (
                    ("nova", nova, "db", "sync", "--local_cell"),
                    ("nova", cell0, "db", "sync", "--local_cell"),
                    ("nova", nova, "api_db", "sync"),
                    ("placement", placement, "db", "sync"),
                    ("glance", glance, "db_sync"),
                )
            ]
            for job in jobs:
                job.result()
        for words in _cells():
            servicesenv.manage(cache, "nova", nova, "cell_v2", *words)
    out = build / "out"
    out.mkdir()
    (build / "mariadb").rename(out / "mariadb")
    return _without_paths(out, build)


def _without_paths(out: Path, build: Path) -> Path:
    """Raises LabError where something in it is tied to where it was made."""
    for file in out.rglob("*"):
        if file.is_file() and build.name.encode() in file.read_bytes():
            raise LabError(f"{file.relative_to(out)} has the path {build} in it")
    return out


def _cells() -> list[list[str]]:
    """How Nova's services will reach the cells, which is not how they are reached now."""
    cell0 = ["--database_connection", novaconf.database("nova_cell0")]
    cell1 = ["--database_connection", novaconf.database("nova"), "--transport-url", novaconf.transport_url()]
    return [["map_cell0", *cell0], ["create_cell", "--name", "cell1", *cell1]]
