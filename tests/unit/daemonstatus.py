"""What a daemon tells of itself, with every value set."""

from __future__ import annotations

from datetime import timedelta

from plimsoll_agent.monitor.daemon_status import DaemonStatus, WaitingGuest
from plimsoll_agent.util.frozen import replace
from tests.unit.node import uuid_of
from tests.unit.values import NOON

WAITS = WaitingGuest(uuid=uuid_of(1), name="instance-00000001", until=NOON + timedelta(minutes=2), failures=3)
FULL = DaemonStatus(
    version="1.0",
    mode="enforce",
    pid=4711,
    started=NOON - timedelta(hours=2),
    written=NOON,
    full_pass_interval=300,
    connected_since=NOON - timedelta(hours=1),
    reconnects=2,
    events={"started": 7, "tunable": 9},
    lost=1,
    passes={"changed": 7, "in-sync": 2},
    seconds={"0.05": 8, "1": 9, "+Inf": 9},
    seconds_sum=0.75,
    full_passes={"done": 24, "failed": 1},
    last_full_pass=NOON - timedelta(minutes=1),
    queue=1,
    set_aside=(WAITS,),
    damped=(replace(WAITS, failures=0),),
    threads=14,
    descriptors=31,
    memory=60_000_000,
    reloaded=False,
    trouble="plimsoll.conf:3: rounds: must be at least 1",
)
