#!/usr/bin/env bash
# tooz 9.1.0 with etcd3gw 2.7.0 and etcd 3.4.23 (Debian 12): a lock whose lease has ended says that it is held.
#
# One expects `acquired` and `heartbeat()` of a lock to be false once its time is over and another one has it. With the
# etcd3 driver both stay True: heartbeat() refreshes the lease, which etcd answers with -1, and does not look at that. So
# two holders each believe that the lock is theirs, after a pause of one that is longer than lock_timeout (a stopped
# guest, a slow disk). Only release() tells it, by False. tooz's own group membership does look for the -1.
set -euo pipefail
directory=$(mktemp -d)
trap 'kill "${etcd:-}" 2> /dev/null || true; rm -rf "$directory"' EXIT
cd "$directory"
apt-get -q -o APT::Sandbox::User=root download etcd-server=3.4.23-4+b4 > /dev/null
dpkg -x etcd-server_*.deb .
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tooz==9.1.0 etcd3gw==2.7.0
usr/bin/etcd --data-dir data --listen-client-urls http://127.0.0.1:23791 \
    --advertise-client-urls http://127.0.0.1:23791 --listen-peer-urls http://127.0.0.1:23792 2> etcd.log > etcd.log &
etcd=$!
sleep 3
venv/bin/python - << 'PYTHON'
import sys
import time

from tooz import coordination


def lock(name):
    url = "etcd3+http://127.0.0.1:23791/?lock_timeout=3&api_version=v3"
    member = coordination.get_coordinator(url, name)
    member.start()
    return member.get_lock(b"slot")


first, second = lock(b"first"), lock(b"second")
assert first.acquire(blocking=False)
time.sleep(7)
other_has_it = second.acquire(blocking=False)
told = first.acquired, first.heartbeat(), second.acquired, second.heartbeat()
released = first.release()
print(f"second acquires it: {other_has_it}; acquired and heartbeat of the first and of the second: {told}; "
      f"release of the first: {released}")
sys.exit(0 if other_has_it and all(told) and not released else 1)
PYTHON
