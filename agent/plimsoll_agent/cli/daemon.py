"""``plimsoll daemon``."""

from __future__ import annotations

import argparse
import gc
import logging

from plimsoll_agent.adapters import journal
from plimsoll_agent.adapters.deadline import SharedCalls
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.adapters.libvirt.event_link import EventLink
from plimsoll_agent.adapters.service_manager import ServiceManager
from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.daemon.service import Dependencies, Service, Writes, heed_signals
from plimsoll_agent.terminal.base import NodeCommand

_OFTEN = (700, 10, 10)
"""Python's own threshold. With that of ``main``, which is for short commands, megabytes of garbage would stay."""


class Daemon(NodeCommand):
    """Keep limits in force, by passes on libvirt's events.

    A pass over a guest begins as soon as it starts, gets a disk, or has its limits changed; one over the whole node
    at an interval.

    It runs in the foreground; plimsoll-daemon.service starts it. SIGHUP reads the settings again and starts a pass
    over the whole node, and so does an edit of the settings. SIGTERM ends it when the passes that run have ended, at
    most stop_timeout later. The mode is that of the settings: in mode observe nothing is written.

    It ends by itself, to be started again, if it may have no more threads, or if five passes over the whole node fail
    in a row while libvirt's events arrive.

    Exit status:
        0   stopped
        1   the settings or the state directory cannot be used, or it is to be started again
        64  usage
        75  another daemon runs on this node

    Examples:
        plimsoll daemon
        plimsoll daemon --uri qemu+unix:///system?socket=/run/libvirt/virtqemud-sock
        plimsoll daemon -v
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        def load() -> Settings:
            return self.settings(parsed_args)

        def stamp() -> object:
            return config.stamp(self.app.options.config_file, self.app.options.config_dir)

        service = Service(
            Dependencies(
                load=load,
                stamp=stamp,
                connect=_connect,
                link=lambda settings, tell: EventLink(settings.uri, tell),
                manager=ServiceManager(),
            )
        )
        heed_signals(service)
        journal.LOG.setLevel(logging.INFO)
        gc.freeze()  # modules stay
        gc.set_threshold(*_OFTEN)
        return service.run()


def _connect(settings: Settings, writes: Writes, shared_calls: SharedCalls) -> Libvirt:
    at_once = settings.bounds.at_once
    return Libvirt(
        settings.uri, deadline=settings.deadline, at_once=at_once, writes=writes, shared_calls=shared_calls
    )
