"""`cinder_in_one.py ACCESS_LOG --config-file FILE`: Cinder's API, scheduler and volume service in one process.

So that the messages between them need no broker: ``transport_url = fake://`` reaches no further than a process.
Composed of what Cinder's own ``cinder.cmd`` modules do.
"""

# ruff: noqa: E402

from __future__ import annotations

from cinder import monkey_patch

# Before anything else is imported: it replaces the standard library's sockets and threads.
monkey_patch.patch()

import shlex
import sys
from typing import Any

import accesslog
import os_brick
from cinder import coordination, i18n, objects, rpc, service, utils, version
from cinder.common import config
from oslo_config import cfg
from oslo_log import log as oslo_log
from oslo_privsep import priv_context
from oslo_service import service as oslo_service

BACKEND_HOST = cfg.StrOpt("backend_host")


def main(log: str, *arguments: str) -> None:
    conf = cfg.CONF
    i18n.enable_lazy()
    objects.register_all()
    conf.register_cli_opt(BACKEND_HOST)
    conf(arguments, project="cinder", version=version.version_string())
    config.set_middleware_defaults()
    oslo_log.setup(conf, "cinder")
    priv_context.init(root_helper=shlex.split(utils.get_root_helper()))
    os_brick.setup(conf)
    coordination.COORDINATOR.start()
    rpc.init(conf)
    launcher = oslo_service.ServiceLauncher(conf)
    launcher.launch_service(_with_an_id_of_its_own(service.Service.create(binary="cinder-scheduler")))
    for backend in conf.enabled_backends:
        conf.register_opt(BACKEND_HOST, group=backend)
        host = f"{conf.host}@{backend}"
        volumes = service.Service.create(host=host, service_name=backend, binary="cinder-volume", coordination=True)
        launcher.launch_service(_with_an_id_of_its_own(volumes))
    api = service.WSGIService("osapi_volume")
    api.server.app = accesslog.logged(api.server.app, "cinder", log)
    launcher.launch_service(api)
    launcher.wait()


def _with_an_id_of_its_own(one: Any) -> Any:
    """Cinder keeps the id of "the" service in the class, so only the last one made would report itself as up."""
    report = one.report_state

    def report_state() -> None:
        service.Service.service_id = one.origin_service_id
        report()

    one.report_state = report_state
    return one


if __name__ == "__main__":
    main(*sys.argv[1:])
