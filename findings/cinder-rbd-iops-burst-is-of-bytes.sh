#!/usr/bin/env bash
# Cinder 29.0.0: its RBD driver sets the burst of IOPS of a QoS spec as librbd's burst of bytes, and ignores keys per GB.
#
# A spec with consumer back-end or both is set in librbd when a volume is created or retyped (driver 1.3.0 and later).
# One expects total_iops_sec_max to become rbd_qos_iops_burst, as read_iops_sec_max becomes rbd_qos_read_iops_burst.
# It becomes rbd_qos_bps_burst, also in the table of Cinder's documentation: 1000 requests are 1000 bytes, and where
# the spec has a burst of bytes too, whichever key comes last counts. Keys per GB, which Cinder computes for Nova, only
# leave a warning in a log: a spec of these alone limits nothing there. The driver is Cinder's; the image only writes
# down what is set.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check cinder==29.0.0
cat > driver.py << 'PYTHON'
import contextlib
import sys
from types import SimpleNamespace

from cinder.volume.drivers import rbd

settings = {}


@contextlib.contextmanager
def image(*_):
    yield SimpleNamespace(config_set=settings.__setitem__)


rbd.RBDVolumeProxy = image
driver, volume = object.__new__(rbd.RBDDriver), SimpleNamespace(name="volume-1")


def applied(**spec):
    settings.clear()
    driver.update_rbd_image_qos(volume, {key: str(value) for key, value in spec.items()})
    print(spec, "->", settings)
    return dict(settings)


right = (
    applied(read_iops_sec=500, read_iops_sec_max=1000)
    == {"rbd_qos_read_iops_limit": "500", "rbd_qos_read_iops_burst": "1000"},
    applied(total_iops_sec=500, total_iops_sec_max=1000)
    == {"rbd_qos_iops_limit": "500", "rbd_qos_bps_burst": "1000"},
    applied(total_bytes_sec=10**8, total_bytes_sec_max=2 * 10**8, total_iops_sec=500, total_iops_sec_max=1000)
    == {"rbd_qos_bps_limit": "100000000", "rbd_qos_bps_burst": "1000", "rbd_qos_iops_limit": "500"},
    applied(total_iops_sec_per_gb=30, total_iops_sec_per_gb_min=500) == {},
)
print("driver", rbd.RBDDriver.VERSION, right)
sys.exit(not all(right))
PYTHON
venv/bin/pip list --disable-pip-version-check 2> /dev/null | grep '^cinder '
venv/bin/python -W ignore driver.py
